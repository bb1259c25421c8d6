"""Where to ask, and whom last: rests, and lookups that fail, come late, or tell of another table."""

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from leasehold.client.threads import places_of
from leasehold.core.words.messages import NodeAbsence, TableFacts
from leasehold.error_codes import ErrorCode
from leasehold.errors import Fenced, LeaseholdError, NotFound, Refused, Unreachable
from leasehold.ids import BucketNumber, Generation, NodeId, ObjectId, Revision
from leasehold.limits.clients import PLACE_REST_MAX_NS, PLACE_REST_MIN_NS, PLACES_AGAIN_NS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.steps import run
from tests.unit.client.pace import paced
from tests.unit.node.cluster import Cluster, cluster


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    """A table on two nodes."""
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        yield made


def facts_at(made: Cluster, revision: int, **other: object) -> TableFacts:
    return msgspec.structs.replace(made.facts(), revision=Revision(revision), **other)


def test_rests_grow_with_each_meeting_and_end_with_the_first_answer(pair: Cluster) -> None:
    now = [0]
    places = places_of(pair.facts(), runtime=paced(pytest.fail, lambda: now[0]))
    one, two = NodeId(1), NodeId(2)
    length_ns = PLACE_REST_MIN_NS
    for _ in range(10):
        places.failed(one, Fenced("fenced"))
        places.failed(one, Fenced("fenced, another stream says"))
        assert places.in_turn((one, two)) == (two, one)
        now[0] += length_ns - 1
        assert places.in_turn((one, two)) == (two, one)
        now[0] += 1
        assert places.in_turn((one, two)) == (one, two)
        length_ns = min(2 * length_ns, PLACE_REST_MAX_NS)
    places.failed(one, Fenced("fenced"))
    places.served(one)
    assert places.in_turn((one, two)) == (one, two)
    places.failed(one, Fenced("fenced"))
    now[0] += PLACE_REST_MIN_NS
    assert places.in_turn((one, two)) == (one, two)


@pytest.mark.parametrize("code", ["SEGMENT_MISSING", "CORRUPT", "NOT_ASSIGNED"])
def test_what_concerns_one_segment_alone_makes_nobody_rest(pair: Cluster, code: str) -> None:
    places = places_of(pair.facts())
    places.failed(NodeId(1), Refused("not here", code=code))
    assert places.in_turn((NodeId(1), NodeId(2))) == (1, 2)


def test_places_only_ever_get_newer_and_stay_those_of_one_table(pair: Cluster) -> None:
    known = pair.facts()
    now, answers = (
        [0],
        [
            facts_at(pair, known.revision - 1, places=()),
            facts_at(pair, known.revision + 5, table=ObjectId(99), places=()),
            facts_at(pair, known.revision + 5, places=tuple(one for one in known.places if one.node == 1)),
        ],
    )
    places = places_of(known, lambda: answers.pop(0), runtime=paced(pytest.fail, lambda: now[0]))
    for revision, address in ((known.revision, True), (known.revision, True), (known.revision + 5, False)):
        run(places.look_again())
        assert places.revision == revision
        assert (places.place(NodeId(2)) is not None) == address
        now[0] += PLACES_AGAIN_NS


@pytest.mark.parametrize("error", [Unreachable("no answer"), NotFound("no table db.t"), Refused("other", code="X")])
def test_L15_a_lookup_that_fails_leaves_the_places_as_they_are(pair: Cluster, error: LeaseholdError) -> None:
    def refresh() -> TableFacts:
        raise error

    places = places_of(pair.facts(), refresh)
    run(places.look_again())
    assert places.replicas(BucketNumber(0)) == pair.facts().buckets[0].replicas
    assert [places.place(one.node) for one in pair.facts().places] == list(pair.facts().places)
    assert error.text in places.nobody("nobody", {}).text


