import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from leasehold.core.lease.audit import ServeRecord
from leasehold.errors import Corrupt, Definite, Refused
from leasehold.ids import Incarnation, NodeId, ObjectId, Revision, Sequence, Term
from leasehold.limits.node_disk import SERVE_LOG_PIECES_MAX
from leasehold.storage.servelog import ServeLog, read_serve_log


def record(number: int, request: str = "r") -> ServeRecord:
    return ServeRecord(
        node=NodeId(3),
        incarnation=Incarnation(2),
        request=request,
        table=ObjectId(12),
        view=Revision(number),
        term=Term(7),
        sequence=Sequence(number),
        deadline_ns=2**62 + number,
        released_ns=2**62,
    )


def write(directory: Path, numbers: range, file_bytes_max: int = 10_000, files_max: int = 4) -> None:
    log = ServeLog(directory, file_bytes_max=file_bytes_max, files_max=files_max)
    for number in numbers:
        log.append(record(number))
    log.close()
    log.close()


def views(directory: Path) -> list[int]:
    return [one.view for one in read_serve_log(directory)]


def files_of(directory: Path) -> list[Path]:
    return sorted(directory.iterdir())


def test_what_was_appended_is_read_in_order(tmp_path: Path) -> None:
    log = ServeLog(tmp_path / "log")
    assert list(read_serve_log(tmp_path / "nowhere")) == list(read_serve_log(tmp_path / "log")) == []
    for number in range(100):
        log.append(record(number))
        assert views(tmp_path / "log")[-1] == number, "readable before append returns"
    assert list(read_serve_log(tmp_path / "log")) == [record(number) for number in range(100)]


def test_threads_lose_nothing(tmp_path: Path) -> None:
    log = ServeLog(tmp_path, file_bytes_max=5_000, files_max=100)

    def work(thread: int) -> None:
        for number in range(100):
            log.append(record(number, request=str(thread)))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    found = list(read_serve_log(tmp_path))
    for thread in range(4):
        assert [one.view for one in found if one.request == str(thread)] == list(range(100))
    assert len(files_of(tmp_path)) > 3


def test_the_log_is_bounded_and_the_oldest_goes_first(tmp_path: Path) -> None:
    write(tmp_path, range(2_000), file_bytes_max=5_000, files_max=4)
    assert len(files_of(tmp_path)) == 4
    assert all(path.stat().st_size <= 5_000 for path in files_of(tmp_path))
    kept = views(tmp_path)
    assert len(kept) > 150
    assert kept == list(range(kept[0], 2_000))


def test_restarts_push_out_no_more_than_bytes_demand(tmp_path: Path) -> None:
    for restart in range(10):
        write(tmp_path, range(restart * 2, restart * 2 + 2))
        ServeLog(tmp_path).close()
    assert views(tmp_path) == list(range(20))
    for restart in range(10, SERVE_LOG_PIECES_MAX + 10):
        write(tmp_path, range(restart * 2, restart * 2 + 2))
    assert len(files_of(tmp_path)) == SERVE_LOG_PIECES_MAX
    write(tmp_path, range(1_000, 1_400), file_bytes_max=5_000, files_max=2)
    assert sum(path.stat().st_size for path in files_of(tmp_path)) <= 10_000
    assert views(tmp_path)[-1] == 1_399


def test_a_torn_tail_ends_its_file_and_the_next_process_begins_another(tmp_path: Path) -> None:
    write(tmp_path / "whole", range(3))
    content = files_of(tmp_path / "whole")[0].read_bytes()
    frame = len(content) // 3
    for size in range(len(content)):
        log = tmp_path / str(size)
        write(log, range(3))
        torn = files_of(log)[0]
        os.truncate(torn, size)
        assert views(log) == list(range(size // frame))
        write(log, range(50, 52))
        assert torn.stat().st_size == size
        assert views(log) == [*range(size // frame), 50, 51]


def test_damage_before_sound_frames_is_told_and_at_the_end_it_is_a_torn_tail(tmp_path: Path) -> None:
    write(tmp_path, range(3))
    path = files_of(tmp_path)[0]
    content = path.read_bytes()
    frame = len(content) // 3
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        if place < 2 * frame:
            with pytest.raises(Corrupt, match=path.name):
                list(read_serve_log(tmp_path))
        else:
            assert views(tmp_path) == [0, 1]
    path.write_bytes(content + bytes(4_096))
    assert views(tmp_path) == [0, 1, 2], "a loss of power may leave zeros"


def test_a_missing_file_and_a_foreign_record_are_damage(tmp_path: Path) -> None:
    for start in (0, 10, 20):
        write(tmp_path / "a", range(start, start + 2))
    files_of(tmp_path / "a")[1].unlink()
    with pytest.raises(Corrupt, match="missing"):
        list(read_serve_log(tmp_path / "a"))
    files_of(tmp_path / "a")[0].unlink()
    assert views(tmp_path / "a") == [20, 21]

    log = ServeLog(tmp_path / "b")
    log.append((1, 2, 3))  # type: ignore[arg-type]
    with pytest.raises(Corrupt, match="no serve record"):
        list(read_serve_log(tmp_path / "b"))


def test_a_record_has_a_largest_size(tmp_path: Path) -> None:
    log = ServeLog(tmp_path)
    with pytest.raises(Refused) as refused:
        log.append(record(1, request="x" * 5_000))
    assert refused.value.code == "SERVE_RECORD_TOO_LARGE"
    log.append(record(2))
    assert views(tmp_path) == [2]


CHILD = """
import resource, sys
from pathlib import Path
import msgspec
from leasehold.core.lease.audit import ServeRecord
from leasehold.errors import Definite
from leasehold.storage.servelog import ServeLog
log = ServeLog(Path(sys.argv[1]), file_bytes_max=20_000, files_max=1_000)
"""

KILLED = (
    CHILD
    + """
record = msgspec.convert([3, 2, "r", 12, 0, 7, 1, 2, 1], ServeRecord)
for number in range(1_000_000):
    log.append(msgspec.structs.replace(record, view=number))
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""
)


def test_a_kill_loses_no_record_that_was_acknowledged(tmp_path: Path) -> None:
    for killed in range(3):
        directory = tmp_path / str(killed)
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(directory)], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            for _ in range(500):
                child.stdout.readline()
            child.send_signal(signal.SIGKILL)
            said = [line for line in child.stdout if line.endswith("\n")]
        acknowledged = int(said[-1]) if said else 499
        found = views(directory)
        assert found == list(range(len(found)))
        assert len(found) > acknowledged


CUT = (
    CHILD
    + """
record = msgspec.convert([3, 2, "r", 12, 0, 7, 1, 2, 1], ServeRecord)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
kept, codes = [], set()
for number in range(100):
    try:
        log.append(msgspec.structs.replace(record, view=number))
        kept.append(number)
    except Definite as error:
        codes.add(error.code)
sys.stdout.write(f"{' '.join(sorted(codes))}|{kept}")
"""
)


def test_a_record_that_is_cut_short_is_refused_and_nothing_follows_it(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CUT, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    codes, kept = ran.stdout.split("|")
    assert codes == "DISK_FULL"
    assert len(files_of(tmp_path)) > 2, "after a torn frame comes a new file"
    assert str(views(tmp_path)) == kept
    assert "99" in kept or "98" in kept


def test_a_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Definite, match="file") as failed:
        ServeLog(tmp_path / "file" / "log")
    assert failed.value.code == "DISK_ERROR"
