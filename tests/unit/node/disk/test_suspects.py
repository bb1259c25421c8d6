"""Which files are not believed, and for how long."""

import pytest

from leasehold.core.replicas.reconcile import OnDisk
from leasehold.ids import BucketNumber, ObjectId, SegmentId
from leasehold.node.agent import suspects as module
from leasehold.node.agent.suspects import Suspects


def on_disk(number: int, bucket: int = 0) -> OnDisk:
    return OnDisk(ObjectId(1), BucketNumber(bucket), SegmentId(f"{number:032x}-{number:032x}"))


def taken(suspects: Suspects) -> list[OnDisk]:
    found: list[OnDisk] = []
    while (one := suspects.first) is not None:
        assert suspects.is_suspected(one)
        found.append(one)
        suspects.checked(one)
    return found


def test_suspected_files_are_taken_once_in_their_order() -> None:
    suspects = Suspects()
    for number in (2, 1, 2):
        suspects.suspect(on_disk(number))
    assert taken(suspects) == [on_disk(2), on_disk(1)]


def test_there_are_so_many_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SUSPECTS_MAX", 2)
    suspects = Suspects()
    for number in (1, 2, 3):
        suspects.suspect(on_disk(number))
    assert taken(suspects) == [on_disk(1), on_disk(2)]


def test_a_file_that_is_known_to_be_damaged_is_not_suspected() -> None:
    """Each scan of the last copy would have it read whole once more."""
    suspects = Suspects()
    suspects.found(on_disk(1), damaged=True)
    suspects.suspect(on_disk(1))
    assert suspects.first is None


def test_damage_ends_when_the_file_is_whole_again_or_gone() -> None:
    suspects = Suspects()
    first, second, other = on_disk(1), on_disk(2), on_disk(3, bucket=1)
    before = suspects.damaged
    for one in (first, second, other):
        suspects.found(one, damaged=True)
    suspects.found(first, damaged=True)
    assert before == {}, "whoever has it reads on"
    assert suspects.damaged == {(1, 0): {first.segment, second.segment}, (1, 1): {other.segment}}
    suspects.found(first, damaged=False)
    kept = suspects.damaged
    suspects.forget_gone({(1, 0): frozenset({second.segment}), (1, 1): frozenset({other.segment})})
    assert suspects.damaged is kept, "it is the same object until something changes"
    suspects.forget_gone({(1, 0): frozenset({second.segment})})
    assert suspects.damaged == {(1, 0): {second.segment}}
    assert suspects.is_damaged(second)
    assert not suspects.is_damaged(other)
