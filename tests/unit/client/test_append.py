"""How rows are gathered and shared out before any node sees them."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow.flight import FlightServerBase

from leasehold.client.append import Load, stage
from leasehold.client.scan import read_plan
from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.errors import Refused
from leasehold.ids import NodeId
from leasehold.limits.flight import FLIGHT_MESSAGE_BYTES_MAX, FLIGHT_PART_BYTES, FLIGHT_RECEIVED_BYTES_MAX
from leasehold.limits.segments import BATCH_ROWS
from leasehold.storage.buckets import bucket_numbers
from leasehold.wire.flight import parts
from tests.unit.node.cluster import cluster, rows


def test_tiny_batches_are_joined_and_lose_no_row() -> None:
    load = Load(batches_max=10)
    for number in range(1000):
        load.add(rows(number, 1))
        load.add(rows(0, 0))
    ((bucket, share),) = load.shares(None, 1)
    assert bucket == 0
    assert len(share) == 1
    assert share[0]["k"].to_pylist() == list(range(1000))


def test_each_row_goes_to_the_bucket_of_its_key_in_order() -> None:
    load = Load()
    load.add(rows(0, 500))
    load.add(rows(500, 500))
    shares = load.shares(0, 7)
    assert [bucket for bucket, _ in shares] == list(range(7))
    found: list[int] = []
    for bucket, share in shares:
        values = [value for batch in share for value in batch["k"].to_pylist()]
        assert values == sorted(values)
        assert set(bucket_numbers(pa.array(values, pa.int64()), 7).tolist()) == {bucket}
        found.extend(values)
    assert sorted(found) == list(range(1000))


def test_no_message_is_larger_than_its_bound() -> None:
    load = Load(part_bytes=10_000)
    load.add(rows(0, 3 * BATCH_ROWS // 2))
    ((_, share),) = load.shares(None, 1)
    assert all(batch.nbytes <= 10_000 for batch in share)
    assert sum(batch.num_rows for batch in share) == 3 * BATCH_ROWS // 2


def test_a_row_that_fits_no_message_is_refused() -> None:
    fits = "x" * (FLIGHT_MESSAGE_BYTES_MAX - 1_000)
    assert [one.num_rows for one in parts(pa.record_batch({"v": [fits, "y"]}), 1_000)] == [1, 1]
    with pytest.raises(Refused) as caught:
        list(parts(pa.record_batch({"v": ["y", fits + "x" * 1_000]}), 1_000))
    assert caught.value.code == "ROWS_DO_NOT_FIT"


def test_rows_larger_than_a_message_are_appended_and_read(tmp_path: Path) -> None:
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        large = ["x" * (2 * FLIGHT_RECEIVED_BYTES_MAX), "y", "z" * (FLIGHT_PART_BYTES + 1)]
        sent = pa.record_batch({"k": [1, 2, 3], "v": large})
        transaction = made.open()
        made.commit(transaction, stage(made.facts(), transaction, [sent], made.catalog.revision))
        found = read_plan(made.plan()).read_all()
        assert found.to_pydict() == sent.to_pydict()


class Mute(FlightServerBase):  # pyright: ignore[reportUntypedBaseClass] pyarrow declares it without types
    """Takes all rows and ends the call in order, without an answer: how a connection that was cut can look."""

    def do_put(self, _context: object, _descriptor: object, reader: pa.RecordBatchReader, _writer: object) -> None:
        reader.read_all()


def test_an_end_without_an_answer_is_no_answer(tmp_path: Path) -> None:
    mute = Mute("grpc://127.0.0.1:0")
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        made.stop(made.node(1))
        record = msgspec.structs.replace(made.catalog.nodes[NodeId(1)], address=f"127.0.0.1:{mute.port}")
        made.change([put(keys.node(record.id), record)])
        (staged,) = stage(made.facts(), made.open(), [rows(0, 5)], made.catalog.revision)
        assert [one.node for one in staged.holders] == [2]
    mute.shutdown()
