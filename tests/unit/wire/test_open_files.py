"""A scan counts what the footer of its open file takes, as long as the file is open."""

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyarrow import flight
from tests.unit.wire.served_flight import KINDS, Served, rows, serving

from leasehold.core.access.callers import Caller
from leasehold.limits.flight import FLIGHT_FOOTER_SMALL_BYTES, FLIGHT_SCANS_BYTES_MAX
from leasehold.wire.flight_server import Outgoing
from leasehold.wire.open_file import OpenFile

FIRST_BYTES = 1024 * 1024
LARGE = FLIGHT_SCANS_BYTES_MAX - 2 * FIRST_BYTES


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as found:
        yield found


class _Scans:
    """Scans that each open one file after the other; `opened` tells how many have one open."""

    def __init__(self, served: Served, *file_bytes: int) -> None:
        self._file_bytes = file_bytes
        self._lock = threading.Lock()
        self.opened = self.most = self.ended = 0
        served.service.get = self.get

    def get(self, ticket: bytes, caller: Caller | None) -> Outgoing:
        file = OpenFile()
        return Outgoing(KINDS, self._batches(file), FIRST_BYTES, file)

    def _batches(self, file: OpenFile) -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
        for size in self._file_bytes:
            file.opening(size)
            with self._lock:
                self.opened += 1
                self.most = max(self.most, self.opened)
            threading.Event().wait(0.02)  # others try to open theirs
            yield rows(0, 3), b""
            with self._lock:
                self.opened -= 1
        self.ended += 1


def _scan(served: Served, count: int) -> None:
    def read() -> None:
        client = flight.FlightClient(f"grpc://{served.server.address}")
        list(client.do_get(flight.Ticket(b"t")))
        client.close()

    threads = [threading.Thread(target=read) for _ in range(count)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def test_files_with_large_footers_are_open_one_after_the_other(served: Served) -> None:
    """Each could take 100 MiB, and a scan counted only its batch and its message."""
    scans = _Scans(served, LARGE, LARGE)
    _scan(served, 5)
    assert (scans.ended, scans.most) == (5, 1)


def test_a_single_scan_runs_however_large_its_file_is(served: Served) -> None:
    scans = _Scans(served, 10 * FLIGHT_SCANS_BYTES_MAX)
    _scan(served, 2)
    assert (scans.ended, scans.most) == (2, 1)


def test_no_scan_makes_room_for_a_small_file(served: Served) -> None:
    made: list[int] = []
    file = OpenFile()
    file.make_room = made.append
    file.opening(FLIGHT_FOOTER_SMALL_BYTES)
    file.opening(FLIGHT_FOOTER_SMALL_BYTES + 1)
    assert made == [FLIGHT_FOOTER_SMALL_BYTES + 1]
    assert file.bytes == FLIGHT_FOOTER_SMALL_BYTES + 1
