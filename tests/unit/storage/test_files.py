import errno
import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from leasehold.errors import AlreadyExists, Definite, Refused
from leasehold.ids import BucketNumber, ObjectId, SegmentId
from leasehold.storage.files import SegmentFiles

TABLE, BUCKET = ObjectId(12), BucketNumber(3)


def segment_id(number: int) -> SegmentId:
    return SegmentId(f"{number:032x}-{number:032x}")


A, B = segment_id(1), segment_id(2)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "node"


@pytest.fixture
def files(root: Path) -> SegmentFiles:
    made = SegmentFiles(root)
    assert made.open() == 0
    return made


def put(
    files: SegmentFiles, segment: SegmentId, content: bytes = b"rows", table: int = TABLE, bucket: int = BUCKET
) -> Path:
    with files.create(ObjectId(table), BucketNumber(bucket), segment) as file:
        file.write(content)
        file.finish()
    return file.path


def left_in(root: Path, folder: str) -> list[str]:
    return sorted(str(path.relative_to(root / folder)) for path in (root / folder).rglob("*") if path.is_file())


def test_a_segment_is_there_once_it_is_finished_and_not_before(root: Path, files: SegmentFiles) -> None:
    file = files.create(TABLE, BUCKET, A)
    file.write(b"first,")
    file.write(memoryview(b"second"))
    assert not files.exists(TABLE, BUCKET, A)
    assert list(files.listing()) == []
    file.finish()
    assert files.exists(TABLE, BUCKET, A)
    assert files.path(TABLE, BUCKET, A) == file.path == root / "segments" / "12" / "3" / f"{A}.parquet"
    assert file.path.read_bytes() == b"first,second"
    assert file.size_bytes == 12
    assert left_in(root, "staging") == []
    file.discard()
    assert files.exists(TABLE, BUCKET, A), "a finished segment is not discarded"


def test_what_is_not_finished_leaves_nothing(root: Path, files: SegmentFiles) -> None:
    with files.create(TABLE, BUCKET, A) as file:
        file.write(b"half")
    file.discard()
    assert left_in(root, "staging") == left_in(root, "segments") == []
    put(files, A)


def test_a_segment_is_written_once(root: Path, files: SegmentFiles) -> None:
    with files.create(TABLE, BUCKET, A), pytest.raises(AlreadyExists, match="being written"):
        files.create(TABLE, BUCKET, A)
    path = put(files, A, b"the one")
    with pytest.raises(AlreadyExists, match="already"):
        files.create(TABLE, BUCKET, A)
    assert path.read_bytes() == b"the one"
    assert left_in(root, "staging") == []


