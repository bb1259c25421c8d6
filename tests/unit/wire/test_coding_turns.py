"""Few threads decode and encode rows at the same time, and none keeps its turn while it waits for anybody."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from pyarrow import flight
from tests.unit.wire.served_flight import Served, rows, serving

from leasehold.limits.flight import FLIGHT_CODING_TURNS_MIN
from leasehold.wire.coding_turns import CODING_TURNS
from leasehold.wire.flight_codec import BatchWriter, read_data, reading_batch


@contextmanager
def all_turns() -> Iterator[None]:
    """Holds all turns."""
    taken = 0
    while CODING_TURNS.acquire(blocking=False):
        taken += 1
    assert taken >= FLIGHT_CODING_TURNS_MIN
    try:
        yield
    finally:
        CODING_TURNS.release(taken)


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as made:
        yield made


def test_rows_are_encoded_in_turns(served: Served) -> None:
    served.service.script = lambda: iter([(rows(0, 3), None)])
    found: list[pa.Table] = []
    reader = threading.Thread(target=lambda: found.append(served.client.do_get(flight.Ticket(b"t")).read_all()))
    with all_turns():
        reader.start()
        reader.join(0.2)
        assert not found
    reader.join(10)
    assert found[0].num_rows == 3


def test_rows_are_decoded_in_turns() -> None:
    batch = rows(0, 3)
    message = BatchWriter(batch.schema).write(batch, None)
    found: list[int] = []

    def read() -> None:
        with reading_batch(read_data(message), batch.schema) as decoded:
            found.append(decoded.num_rows)

    reader = threading.Thread(target=read)
    with all_turns():
        reader.start()
        reader.join(0.2)
        assert not found
    reader.join(10)
    assert found == [3]


def test_a_scan_whose_client_takes_nothing_keeps_no_turn(served: Served) -> None:
    made = threading.Event()

    def script() -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
        while True:
            made.set()
            yield rows(0, 60_000), None

    served.service.script = script
    reader = served.client.do_get(flight.Ticket(b"t"))
    assert made.wait(10)
    assert reader.read_chunk().data.num_rows == 60_000
    with all_turns():
        pass
    reader.cancel()
