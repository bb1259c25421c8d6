"""What a peer does with the bytes that another node forwards: what it stores and seals, and what it refuses."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from leasehold.core.catalog.plan import put
from leasehold.core.data.seals import is_sealed
from leasehold.core.words import keys
from leasehold.core.words.messages import BytesEnd, ForwardTicket, RowsEnd, SegmentStored, StagedSegment
from leasehold.core.words.records import TransactionState
from leasehold.errors import LeaseholdError, Superseded
from leasehold.ids import Incarnation, NodeId, SchemaVersion, SegmentId, segment_transaction
from leasehold.wire.flight import BYTES_SCHEMA, bytes_batch, expect
from tests.unit.node.cluster import Cluster, cluster, rows
from tests.unit.node.serving.stream_words import ROWS_SCHEMA, Stream, files_of, forward_ticket, until_gone, write_ticket


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        yield made


def described(ticket: ForwardTicket, content: bytes, **wrong: object) -> StagedSegment:
    """What a sender would say of a segment of these bytes."""
    made = StagedSegment(
        id=ticket.segment,
        table=ticket.table,
        bucket=ticket.bucket,
        schema_version=SchemaVersion(1),
        rows=7,
        size_bytes=len(content),
        sha256=hashlib.sha256(content).digest(),
        statistics=(),
        holders=(),
    )
    return msgspec.structs.replace(made, **wrong)


def forwarded(made: Cluster, ticket: ForwardTicket, content: bytes, **wrong: object) -> SegmentStored:
    segment = described(ticket, content)
    end = BytesEnd(size_bytes=segment.size_bytes, sha256=segment.sha256, segment=segment)
    chunks = [bytes_batch(content[start : start + 1000]) for start in range(0, len(content), 1000)]
    answer = Stream(made, 2, ticket, BYTES_SCHEMA).send(*chunks).end(msgspec.structs.replace(end, **wrong))
    return expect(SegmentStored, answer)


def test_a_peer_stores_exactly_the_bytes(pair: Cluster) -> None:
    ticket, content = forward_ticket(pair), bytes(range(256)) * 50
    stored = forwarded(pair, ticket, content)
    assert (stored.node, stored.incarnation, stored.size_bytes) == (2, 1, len(content))
    assert pair.node(2).files.path(ticket.table, ticket.bucket, ticket.segment).read_bytes() == content


def test_each_holder_seals_all_that_is_said_of_a_segment(pair: Cluster) -> None:
    ticket = write_ticket(pair)
    answer = Stream(pair, 1, ticket, ROWS_SCHEMA).send(rows(0, 100)).end(RowsEnd(rows=100))
    staged = expect(StagedSegment, answer)
    order = pair.catalog.transactions[ticket.transaction].order
    assert [one.node for one in staged.holders] == [1, 2]
    for holder in staged.holders:
        assert is_sealed(holder, pair.node(holder.node).published.seal_key, staged, order)
        more = msgspec.structs.replace(staged, rows=101)
        assert not is_sealed(holder, pair.node(holder.node).published.seal_key, more, order)


@pytest.mark.parametrize(
    "wrong",
    [{"id": f"{'1' * 32}-{'2' * 32}"}, {"table": 99}, {"bucket": 1}, {"size_bytes": 1}, {"sha256": b"\x00" * 32}],
)
def test_a_peer_seals_nothing_about_another_segment(pair: Cluster, wrong: dict[str, object]) -> None:
    ticket, content = forward_ticket(pair), b"some bytes"
    for segment in (described(ticket, content, **wrong), None):
        with pytest.raises(LeaseholdError) as caught:
            forwarded(pair, ticket, content, segment=segment)
        assert caught.value.code == "BAD_MESSAGE"
    until_gone(pair)
    assert files_of(pair, 2) == []


@pytest.mark.parametrize("wrong", [{"size_bytes": 1}, {"sha256": b"\x00" * 32}])
def test_a_peer_keeps_no_other_bytes_than_were_sent(pair: Cluster, wrong: dict[str, object]) -> None:
    with pytest.raises(LeaseholdError) as caught:
        forwarded(pair, forward_ticket(pair), b"some bytes", **wrong)
    assert caught.value.code == "BROKEN_STREAM"
    until_gone(pair)
    assert files_of(pair, 2) == []


def test_a_peer_takes_nothing_that_is_cut_off(pair: Cluster) -> None:
    with pytest.raises(LeaseholdError) as caught:
        Stream(pair, 2, forward_ticket(pair), BYTES_SCHEMA).send(bytes_batch(b"half")).end(None)
    assert caught.value.code == "BROKEN_STREAM"
    until_gone(pair)
    assert files_of(pair, 2) == []


def test_a_peer_takes_no_other_schema(pair: Cluster) -> None:
    with pytest.raises(LeaseholdError) as caught:
        Stream(pair, 2, forward_ticket(pair), ROWS_SCHEMA).send(rows(0, 3)).end(BytesEnd(size_bytes=0, sha256=b""))
    assert caught.value.code == "BAD_MESSAGE"


def test_an_older_incarnation_forwards_nothing(pair: Cluster) -> None:
    """INV-ID-2."""
    record = pair.catalog.nodes[NodeId(1)]
    pair.change([put(keys.node(record.id), msgspec.structs.replace(record, incarnation=Incarnation(2)))])
    with pytest.raises(Superseded):
        forwarded(pair, forward_ticket(pair), b"late bytes")
    assert files_of(pair, 2) == []


@pytest.mark.parametrize("other", [{"sender_incarnation": 2}, {"sender": 99}, {"sender_incarnation": -1}])
def test_an_incarnation_or_a_node_that_nobody_has_heard_of_forwards_nothing(
    pair: Cluster, other: dict[str, object]
) -> None:
    with pytest.raises(Superseded):
        forwarded(pair, forward_ticket(pair, **other), b"early bytes")
    assert files_of(pair, 2) == []


@pytest.mark.parametrize(
    ("state", "code"), [(None, "TRANSACTION_UNKNOWN"), (TransactionState.ABORTED, "ABORTED")], ids=str
)
def test_a_peer_takes_no_bytes_of_a_transaction_that_its_view_does_not_know_or_has_ended(
    pair: Cluster, state: TransactionState | None, code: str
) -> None:
    ticket = forward_ticket(pair)
    if state is None:
        ticket = msgspec.structs.replace(ticket, segment=SegmentId(f"{'e' * 32}-{'f' * 32}"))
    else:
        record = pair.catalog.transactions[segment_transaction(ticket.segment)]
        pair.change([put(keys.transaction(record.id), msgspec.structs.replace(record, state=state))])
    with pytest.raises(LeaseholdError) as caught:
        forwarded(pair, ticket, b"bytes")
    assert caught.value.code == code
    assert files_of(pair, 2) == []


def test_a_slow_peer_may_finish_what_is_committed_meanwhile(pair: Cluster) -> None:
    """It is no holder yet: what it reports of the file makes it one."""
    ticket = forward_ticket(pair)
    record = pair.catalog.transactions[segment_transaction(ticket.segment)]
    committed = msgspec.structs.replace(record, state=TransactionState.COMMITTED)
    pair.node(2).at_reading(2, lambda: pair.change([put(keys.transaction(record.id), committed)]))
    assert forwarded(pair, ticket, b"bytes").node == 2


@pytest.mark.parametrize("segment", ["../../etc/passwd", "a", ""])
def test_a_peer_takes_no_bytes_for_what_names_no_segment(pair: Cluster, segment: str) -> None:
    with pytest.raises(LeaseholdError) as caught:
        forwarded(pair, forward_ticket(pair, segment=segment), b"bytes")
    assert caught.value.code == "BAD_SEGMENT"


def test_a_fenced_peer_stores_nothing(pair: Cluster) -> None:
    pair.node(2).fence()
    with pytest.raises(LeaseholdError) as caught:
        forwarded(pair, forward_ticket(pair), b"bytes")
    assert caught.value.code == "FENCED"
