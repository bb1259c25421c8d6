"""Nodes as people see them."""

import msgspec
import pytest

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.lease.grants import HeldLease
from leasehold.core.questions.nodes import (
    NodeLiveness,
    node_status,
    nodes,
    recovery_text,
    reported_recovery,
    segments_lacked,
)
from leasehold.core.replicas.copies import Shortfall
from leasehold.core.words.messages import ClusterStatus, Lacked, NodeRecovery, RecoveryProgress, SessionEnd, Silence
from leasehold.core.words.records import SettledHow
from leasehold.limits.lease import SILENT_SHOWN_NS
from leasehold.limits.recovery import RECOVERY_WHY_CHARACTERS_MAX
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from tests.unit.core.catalog_words import node

NOW_NS = 50 * SECOND_NS
TOLD = RecoveryProgress(
    node=1,
    incarnation=1,
    session="5" * 32,
    case="b",
    why="40 revisions",
    applied=1_200,
    target=5_000,
    left_ns=2_100 * MILLISECOND_NS,
)


LEASE = HeldLease(incarnation=1, session_hash=b"s", bound_ns=NOW_NS, applied=9, closed=None, required=9)
AWAY = NodeLiveness(held=None, lease_end_ns=0, is_connected=False, recovery=None, join_wait_ns=0, seen="ALIVE")
SERVING = msgspec.structs.replace(AWAY, held=LEASE, lease_end_ns=NOW_NS + SECOND_NS, is_connected=True)
NEW, OUT, IN = node(1, incarnation=0), node(1), node(1, member=True)


def held(**fields):
    return msgspec.structs.replace(LEASE, **fields)


@pytest.mark.parametrize(
    ("of", "known", "state", "stage"),
    [
        (NEW, {}, "DOWN", "REGISTERED"),
        (OUT, {}, "DOWN", "ADMITTED"),
        (node(1, left=True), {}, "DOWN", "LEFT"),
        (OUT, {"held": held(closed=SettledHow.FENCED)}, "DOWN", "LEFT"),
        (OUT, {"is_connected": True}, "RECOVERING", "CONNECTED"),
        (OUT, {"is_connected": True, "recovery": reported_recovery(TOLD)}, "RECOVERING", "RECOVERING"),
        (IN, {"is_connected": True, "held": held(applied=8)}, "RECOVERING", "MEMBER"),
        (IN, {"is_connected": True, "held": LEASE}, "FENCED", "MEMBER"),
        (IN, {"held": LEASE, "lease_end_ns": NOW_NS + 1}, "ACTIVE", "MEMBER"),
        (IN, {"held": held(closed=SettledHow.SURRENDERED), "lease_end_ns": NOW_NS + 1}, "DOWN", "MEMBER"),
        (IN, {"held": held(closed=SettledHow.ENDED), "lease_end_ns": NOW_NS + 1}, "DOWN", "MEMBER"),
        (IN, {"held": held(applied=None), "lease_end_ns": NOW_NS + 1}, "DOWN", "MEMBER"),
        (IN, {"join_wait_ns": 5}, "DOWN", "WAITING"),
        (IN, {"join_wait_ns": 5, "is_connected": True, "held": LEASE}, "FENCED", "MEMBER"),
    ],
)
def test_the_state_and_the_stage_of_a_node(of, known, state, stage):
    status = node_status(of, msgspec.structs.replace(AWAY, **known), None, NOW_NS)
    assert (status.state, status.stage) == (state, stage)


def test_the_status_of_a_node_that_serves():
    found = Shortfall(short=4, of_node={1: 3}, alone={1: 2}, lost={}, lacked={2: 6, 1: 5})
    status = node_status(IN, SERVING, found, NOW_NS)
    assert (status.applied_revision, status.lease_remaining_ns, status.seen) == (9, SECOND_NS, "ALIVE")
    assert (status.segments_short, status.segments_alone) == (3, 2)
    assert segments_lacked(found) == (Lacked(node=1, segments=5), Lacked(node=2, segments=6))


def test_a_process_that_waits_to_be_let_in_is_told_how_long_at_most():
    known = msgspec.structs.replace(AWAY, join_wait_ns=7 * SECOND_NS)
    recovery = node_status(IN, known, None, NOW_NS).recovery
    assert recovery_text(recovery, is_in=False) == ("waits to join until earlier leases have ended; about 7 s left")


def test_the_rows_of_nodes_tell_their_sessions_and_disks():
    shown = [node_status(node(number, member=True), SERVING, None, NOW_NS) for number in (1, 2, 3, 4)]
    status = ClusterStatus(
        cluster_id="c" * 32,
        term=1,
        revision=9,
        bound_ns=1,
        nodes=tuple(shown),
        silences=(Silence(node=1, silent_ns=SILENT_SHOWN_NS - 1), Silence(node=2, silent_ns=SILENT_SHOWN_NS)),
        session_ends=(SessionEnd(node=3, how="GONE", ago_ns=1),),
        disks_full=(2,),
    )
    made = nodes(status, Catalog(revision=9), {1: 1_893_456_000})
    rows = [dict(zip(made.columns, row, strict=True)) for row in made.rows]
    assert [one["certificate"] for one in rows] == ["2030-01-01 00:00:00Z", None, None, None]
    assert [(one["id"], one["session"], one["disk"]) for one in rows] == [
        (1, "OPEN", None),
        (2, "SILENT", "FULL"),
        (3, "GONE", None),
        (4, None, None),
    ]
    assert rows[0]["lease_remaining_ms"] == SECOND_NS // MILLISECOND_NS


@pytest.mark.parametrize(
    ("fields", "is_in", "expected"),
    [
        ({}, False, "b 1200/5000, about 3 s left"),
        ({"case": "a", "applied": 7, "target": 7, "left_ns": 0}, False, "a 7/7"),
        ({"case": "c", "keys": 10, "keys_total": 40, "left_ns": None}, False, "c 10/40 keys"),
        (
            {"case": "c", "keys": 40, "keys_total": 40, "segments_kept": 7, "segments_missing": 2},
            False,
            "c 1200/5000, 7 segments kept, 2 to fetch, about 3 s left",
        ),
        (
            {"segments_kept": 7, "segments_fetched": 2, "segments_evicted": 1, "left_ns": 0},
            True,
            "b, 7 segments kept, 2 fetched, 1 evicted",
        ),
        ({"segments_missing": 1}, True, "b, 1 segment to fetch, about 3 s left"),
    ],
)
def test_a_recovery_in_a_few_words(fields, is_in, expected):
    """Of a node that is in, no revisions: what it told last is older than what it has applied since."""
    one = dict.fromkeys(NodeRecovery.__struct_fields__, 0)
    one |= {"case": "b", "why": "", "applied": 1_200, "target": 5_000, "left_ns": 2_100 * MILLISECOND_NS}
    assert recovery_text(NodeRecovery(**{**one, **fields}), is_in=is_in) == expected


def test_what_a_node_reports_of_its_recovery_can_not_steer_a_terminal():
    steering = msgspec.structs.replace(TOLD, case="\x1b[2J", why="\x1b]0;owned\x07\nn1 LIVE\u202e")
    told = reported_recovery(steering)
    assert (told.case, told.why) == ("?", " ]0;owned  n1 LIVE ")
    long = reported_recovery(msgspec.structs.replace(TOLD, why="w" * 5_000))
    assert len(long.why) == RECOVERY_WHY_CHARACTERS_MAX
    assert (long.case, long.applied, long.left_ns) == ("b", 1_200, 2_100 * MILLISECOND_NS)
