"""How far a node is on its way in, in a few words and for programs."""

import json
from pathlib import Path

import msgspec
import pytest

from leasehold.cli.output import Output
from leasehold.cli.recovery import recovery_line, recovery_words
from leasehold.cli.status import show_status
from leasehold.cli.wait import not_serving, of_this_process, state_words
from leasehold.core.questions.nodes import waits_to_join
from leasehold.core.words.messages import ClusterStatus, Lacked, NodeRecovery, NodeStatus, SessionEnd, Silence
from leasehold.ids import ClusterId, Incarnation, NodeId, Revision, Term

NODE = NodeStatus(
    id=NodeId(1),
    name="node-1",
    address="127.0.0.1:1",
    incarnation=Incarnation(2),
    state="RECOVERING",
    applied_revision=Revision(3),
    lease_remaining_ns=0,
)
REPLAY = NodeRecovery(
    case="b",
    why="the revisions after 1,100 are still there",
    applied=Revision(1_200),
    target=Revision(5_000),
    keys=0,
    keys_total=0,
    segments_kept=0,
    segments_fetched=0,
    segments_missing=0,
    segments_evicted=0,
    left_ns=2_100_000_000,
)

STATUS = ClusterStatus(
    cluster_id=ClusterId("c" * 32), term=Term(1), revision=Revision(9), bound_ns=4_000_000_000, nodes=(NODE,)
)


def words(stage: str, recovery: NodeRecovery | None, **fields: object) -> str:
    told = None if recovery is None else msgspec.structs.replace(recovery, **fields)
    return recovery_words(msgspec.structs.replace(NODE, stage=stage, recovery=told))


def test_a_leader_that_tells_nothing_leaves_nothing_to_say() -> None:
    assert recovery_words(NODE) == ""


def test_a_lease_of_the_last_process_is_not_that_of_the_next_which_waits_for_its_end() -> None:
    left = msgspec.structs.replace(NODE, state="ACTIVE", lease_remaining_ns=20_100_000_000)
    assert of_this_process(left, True, left.address) == left
    assert of_this_process(left, False, left.address).state == "DOWN"
    waits = of_this_process(left, True, "127.0.0.1:2")
    told = state_words(waits, None)
    assert told == "JOINING, when the lease of its last process has ended, in 21 s"
    error = not_serving(Path("there"), "node-1", waits, told, 3_000_000_000)
    assert told in error.text
    assert "leasehold node wait node-1 --dir there" in error.hint


def test_the_stages_before_a_recovery() -> None:
    assert words("ADMITTED", None) == "admitted"
    assert words("MEMBER", None) == ""


def test_a_replay() -> None:
    assert words("RECOVERING", REPLAY) == "b: revision 1,200 of 5,000, about 3 s left"
    assert words("RECOVERING", REPLAY, left_ns=None) == "b: revision 1,200 of 5,000"


def test_a_snapshot_and_the_replay_behind_it() -> None:
    assert words("RECOVERING", REPLAY, case="c", keys=10, keys_total=4_000, left_ns=None) == "c: 10 of 4,000 keys"
    then = words("RECOVERING", REPLAY, case="c", keys=4_000, keys_total=4_000, left_ns=None)
    assert then == "c: revision 1,200 of 5,000"


def test_a_node_that_is_in_shows_what_it_still_lacks_and_what_has_come() -> None:
    fetching = words("MEMBER", REPLAY, segments_fetched=2, segments_missing=1_234)
    assert fetching == "b: 2 segments fetched, 1,234 to fetch, about 3 s left"
    assert words("MEMBER", REPLAY, segments_fetched=2) == ""


def test_one_that_waits_to_be_let_in_says_for_how_long() -> None:
    waits = msgspec.structs.replace(NODE, state="DOWN", stage="WAITING", recovery=waits_to_join(589_900_000_000))
    words = "waits to join until earlier leases have ended; about 590 s left"
    assert recovery_words(waits) == recovery_line(waits) == words


def test_a_process_that_is_gone_gets_on_with_nothing() -> None:
    gone = msgspec.structs.replace(NODE, state="DOWN", stage="RECOVERING", recovery=REPLAY)
    assert recovery_words(gone) == recovery_line(gone) == ""