def test_of_many_threads_one_writes_a_segment(root: Path, files: SegmentFiles) -> None:
    def attempt(number: int) -> int | None:
        try:
            with files.create(TABLE, BUCKET, segment_id(number // 8)) as file:
                file.write(str(number).encode())
                file.finish()
        except AlreadyExists:
            return None
        return number

    with ThreadPoolExecutor(8) as threads:
        won = {one for one in threads.map(attempt, range(80)) if one is not None}
    assert sorted(one // 8 for one in won) == list(range(10))
    assert {int(files.path(TABLE, BUCKET, segment).read_text()) for _, _, segment in files.listing()} == won
    assert left_in(root, "staging") == []


@pytest.mark.parametrize(
    "segment",
    ["", "..", "../../../etc/passwd", f"{A}/../x", A.upper()[:-1] + "F", f"{A}\n", f"{A}.parquet", "\x00" * 65],
)
def test_names_that_are_no_segment_id_are_refused(root: Path, files: SegmentFiles, segment: str) -> None:
    for use in (files.create, files.path, files.exists, files.trash):
        with pytest.raises(Refused) as refused:
            use(TABLE, BUCKET, SegmentId(segment))
        assert refused.value.code == "BAD_SEGMENT_NAME"
        assert refused.value.hint
    assert left_in(root, ".") == []


@pytest.mark.parametrize(("table", "bucket"), [(0, 0), (-1, 0), (1, -1), (1, 1024)])
def test_tables_and_buckets_out_of_range_are_refused(files: SegmentFiles, table: int, bucket: int) -> None:
    with pytest.raises(Refused):
        files.create(ObjectId(table), BucketNumber(bucket), A)
    with pytest.raises(Refused):
        files.trash_table(ObjectId(0))


def test_the_listing_passes_over_what_is_not_ours(root: Path, files: SegmentFiles) -> None:
    for table, bucket, segment in [(12, 3, B), (12, 3, A), (2, 10, A), (2, 9, A)]:
        put(files, segment, table=table, bucket=bucket)
    for stray in ("lost+found/x", "012/3/y", "12/notes", f"12/3/{A}.tmp", "12/3/x.parquet", "12/-1/z", "²/1/z"):
        path = root / "segments" / stray
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    assert list(files.listing()) == [(2, 9, A), (2, 10, A), (12, 3, A), (12, 3, B)]


def test_the_trash_takes_segments_and_tables_and_is_emptied_in_steps(root: Path, files: SegmentFiles) -> None:
    path = put(files, A, b"read on")
    with path.open("rb") as scan:
        assert files.trash(TABLE, BUCKET, A)
        assert not files.trash(TABLE, BUCKET, A)
        assert not files.exists(TABLE, BUCKET, A)
        put(files, A)
        for number in range(2, 6):
            put(files, segment_id(number), bucket=number % 2)
        assert files.trash_table(TABLE)
        assert not files.trash_table(TABLE)
        put(files, B)
        assert files.trash_table(TABLE), "a write that was under way brought the folder back"
        assert list(files.listing()) == []
        assert len(left_in(root, "trash")) == 7
        assert [files.empty_trash(n, 2**20).files for n in (0, 3, 3, 3, 3)] == [0, 3, 3, 1, 0]
        assert list((root / "trash").iterdir()) == []
        assert scan.read() == b"read on", "a scan that has it open reads on"


def test_a_new_process_removes_what_was_half_written(root: Path, files: SegmentFiles) -> None:
    put(files, B)
    abandoned = files.create(TABLE, BUCKET, A)
    abandoned.write(b"half")
    assert SegmentFiles(root).open() == 1
    assert left_in(root, "staging") == []
    assert list(files.listing()) == [(TABLE, BUCKET, B)]
    put(SegmentFiles(root), A)
    abandoned.discard()
    assert files.exists(TABLE, BUCKET, A)


def test_a_table_dropped_under_a_writer_does_not_break_it(files: SegmentFiles) -> None:
    put(files, B)
    with files.create(TABLE, BUCKET, A) as file:
        file.write(b"late")
        assert files.trash_table(TABLE)
        file.finish()
    assert list(files.listing()) == [(TABLE, BUCKET, A)]


def test_errors_of_the_disk_name_the_path(root: Path, files: SegmentFiles) -> None:
    (root / "segments" / "12").write_text("a file where a folder belongs")
    file = files.create(TABLE, BUCKET, A)
    file.write(b"rows")
    with pytest.raises(Definite, match="12") as failed:
        file.finish()
    assert failed.value.code == "DISK_ERROR"
    assert failed.value.hint
    assert left_in(root, "staging") == []
    with pytest.raises(Definite, match="elsewhere") as failed:
        SegmentFiles(root / "elsewhere").create(TABLE, BUCKET, A)
    assert failed.value.code == "DISK_ERROR"


@pytest.mark.parametrize("fails", ["file", "folder"])
def test_nothing_is_left_of_a_file_whose_sync_failed(
    root: Path, files: SegmentFiles, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """A second sync could succeed without having written anything."""
    file = files.create(TABLE, BUCKET, A)
    file.write(b"rows")
    sync = os.fsync

    def failing(fd: int) -> None:
        if (fails == "file") == Path(f"/proc/self/fd/{fd}").readlink().is_file():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(fd)

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", failing)
        with pytest.raises(Definite) as failed:
            file.finish()
    assert failed.value.code == "DISK_ERROR"
    assert left_in(root, "staging") == left_in(root, "segments") == []


def test_a_file_whose_folder_can_t_be_synced_is_not_believed(
    files: SegmentFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(files, A)

    def failing(_fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", failing)
        with pytest.raises(Definite) as failed:
            files.sync(TABLE, BUCKET, A)
    assert failed.value.code == "DISK_ERROR"
    assert not files.exists(TABLE, BUCKET, A)


LIMITED = """
import resource, sys
from pathlib import Path
from leasehold.errors import Refused
from leasehold.storage.files import SegmentFiles
files = SegmentFiles(Path(sys.argv[1]))
files.open()
if sys.argv[2] == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
written = 0
try:
    with files.create(12, 3, sys.argv[3]) as file:
        for _ in range(10_000):
            file.write(bytes(30_000))
            written += 30_000
        file.finish()
except Refused as error:
    sys.stdout.write(f"{error.code}|{written}|{error.text}|{error.hint}")
"""


def run_limited(command: list[str], root: Path, how: str) -> list[str]:
    ran = subprocess.run(
        [*command, sys.executable, "-c", LIMITED, str(root), how, A],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return ran.stdout.split("|")


def test_a_file_that_the_system_cuts_short_is_a_full_disk_and_leaves_nothing(root: Path) -> None:
    code, written, text, hint = run_limited([], root, "limit")
    assert (code, written) == ("DISK_FULL", "90000"), "the last write was cut at byte 100000, not the first refused"
    assert str(root) in text
    assert "free space" in hint
    assert left_in(root, ".") == []


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    # A disk of 1 MiB that only the child sees; what it leaves there is told before it ends.
    script = f'mount -t tmpfs -o size=1m tmpfs {disk} && "$@" && printf "|" && find {disk} -type f | wc -l'
    isolated = ["unshare", "-r", "-m", "sh", "-c"]
    try:
        subprocess.run([*isolated, f"mount -t tmpfs -o size=1m tmpfs {disk}"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this machine lets no process mount a file system of its own")
    code, written, text, hint, left = run_limited([*isolated, script, "sh"], disk / "node", "mount")
    assert code == "DISK_FULL"
    assert 0 < int(written) < 2**20
    assert os.strerror(errno.ENOSPC) in text
    assert hint
    assert left.strip() == "0"


def test_many_segments_written_at_once_are_whole(files: SegmentFiles) -> None:
    def write(number: int) -> None:
        with files.create(ObjectId(1 + number % 3), BucketNumber(number % 2), segment_id(number)) as file:
            for part in range(20):
                file.write(hashlib.sha256(b"%d %d" % (number, part)).digest())
            file.finish()

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(write, range(30)))
    assert len(list(files.listing())) == 30
    for table, bucket, segment in files.listing():
        number = int(segment[:32], 16)
        parts = (hashlib.sha256(b"%d %d" % (number, part)).digest() for part in range(20))
        assert files.path(table, bucket, segment).read_bytes() == b"".join(parts)


def test_what_is_no_folder_of_ours_does_not_keep_a_node_from_opening(root: Path, files: SegmentFiles) -> None:
    put(files, A)
    (root / "segments" / "5").write_bytes(b"not a folder")
    (root / "segments" / str(TABLE) / "7").write_bytes(b"nor this")
    assert SegmentFiles(root).open() == 0
    assert list(files.listing()) == [(TABLE, BUCKET, A)]


def test_syncing_a_segment_that_has_gone_is_harmless(files: SegmentFiles) -> None:
    put(files, A)
    files.sync(TABLE, BUCKET, A)
    files.trash_table(TABLE)
    files.sync(TABLE, BUCKET, A)