def test_one_reader_asks_no_more_often_than_its_bound_and_only_once_at_a_time(pair: Cluster) -> None:
    asked, now = [], [0]
    entered, go_on = threading.Event(), threading.Event()

    def refresh() -> TableFacts:
        asked.append(now[0])
        entered.set()
        assert go_on.wait(10)
        return pair.facts()

    places = places_of(pair.facts(), refresh, runtime=paced(pytest.fail, lambda: now[0]))
    asking = threading.Thread(target=lambda: run(places.look_again()))
    asking.start()
    assert entered.wait(10)
    run(places.look_again())  # returns at once: the other thread's answer counts for all
    go_on.set()
    asking.join(10)
    run(places.look_again())
    now[0] += PLACES_AGAIN_NS - 1
    run(places.look_again())
    assert asked == [0]
    now[0] += 1
    run(places.look_again())
    assert asked == [0, PLACES_AGAIN_NS]


@pytest.mark.parametrize("ahead", [-1, 0, 5])
@pytest.mark.parametrize("table", [None, ObjectId(99)])
def test_R6_a_newer_generation_ends_all_streams_of_a_reader_at_once(
    pair: Cluster, ahead: int, table: ObjectId | None
) -> None:
    """Whatever its revision, which counts anew, and whatever has the name there now."""
    known = pair.facts()
    other = known.table if table is None else table
    answers = [facts_at(pair, known.revision + ahead, table=other, generation=Generation(7))]
    places = places_of(known, lambda: answers.pop(0))
    for _ in range(3):  # the others are told without asking again
        with pytest.raises(Refused, match=r"in generation 1 .* generation 7 now") as caught:
            run(places.look_again())
        assert caught.value.code == "GENERATION_CHANGED"
    assert answers == []


def test_R6_of_a_coordinator_that_still_leads_a_lost_state_nothing_is_taken(pair: Cluster) -> None:
    known = facts_at(pair, pair.catalog.revision, generation=Generation(7))
    places = places_of(known, lambda: facts_at(pair, known.revision + 5, places=()))
    run(places.look_again())
    assert places.revision == known.revision
    assert places.place(NodeId(1)) is not None


def test_the_error_says_until_when_and_a_write_when_others_take_over(pair: Cluster) -> None:
    lease = NodeAbsence(node=NodeId(1), lease_remaining_ns=2_100_000_000, away_ns=0, replaced_in_ns=902 * SECOND_NS)
    away = NodeAbsence(node=NodeId(2), lease_remaining_ns=0, away_ns=75 * SECOND_NS, replaced_in_ns=825 * SECOND_NS)
    places = places_of(msgspec.structs.replace(pair.facts(), absences=(lease, away)))
    reasons = {NodeId(number): Unreachable("no answer for 500 ms") for number in (1, 2)}
    read, written = places.nobody("nobody reads", reasons), places.nobody("nobody writes", reasons, is_write=True)
    assert "no answer for 500 ms (its lease ends in 2.1 s); node 2" in read.text
    assert read.text.endswith("no answer for 500 ms (it has held no lease for 1m15s)")
    assert "replace_after" not in read.hint, "a replica that begins has no rows"
    assert written.hint == f"{read.hint}; or once other nodes take over its buckets, in 13m45s (replace_after)"
    never = msgspec.structs.replace(away, replaced_in_ns=None)
    places = places_of(msgspec.structs.replace(pair.facts(), absences=(never,)))
    assert places.nobody("nobody writes", reasons, is_write=True).hint == read.hint


def test_the_error_names_the_disks_that_are_full(pair: Cluster) -> None:
    full = Refused("no space is left to write x", code=ErrorCode.DISK_FULL, hint="free some")
    reasons = {NodeId(1): Unreachable("no answer for 500 ms"), NodeId(2): full}
    told = places_of(pair.facts()).nobody("nobody writes", reasons, is_write=True)
    assert "no space is left to write x" in told.text
    assert told.hint.startswith("free some space on the disk of n2, ")