def shown(
    capsys: pytest.CaptureFixture[str],
    node: NodeStatus,
    output: Output,
    short: int | None = 0,
    lost: int | None = 0,
    lacked: tuple[Lacked, ...] = (),
) -> str:
    status = msgspec.structs.replace(
        STATUS,
        nodes=(node,),
        segments_short=short,
        segments_lost=lost,
        lacked=lacked,
    )
    show_status(status, output)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("short", "lost", "alone", "said"),
    [
        (0, 0, 0, ""),
        (3, 0, 0, "on fewer nodes than the table wants: 3 segments"),
        (3, 0, 1, "on fewer nodes than the table wants: 3 segments; node-1 alone holds 1: losing that disk loses rows"),
        (1, 1, 0, "lost: 1 segment; no node holds them, and scans of their tables end with SEGMENTS_LOST"),
        (None, None, None, "the coordinator still counts how many copies each segment has"),
    ],
)
def test_what_lacks_copies_stands_under_the_table(
    capsys: pytest.CaptureFixture[str], short: int | None, lost: int | None, alone: int | None, said: str
) -> None:
    node = msgspec.structs.replace(NODE, stage="MEMBER", segments_alone=alone, segments_short=short)
    lines = shown(capsys, node, Output.TABLE, short, lost).splitlines()
    assert (lines[-1] == said) if said else (not any("segment" in one for one in lines))
    told = json.loads(shown(capsys, node, Output.JSON, short, lost))
    assert (told["segments_short"], told["segments_lost"]) == (short, lost)
    assert (told["nodes"][0]["segments_short"], told["nodes"][0]["segments_alone"]) == (short, alone)


def test_what_a_node_should_hold_and_has_no_file_of_is_told_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    node = msgspec.structs.replace(NODE, stage="MEMBER", segments_alone=0, segments_short=3)
    lacks = (Lacked(node=node.id, segments=2),)
    removed, lacked = shown(capsys, node, Output.TABLE, 3, 3, lacks).splitlines()[-2:]
    assert removed.startswith("lost: 1 segment; no node holds them")
    assert lacked.startswith(
        "lost: 2 segments that only node-1 should hold, and their files are missing or damaged; restore its disk"
    )
    assert "leasehold node remove node-1 --force" in lacked
    assert json.loads(shown(capsys, node, Output.JSON, 3, 3, lacks))["nodes"][0]["segments_lacked"] == 2


def test_under_the_table_stands_all_of_it_while_there_is_something_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    said = "the revisions after 1,100 are still there"
    assert said not in shown(capsys, msgspec.structs.replace(NODE, stage="MEMBER", recovery=REPLAY), Output.TABLE)
    told = msgspec.structs.replace(REPLAY, segments_kept=7, segments_fetched=2, segments_missing=3, segments_evicted=1)
    busy = msgspec.structs.replace(NODE, stage="RECOVERING", recovery=told)
    assert shown(capsys, busy, Output.TABLE).splitlines()[-1] == (
        f"node-1: case b: {said}; revision 1200 of 5000; 7 segments kept, 2 fetched, 3 to fetch, 1 evicted;"
        " about 3 s left"
    )


def test_programs_get_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    busy = msgspec.structs.replace(NODE, stage="RECOVERING", recovery=REPLAY)
    told = json.loads(shown(capsys, busy, Output.JSON))["nodes"][0]
    assert told["stage"] == "RECOVERING"
    assert told["recovery"]["left_ms"] == 2100
    assert set(told["recovery"]) >= set(NodeRecovery.__struct_fields__) - {"left_ns"}
    assert json.loads(shown(capsys, NODE, Output.JSON))["nodes"][0]["recovery"] is None


