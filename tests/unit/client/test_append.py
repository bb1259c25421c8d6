"""How rows are gathered and shared out before any node sees them."""

import pyarrow as pa
import pytest

from leasehold.client import append
from leasehold.client.append import _Load  # pyright: ignore[reportPrivateUsage]
from leasehold.errors import Refused
from leasehold.limits import BATCH_ROWS
from leasehold.storage.buckets import bucket_numbers
from leasehold.wire import flight
from tests.unit.node.cluster import rows


def test_tiny_batches_are_joined_and_lose_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append, "APPEND_BATCHES_MAX", 10)
    load = _Load()
    for number in range(1000):
        load.add(rows(number, 1))
        load.add(rows(0, 0))
    ((bucket, share),) = load.shares(None, 1)
    assert bucket == 0
    assert len(share) == 1
    assert share[0]["k"].to_pylist() == list(range(1000))


def test_each_row_goes_to_the_bucket_of_its_key_in_order() -> None:
    load = _Load()
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


def test_no_message_is_larger_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight, "FLIGHT_BATCH_BYTES", 10_000)
    load = _Load()
    load.add(rows(0, 3 * BATCH_ROWS // 2))
    ((_, share),) = load.shares(None, 1)
    assert all(batch.nbytes <= 10_000 for batch in share)
    assert sum(batch.num_rows for batch in share) == 3 * BATCH_ROWS // 2


def test_a_row_that_fits_no_message_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight, "FLIGHT_BATCH_BYTES", 1_000)
    monkeypatch.setattr(flight, "FLIGHT_MESSAGE_BYTES_MAX", 5_000)
    fits = pa.record_batch({"v": ["x" * 4_000, "y" * 4_000]})
    assert [one.num_rows for one in flight.parts(fits)] == [1, 1]
    with pytest.raises(Refused) as caught:
        list(flight.parts(pa.record_batch({"v": ["x" * 4_000, "y" * 6_000]})))
    assert caught.value.code == "ROWS_DO_NOT_FIT"
