"""Which of several states a cluster goes on from."""

from pathlib import Path

import pytest

from leasehold.core.recovery.backup import BackupFacts
from leasehold.core.recovery.sources import FoundState, newest
from leasehold.core.words.messages import SnapshotEnd
from leasehold.core.words.records import ClusterRecord, LeaderRecord
from leasehold.errors import LeaseholdError
from leasehold.ids import ClusterId, Generation, LineageHash, Revision, Term


def state(
    name: str, revision: int, *, generation: int = 1, lineage: bytes = b"l", digest: bytes = b"d", cluster: str = "c"
) -> FoundState:
    number = Generation(generation)
    facts = BackupFacts(
        cluster=ClusterRecord(cluster_id=ClusterId(cluster), generation=number, format_version=1),
        leader=LeaderRecord(generation=number, term=Term(1), holder="", beat=0, duration_ns=0),
        end=SnapshotEnd(revision=Revision(revision), lineage=LineageHash(lineage), keys=1, digest=digest),
    )
    return FoundState(Path(name), facts)


def refused(*states: FoundState) -> LeaseholdError:
    with pytest.raises(LeaseholdError) as raised:
        newest(states)
    assert raised.value.exit_code == 3
    return raised.value


def test_the_newest_revision_is_taken_wherever_it_stands() -> None:
    states = [state("a", 5), state("b", 7), state("c", 6)]
    assert newest(states) == newest(states[::-1]) == states[1]


def test_a_later_generation_is_newer_than_any_revision_before_it() -> None:
    states = [state("a", 500), state("b", 7, generation=1_800_000_000)]
    assert newest(states) == newest(states[::-1]) == states[1]


def test_of_equal_states_the_first_is_taken() -> None:
    states = [state("a", 5), state("b", 7), state("c", 7)]
    assert newest(states) == states[1]


@pytest.mark.parametrize(
    ("other", "hint"), [(state("b", 7, lineage=b"m"), "have followed"), (state("b", 7, digest=b"e"), "is damaged")]
)
def test_two_newest_that_differ_are_refused(other: FoundState, hint: str) -> None:
    error = refused(state("a", 7), other, state("c", 6))
    assert error.code == "DIVERGED"
    assert "a and b differ, though both are at revision 7 of generation 1" in error.text
    assert "--from" in error.hint
    assert hint in error.hint


def test_older_states_may_differ() -> None:
    states = [state("a", 5), state("b", 5, lineage=b"m"), state("c", 6)]
    assert newest(states) == states[2]


def test_states_of_two_clusters_are_refused() -> None:
    error = refused(state("a", 7), state("b", 5, cluster="other"))
    assert error.code == "OTHER_CLUSTER"
    assert "b of cluster other" in error.text


def test_where_nothing_is_whole_nothing_is_taken() -> None:
    assert refused().code == "NOTHING_WHOLE"