def test_a_node_that_hangs_is_told_from_one_that_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    status = msgspec.structs.replace(
        STATUS,
        nodes=(msgspec.structs.replace(NODE, state="FENCED", stage="MEMBER"),),
        silences=(Silence(node=NODE.id, silent_ns=4_200_000_000),),
    )
    show_status(status, Output.TABLE)
    assert "node-1: connected, silent for 4.2 s" in capsys.readouterr().out
    show_status(status, Output.JSON)
    assert json.loads(capsys.readouterr().out)["nodes"][0]["silent_ms"] == 4200


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("NO_ANSWER", "it stopped answering 2.5 s ago: it is paused, hangs, is cut off or has ended"),
        ("GONE", "its connection was closed 2.5 s ago: its process has ended"),
        ("CLOSED", "its process closed the session 2.5 s ago"),
        ("SURRENDERED", "it was stopped cleanly 2.5 s ago"),
        ("ENDED", "its process ended 2.5 s ago, as its supervisor reports"),
        ("REFUSED", "the coordinator ended its session 2.5 s ago"),
        ("A_LATER_WORD", None),
    ],
)
def test_why_a_node_is_not_connected_is_said(capsys: pytest.CaptureFixture[str], how: str, said: str | None) -> None:
    status = msgspec.structs.replace(
        STATUS,
        nodes=(msgspec.structs.replace(NODE, state="DOWN", stage="MEMBER"),),
        session_ends=(SessionEnd(node=NODE.id, how=how, ago_ns=2_500_000_000),),
    )
    show_status(status, Output.TABLE)
    told = capsys.readouterr().out
    assert f"node-1: {said}" in told if said is not None else "node-1: " not in told
    show_status(status, Output.JSON)
    node = json.loads(capsys.readouterr().out)["nodes"][0]
    assert (node["session_end"], node["session_ended_ms"]) == (how, 2500)


def test_a_node_whose_disk_is_full_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    status = msgspec.structs.replace(
        STATUS,
        nodes=(NODE, msgspec.structs.replace(NODE, id=NodeId(2), name="node-2")),
        disks_full=(NodeId(2),),
    )
    show_status(status, Output.TABLE)
    told = capsys.readouterr().out
    assert "node-2: DISK_FULL" in told
    assert "node-1: DISK_FULL" not in told
    show_status(status, Output.JSON)
    assert [node["disk_full"] for node in json.loads(capsys.readouterr().out)["nodes"]] == [False, True]


def test_a_node_whose_disk_fails_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    silence = Silence(node=NODE.id, silent_ns=0, disk_failing=True)
    show_status(msgspec.structs.replace(STATUS, silences=(silence,)), Output.TABLE)
    assert "node-1: DISK_ERROR: its disk fails" in capsys.readouterr().out
    show_status(msgspec.structs.replace(STATUS, silences=(silence,)), Output.JSON)
    assert [node["disk_failing"] for node in json.loads(capsys.readouterr().out)["nodes"]] == [True]


def test_a_clock_that_is_not_believed_is_told_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    status = msgspec.structs.replace(STATUS, clock_ahead_ns=(40 * 86_400 + 7) * 1_000_000_000 + 5)
    show_status(status, Output.TABLE)
    _, told, hint, *_ = capsys.readouterr().out.splitlines()
    assert told == (
        "the wall clock of the coordinator is ahead by 40d7s: it is not trusted, and rows expire by measured time"
    )
    assert hint.startswith("hint: correct the clock; if it is right, ALTER CLUSTER SET clock_step = '..'")
    show_status(status, Output.JSON)
    assert json.loads(capsys.readouterr().out)["clock_ahead_s"] == 40 * 86_400 + 7
    show_status(STATUS, Output.TABLE)
    assert "clock" not in capsys.readouterr().out


def test_a_cluster_that_anybody_may_join_is_warned_of_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    status = msgspec.structs.replace(STATUS, anybody_may_join=True)
    show_status(status, Output.TABLE)
    warning = capsys.readouterr().out.splitlines()[1]
    assert warning == (
        "WARNING: anyone who can reach the coordinator's port may join as a node and copy all data: it has no"
        " cluster key (start it with --cluster-key FILE)"
    )
    show_status(status, Output.JSON)
    assert json.loads(capsys.readouterr().out)["anybody_may_join"] is True
    show_status(STATUS, Output.TABLE)
    assert "WARNING" not in capsys.readouterr().out


def test_what_is_wrong_with_members_of_the_store_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    status = msgspec.structs.replace(STATUS, store_warnings=("etcd 3.4.1 is old", "etcd 3.5.4 is passed over"))
    show_status(status, Output.TABLE)
    told = capsys.readouterr().out.splitlines()
    assert told[1:3] == ["WARNING: etcd 3.4.1 is old", "WARNING: etcd 3.5.4 is passed over"]
    show_status(status, Output.JSON)
    assert json.loads(capsys.readouterr().out)["store_warnings"] == list(status.store_warnings)
