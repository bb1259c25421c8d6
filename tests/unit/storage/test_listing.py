"""Listing a folder of segments again and again: what changed is in it, what did not is not read again."""

import os
from pathlib import Path

import pytest

from leasehold.ids import BucketNumber, ObjectId, SegmentId
from leasehold.limits.node_disk import FOLDER_TICK_NS
from leasehold.limits.replication import RECONCILE_ROUNDS_WHOLE
from leasehold.storage.files import SegmentFiles
from leasehold.storage.listing import Lister

TABLE = ObjectId(7)
FIRST = (TABLE, BucketNumber(0))


def segment(number: int) -> SegmentId:
    return SegmentId(f"{number:032x}-{number:032x}")


class Counting(SegmentFiles):
    """Keeps which folders were read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.open()
        self.read: list[tuple[ObjectId, BucketNumber]] = []

    def segments_in(self, table: ObjectId, bucket: BucketNumber) -> frozenset[SegmentId]:
        self.read.append((table, bucket))
        return super().segments_in(table, bucket)

    def put(self, key: tuple[ObjectId, BucketNumber], number: int) -> None:
        with self.create(*key, segment(number)) as file:
            file.finish()

    def taken(self) -> list[tuple[ObjectId, BucketNumber]]:
        read, self.read = self.read, []
        return read


class Ground:
    """A lister on a clock that the test moves."""

    def __init__(self, root: Path, buckets: int) -> None:
        self.now_ns = 0
        self.root = root
        self.files = Counting(root)
        for number in range(buckets):
            self.files.put((TABLE, BucketNumber(number)), number)
        self.lister = Lister(self.files, lambda: self.now_ns)

    def settle(self) -> None:
        """Until no folder is read but for its turn."""
        self.lister.listing()
        self.now_ns += FOLDER_TICK_NS
        self.lister.listing()
        self.files.taken()


def test_what_came_and_went_is_listed_and_other_folders_are_not_read_again(tmp_path: Path) -> None:
    ground = Ground(tmp_path, 3 * RECONCILE_ROUNDS_WHOLE)
    ground.settle()
    before = ground.lister.listing()
    assert len(ground.files.taken()) == 3, "those whose turn it is"
    ground.files.put((TABLE, BucketNumber(9)), 1_000)
    ground.files.trash(TABLE, BucketNumber(200), segment(200))
    after = ground.lister.listing()
    assert {(TABLE, 9), (TABLE, 200)} <= set(ground.files.taken())
    assert after[TABLE, BucketNumber(9)] == {segment(9), segment(1_000)}
    assert after[TABLE, BucketNumber(200)] == frozenset()
    same = [key for key in before if after[key] is before[key]]
    assert len(same) == len(before) - 2
    ground.files.trash_table(TABLE)
    assert ground.lister.listing() == {}


def test_a_change_that_leaves_the_time_of_its_folder_is_listed(tmp_path: Path) -> None:
    """The time ticks coarsely: what changes right after a folder was read may not be seen by it."""
    ground = Ground(tmp_path, 1)
    folder = ground.root / "segments" / str(TABLE) / "0"
    ground.lister.listing()
    at = folder.stat()
    ground.files.put(FIRST, 1)
    os.utime(folder, ns=(at.st_atime_ns, at.st_mtime_ns))
    ground.now_ns += FOLDER_TICK_NS
    assert ground.lister.listing() == {FIRST: {segment(0), segment(1)}}


def test_every_folder_has_its_turn_whatever_its_time_says(tmp_path: Path) -> None:
    ground = Ground(tmp_path, 2 * RECONCILE_ROUNDS_WHOLE)
    ground.settle()
    for _ in range(RECONCILE_ROUNDS_WHOLE):
        ground.lister.listing()
    read = ground.files.taken()
    assert len(read) == 2 * RECONCILE_ROUNDS_WHOLE
    assert len(set(read)) == len(read)


@pytest.mark.parametrize("made_again", [False, True])
def test_a_folder_that_went_is_forgotten(tmp_path: Path, made_again: bool) -> None:
    ground = Ground(tmp_path, 2)
    ground.settle()
    ground.files.trash_table(TABLE)
    if made_again:
        ground.files.put(FIRST, 5)
    assert ground.lister.listing() == ({FIRST: {segment(5)}} if made_again else {})
