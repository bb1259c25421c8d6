"""Small segments of a bucket that one call reads: as the same segments one by one, with rows counted through all."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from leasehold.client.scan import read_plan
from leasehold.core.catalog.plan import put
from leasehold.core.data.scan import as_one, together
from leasehold.core.replicas.reconcile import OnDisk
from leasehold.core.words import keys
from leasehold.core.words.messages import BatchMark, NextSegment, ReadTogether
from leasehold.core.words.records import SegmentRecord
from leasehold.errors import LeaseholdError
from leasehold.limits.flight import SEGMENTS_PER_SCAN_MAX
from leasehold.wire.flight import calling, expect, ticket
from tests.unit.node.cluster import Cluster, Node, cluster, rows
from tests.unit.node.serving.test_scans import append, damage, read, refused

EACH, SEGMENTS = 10, 5


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    """Five segments of ten rows on two nodes."""
    with cluster(tmp_path, batch_rows=4) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        for number in range(SEGMENTS):
            append(made, rows(number * EACH, EACH))
        yield made


def in_turn(made: Cluster) -> tuple[SegmentRecord, ...]:
    """By their rows, which begin in the order in which they were written."""
    return tuple(sorted(made.plan().segments, key=lambda one: int(one.statistics[0].minimum or "0")))


def all_of(made: Cluster, **other: object) -> ReadTogether:
    first, *others = in_turn(made)
    then = tuple(NextSegment(segment=one.id, sha256=one.sha256) for one in others)
    return ReadTogether(first=made.read_ticket(first, **other), then=then)


def broken_off(node: Node, request: ReadTogether) -> tuple[list[int], str]:
    """The rows that came, and why no more did."""
    assert node.flight is not None
    found: list[int] = []
    with pytest.raises(LeaseholdError) as caught, calling("node"):
        for chunk in flight.FlightClient(f"grpc://{node.flight.address}").do_get(ticket(request)):
            found.extend(chunk.data["k"].to_pylist())
            expect(BatchMark, chunk.app_metadata)
    return found, caught.value.code


def test_a_reader_goes_on_at_any_row_of_all(pair: Cluster) -> None:
    for offset in range(SEGMENTS * EACH + 1):
        found, row = list[int](), offset
        for batch, mark in read(pair.node(1), all_of(pair, row_offset=offset)):
            row += batch.num_rows
            assert mark.next_row == row
            found.extend(batch["k"].to_pylist())
        assert found == list(range(offset, SEGMENTS * EACH))


def test_a_damaged_one_ends_the_call_where_it_begins_and_is_suspected(pair: Cluster) -> None:
    bad = in_turn(pair)[2]
    damage(pair, 1, bad)
    assert broken_off(pair.node(1), all_of(pair)) == (list(range(2 * EACH)), "CORRUPT")
    assert pair.node(1).published.suspects.first == OnDisk(bad.table, bad.bucket, bad.id)


def test_each_is_looked_up_when_its_turn_comes(pair: Cluster) -> None:
    gone = in_turn(pair)[3]
    change = msgspec.structs.replace(put(keys.segment(gone.table, gone.bucket, gone.id), gone), value=None)
    # Each segment is looked at when it begins, and once for each of its three batches.
    pair.node(1).at_reading(2 * 4, lambda: pair.change([change]))
    assert broken_off(pair.node(1), all_of(pair)) == (list(range(3 * EACH)), "SEGMENT_UNKNOWN")


def test_a_fence_ends_the_call_at_any_batch(pair: Cluster) -> None:
    pair.node(1).fence_at_reading(2 * 4 + 3)
    found, code = broken_off(pair.node(1), all_of(pair))
    assert (found, code) == (list(range(2 * EACH + 4)), "FENCED")


def test_a_ticket_names_no_more_than_its_bound(pair: Cluster) -> None:
    (one, *_) = in_turn(pair)
    then = (NextSegment(segment=one.id, sha256=one.sha256),) * SEGMENTS_PER_SCAN_MAX
    first = pair.read_ticket(one)
    assert refused(pair.node(1), ReadTogether(first=first, then=then)) == "BAD_MESSAGE"
    assert len(read(pair.node(1), ReadTogether(first=first, then=then[1:]))) == 3 * SEGMENTS_PER_SCAN_MAX


def test_a_plan_of_small_segments_takes_one_call_for_many(pair: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, asked = pair.plan(), list[bytes]()
    for node in pair.nodes:
        assert node.flight is not None
        get = node.flight.get
        monkeypatch.setattr(node.flight, "get", lambda *given, get=get: asked.append(given[0]) or get(*given))
    assert read_plan(plan).read_all()["k"].to_pylist() == [key for one in plan.segments for key in keys_of(pair, one)]
    assert len(asked) == 1 + SEGMENTS, "one for all of them, and what the test asked itself"


def keys_of(made: Cluster, segment: SegmentRecord) -> list[int]:
    batches = [batch for batch, _ in read(made.node(1), made.read_ticket(segment))]
    return pa.Table.from_batches(batches)["k"].to_pylist()


def test_segments_are_read_together_that_are_small_and_lie_side_by_side(pair: Cluster) -> None:
    (one, *_) = in_turn(pair)

    def like(**other: object) -> SegmentRecord:
        return msgspec.structs.replace(one, **other)

    def counts(*segments: SegmentRecord) -> list[int]:
        return [len(some) for some in together(segments)]

    small, large = like(size_bytes=1), like(size_bytes=2**19)
    assert counts() == []
    assert counts(small, small, small) == [3]
    assert counts(small, large, large, small) == [1, 1, 1, 1]
    assert counts(*[small] * (SEGMENTS_PER_SCAN_MAX + 1)) == [SEGMENTS_PER_SCAN_MAX, 1]
    assert counts(small, like(bucket=1, size_bytes=1), small) == [1, 1, 1]
    assert counts(small, like(holders=(2,), size_bytes=1), like(holders=(2,), size_bytes=1)) == [1, 2]
    assert counts(like(holders=(1, 2), size_bytes=1), like(holders=(2, 1), size_bytes=1)) == [2]
    whole = as_one((like(rows=3, size_bytes=5), like(rows=4, size_bytes=6)))
    assert (whole.id, whole.rows, whole.size_bytes) == (one.id, 7, 11)
