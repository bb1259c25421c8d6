"""What is synced before a segment counts as finished: the file before it has its name, the folders after it."""

import os
from pathlib import Path

import pytest

from leasehold.durable import sync_folder
from leasehold.ids import BucketNumber, ObjectId, SegmentId
from leasehold.storage.files import SegmentFiles

TABLE, BUCKET, SEGMENT = ObjectId(12), BucketNumber(3), SegmentId(f"{1:032x}-{1:032x}")


def test_the_file_is_synced_before_it_is_renamed_and_the_folders_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SegmentFiles(tmp_path / "node")
    files.open()
    synced: list[tuple[int, bool, int]] = []
    sync = os.fsync

    def spy(fd: int) -> None:
        stat = os.fstat(fd)
        synced.append((stat.st_ino, file.path.exists(), stat.st_size))
        sync(fd)

    with files.create(TABLE, BUCKET, SEGMENT) as file:
        file.write(b"rows")
        monkeypatch.setattr("leasehold.storage.files.os.fsync", spy)
        file.finish()
    monkeypatch.undo()
    finished = file.path.stat().st_ino
    folder = file.path.parent.stat().st_ino
    assert [(renamed, size) for inode, renamed, size in synced if inode == finished] == [(False, 4)]
    assert [renamed for inode, renamed, _ in synced if inode == folder][-1:] == [True]
    staging = (tmp_path / "node" / "staging").stat().st_ino
    assert staging not in {inode for inode, _, _ in synced}, "a name that is left there goes at the next start"


def test_what_has_a_folder_s_name_and_is_none_holds_no_start_up(tmp_path: Path) -> None:
    segments = tmp_path / "node" / "segments"
    segments.mkdir(parents=True)
    (segments / "7").touch()
    with pytest.raises(NotADirectoryError):
        sync_folder(segments / "7")
    os.mkfifo(segments / "8")  # opened as a file it would wait for a writer
    assert SegmentFiles(tmp_path / "node").open() == 0
