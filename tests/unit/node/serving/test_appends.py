"""Writes at the level of streams: what is cut off, what lies, and what peers do with it."""

import hashlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from leasehold.client.scan import read_plan
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.data import appends
from leasehold.core.data import forwarding as steps
from leasehold.core.data.forwarding import ForwardLimits
from leasehold.core.data.peers import Peers
from leasehold.core.data.seals import is_sealed
from leasehold.core.data.write_access import admit_forward
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import (
    BytesEnd,
    ForwardAdmitted,
    ForwardTicket,
    Message,
    RowsEnd,
    SegmentStored,
    StagedSegment,
    WriteTicket,
)
from leasehold.core.words.records import TransactionState
from leasehold.core.words.statements import WidenColumn
from leasehold.core.words.types import parse_type
from leasehold.errors import LeaseholdError, Superseded
from leasehold.ids import BucketNumber, Incarnation, NodeId, SchemaVersion, SegmentId, segment_transaction
from leasehold.limits.units import SECOND_NS
from leasehold.node.serving import peers as forwarding
from leasehold.node.serving.peers import FlightPeers
from leasehold.storage.schema import FIELD_ID_KEY, arrow_schema
from leasehold.storage.segment import verify_segment
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.flight import BYTES_SCHEMA, ask_health, bytes_batch, calling, descriptor, expect, send
from leasehold.wire.steps import ThreadRuntime, run
from tests.unit.node.cluster import CLUSTER, DROP_TABLE, NAME, Cluster, add, cluster, drop_column, rename, rows

ROWS_SCHEMA = rows(0, 1).schema


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        yield made


def write_ticket(made: Cluster) -> WriteTicket:
    transaction = made.open()
    return WriteTicket(
        cluster_id=CLUSTER,
        transaction=transaction,
        segment=SegmentId(f"{transaction}-{SystemEntropy().hex_128()}"),
        table=made.table.id,
        bucket=BucketNumber(0),
        schema_version=made.table.schema_version,
        revision=made.catalog.revision,
    )


def forward_ticket(made: Cluster, **other: object) -> ForwardTicket:
    ticket = ForwardTicket(
        cluster_id=CLUSTER,
        segment=SegmentId(f"{made.open()}-{SystemEntropy().hex_128()}"),
        table=made.table.id,
        bucket=BucketNumber(0),
        revision=made.catalog.revision,
        sender=NodeId(1),
        sender_incarnation=Incarnation(1),
        session=made.node(1).published.session,
    )
    return msgspec.structs.replace(ticket, **other)


class Stream:
    """A DoPut to a node, one step at a time."""

    def __init__(self, made: Cluster, node: int, ticket: WriteTicket | ForwardTicket, schema: pa.Schema) -> None:
        server = made.node(node).flight
        assert server is not None
        self._client = flight.FlightClient(f"grpc://{server.address}")
        self._writer, self._answers = self._client.do_put(descriptor(ticket), schema)

    def send(self, *batches: pa.RecordBatch) -> "Stream":
        """A node that has declined may say so here already."""
        with calling("node"):
            for batch in batches:
                send(self._writer, batch)
        return self

    def end(self, mark: RowsEnd | BytesEnd | bytes | None) -> bytes | None:
        """The answer; raises the node's error."""
        with calling("node"):
            try:
                if mark is not None:
                    self._writer.write_metadata(mark if isinstance(mark, bytes) else encode(mark))
                self._writer.done_writing()
                answer = self._answers.read()
                if answer is not None and answer.to_pybytes() == encode(ForwardAdmitted()):
                    answer = self._answers.read()
                return None if answer is None else answer.to_pybytes()
            finally:
                self._writer.close()

    def vanish(self) -> None:
        """As when the process dies."""
        del self._writer, self._answers, self._client


def files_of(made: Cluster, node: int) -> list[str]:
    """Every file of a node's disk that is or will be a segment."""
    root = made.node(node).root
    return [path.name for folder in ("segments", "staging") for path in (root / folder).rglob("*") if path.is_file()]


def until_gone(made: Cluster) -> None:
    """Waits for the handlers that are under way to end, which `stop` does."""
    for node in made.nodes:
        made.stop(node)


# ---------------------------------------------------------------- from a client


def test_an_answer_describes_the_file_on_both_disks(pair: Cluster) -> None:
    ticket = write_ticket(pair)
    answer = Stream(pair, 1, ticket, ROWS_SCHEMA).send(rows(0, 100), rows(100, 50)).end(RowsEnd(rows=150))
    staged = expect(StagedSegment, answer)
    assert (staged.id, staged.rows, staged.schema_version) == (ticket.segment, 150, 1)
    assert [(one.node, one.incarnation) for one in staged.holders] == [(1, 1), (2, 1)]
    for node in pair.nodes:
        path = node.files.path(staged.table, staged.bucket, staged.id)
        verify_segment(path, size_bytes=staged.size_bytes, sha256=staged.sha256)


def test_a_column_that_the_writer_does_not_know_is_left_out_of_the_file(pair: Cluster) -> None:
    """There it reads as its first value: the default that was there when it came."""
    ticket = write_ticket(pair)
    pair.run(add("extra"))
    staged = expect(StagedSegment, Stream(pair, 1, ticket, ROWS_SCHEMA).send(rows(0, 3)).end(RowsEnd(rows=3)))
    assert staged.schema_version == 2
    assert [one.field for one in staged.statistics] == [1, 2]


def test_a_column_renamed_and_widened_under_the_writer_is_written_where_it_belongs(tmp_path: Path) -> None:
    """By id: here another column even bears the name that the writer knows."""
    with cluster(tmp_path) as made:
        made.create(("a", "INT"), ("b", "INT"))
        ids = [
            pa.field(name, pa.int32(), metadata={FIELD_ID_KEY: number}) for name, number in (("a", b"1"), ("b", b"2"))
        ]
        schema = pa.schema(ids)
        ticket = write_ticket(made)
        for statement in (rename("a", "c"), rename("b", "a"), rename("c", "b")):
            made.run(statement)
        made.run(WidenColumn(table=NAME, column="a", type=parse_type("BIGINT")))
        batch = pa.RecordBatch.from_pydict({"a": [1, 2], "b": [10, 20]}, schema)
        staged = expect(StagedSegment, Stream(made, 1, ticket, schema).send(batch).end(RowsEnd(rows=2)))
        made.commit(ticket.transaction, (staged,))
        found = read_plan(made.plan()).read_all()
        assert found.to_pydict() == {"b": [1, 2], "a": [10, 20]}
        assert found.schema.types == [pa.int32(), pa.int64()]


def test_columns_that_are_gone_or_nobody_knows_are_refused(pair: Cluster) -> None:
    ticket = write_ticket(pair)
    nameless = ROWS_SCHEMA.remove_metadata()
    plain = pa.schema([pa.field(one.name, one.type) for one in nameless])
    refused: list[str] = []
    pair.run(drop_column("v"))
    for schema in (ROWS_SCHEMA, plain):
        batch = pa.RecordBatch.from_arrays(rows(0, 3).columns, schema=schema)
        with pytest.raises(LeaseholdError) as caught:
            Stream(pair, 1, ticket, schema).send(batch).end(RowsEnd(rows=3))
        refused.append(caught.value.code)
    assert refused == ["SCHEMA_CHANGED", "ROWS_DO_NOT_FIT"]
    until_gone(pair)
    assert files_of(pair, 1) == files_of(pair, 2) == []


@pytest.mark.parametrize("mark", [None, RowsEnd(rows=2), RowsEnd(rows=4), b"\xff", BytesEnd(size_bytes=1, sha256=b"")])
def test_a_stream_without_its_right_end_leaves_nothing(pair: Cluster, mark: RowsEnd | BytesEnd | bytes | None) -> None:
    stream = Stream(pair, 1, write_ticket(pair), ROWS_SCHEMA).send(rows(0, 3))
    with pytest.raises(LeaseholdError) as caught:
        stream.end(mark)
    assert caught.value.code in {"BROKEN_STREAM", "BAD_MESSAGE"}
    until_gone(pair)
    assert files_of(pair, 1) == files_of(pair, 2) == []


def test_a_client_that_vanishes_leaves_nothing_on_any_replica(pair: Cluster) -> None:
    seen = threading.Event()
    pair.node(2).at_reading(1, seen.set)
    stream = Stream(pair, 1, write_ticket(pair), ROWS_SCHEMA).send(rows(0, 50_000))
    assert seen.wait(10), "the peer was asked"
    stream.vanish()
    until_gone(pair)
    assert files_of(pair, 1) == files_of(pair, 2) == []


def test_a_table_dropped_while_rows_come_ends_the_write(pair: Cluster) -> None:
    stream = Stream(pair, 1, write_ticket(pair), ROWS_SCHEMA).send(rows(0, 3))
    pair.hide(DROP_TABLE)
    with pytest.raises(LeaseholdError) as caught:
        stream.end(RowsEnd(rows=3))
    assert caught.value.code == "TABLE_DROPPED"
    until_gone(pair)
    assert files_of(pair, 1) == files_of(pair, 2) == []


def test_an_aborted_transaction_takes_no_rows(pair: Cluster) -> None:
    ticket = write_ticket(pair)
    record = pair.catalog.transactions[ticket.transaction]
    for state, code in (("ABORTED", "ABORTED"), ("COMMITTED", "TRANSACTION_ENDED")):
        pair.change(
            [put(keys.transaction(record.id), msgspec.structs.replace(record, state=type(record.state)(state)))]
        )
        with pytest.raises(LeaseholdError) as caught:
            Stream(pair, 1, ticket, ROWS_SCHEMA).end(RowsEnd(rows=0))
        assert caught.value.code == code


def test_a_segment_is_written_once(pair: Cluster) -> None:
    ticket = write_ticket(pair)
    Stream(pair, 1, ticket, ROWS_SCHEMA).send(rows(0, 3)).end(RowsEnd(rows=3))
    with pytest.raises(LeaseholdError) as caught:
        Stream(pair, 1, ticket, ROWS_SCHEMA).send(rows(0, 3)).end(RowsEnd(rows=3))
    assert caught.value.code == "ALREADY_EXISTS"


def test_one_write_too_many_is_told_so(pair: Cluster) -> None:
    pair.limit(writes_max=1)
    admitted = threading.Event()
    pair.node(1).at_reading(1, admitted.set)
    first = Stream(pair, 1, write_ticket(pair), ROWS_SCHEMA)
    assert admitted.wait(10)
    with pytest.raises(LeaseholdError) as caught:
        Stream(pair, 1, write_ticket(pair), ROWS_SCHEMA).end(RowsEnd(rows=0))
    assert caught.value.code == "BUSY"
    assert first.end(RowsEnd(rows=0)) is not None
    assert Stream(pair, 1, write_ticket(pair), ROWS_SCHEMA).end(RowsEnd(rows=0)) is not None


# ---------------------------------------------------------------- peers


def append_through_node_1(made: Cluster) -> list[NodeId]:
    """The holders of a segment of three rows."""
    answer = Stream(made, 1, write_ticket(made), ROWS_SCHEMA).send(rows(0, 3)).end(RowsEnd(rows=3))
    return [one.node for one in expect(StagedSegment, answer).holders]


def test_a_peer_that_does_not_show_the_revision_is_left_out_and_asked_again_by_later_writes(pair: Cluster) -> None:
    """It waits for a revision that it can't hear of, while its process answers."""
    behind = pair.nodes.pop()
    try:
        assert append_through_node_1(pair) == [1]
    finally:
        pair.nodes.append(behind)
    pair.show()
    for _ in range(100):
        if append_through_node_1(pair) == [1, 2]:
            return
    raise AssertionError("a peer that answers gets no writes")


def block_peer(patch: pytest.MonkeyPatch, step: int, released: threading.Event) -> None:
    """Stops the thread of a forwarded write: at step 1 before it takes the file, at step 2 before it finishes it."""
    steps = itertools.count(1)

    def admit(ticket: ForwardTicket, view: Catalog, node: NodeId) -> int:
        if next(steps) == step:
            released.wait(20)
        return admit_forward(ticket, view, node)

    patch.setattr(appends, "admit_forward", admit)


def release_at_second_probe(
    patch: pytest.MonkeyPatch, released: threading.Event, answer: Callable[[str, int, Message], bytes | None]
) -> list[str]:
    """Answers probes so, and lets the peer go on at the second one; whom they asked."""
    asked: list[str] = []

    def ask(address: str, timeout_ns: int, caller: Message) -> bytes | None:
        asked.append(address)
        if len(asked) == 2:
            released.set()
        return answer(address, timeout_ns, caller)

    patch.setattr(forwarding, "ask_health", ask)
    return asked


@pytest.mark.parametrize("step", [1, 2])
def test_a_peer_that_is_slow_is_waited_for_while_its_process_says_that_it_can_take_the_file(
    pair: Cluster, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    block_peer(monkeypatch, step, released)
    asked = release_at_second_probe(monkeypatch, released, ask_health)
    monkeypatch.setattr(steps, "patience_ns", lambda _own_ns: SECOND_NS)
    assert append_through_node_1(pair) == [1, 2]
    assert set(asked) == {pair.catalog.nodes[NodeId(2)].address}


@pytest.mark.parametrize(("step", "holders"), [(1, [1]), (2, [1, 2])])
@pytest.mark.parametrize("said", [b"", b'{"t":"node-status/2"}'])
def test_a_peer_that_does_not_say_how_it_stands_is_waited_for_once_it_has_taken_the_file(
    pair: Cluster, said: bytes, step: int, holders: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses the probe, or its version is another one."""
    released = threading.Event()
    block_peer(monkeypatch, step, released)
    release_at_second_probe(monkeypatch, released, lambda *_: said)
    monkeypatch.setattr(steps, "patience_ns", lambda _own_ns: SECOND_NS)
    try:
        assert append_through_node_1(pair) == holders
    finally:
        released.set()


def test_a_peer_that_min_in_sync_needs_is_waited_for_though_it_is_silent(pair: Cluster) -> None:
    assert pair.catalog.settings is not None
    pair.change([put(keys.SETTINGS, msgspec.structs.replace(pair.catalog.settings, min_in_sync=2))])
    released = threading.Event()
    pair.node(2).at_reading(1, lambda: released.wait(0.7))
    assert append_through_node_1(pair) == [1, 2]


class Probed(FlightPeers):
    """Peers whose processes answer as `probe` says."""

    def __init__(self, probe: Callable[[str], bool]) -> None:
        self._probe = probe

    async def is_answering(self, address: str, timeout_ns: int) -> bool:
        return self._probe(address)


def known_peers(probe: Callable[[str], bool], **limits: int) -> Peers:
    return Peers(ThreadRuntime(BoottimeClock().now_ns), Probed(probe), **limits)


def test_a_silent_peer_gets_nothing_until_it_answers() -> None:
    answering: set[str] = set()
    probes: list[str] = []
    probed = threading.Semaphore(0)

    def probe(address: str) -> bool:
        probes.append(address)
        probed.release()
        return address in answering

    one, other = (NodeId(1), "a:1"), (NodeId(2), "b:2")
    peers = known_peers(probe)
    peers.left_out(one)
    assert run(peers.worth_a_try([one, other], 1)) == [other]
    assert run(peers.worth_a_try([one], 1)) == []
    assert run(peers.worth_a_try([one], 2)) == [one], "without it there are too few"
    answering.add("a:1")
    for _ in range(2):  # one may have been under way
        assert probed.acquire(timeout=10)
    for _ in range(100):
        if run(peers.worth_a_try([one, other], 1)) == [one, other]:
            break
        probed.acquire(timeout=0.1)
    else:
        raise AssertionError("it answers and gets nothing")
    assert set(probes) == {"a:1"}, "who was never silent is not probed"


def test_a_silent_peer_that_nobody_has_probed_lately_is_probed_by_the_next_write() -> None:
    """So that the first write after a pause leaves nobody out who is back since."""
    answering: set[str] = set()
    peers, one = known_peers(lambda address: address in answering, probes_max=0), (NodeId(1), "a:1")
    peers.left_out(one)
    for thread in threading.enumerate():
        if thread.name == "probe of node 1":
            thread.join(10)
    assert run(peers.worth_a_try([one], 1)) == []
    answering.add("a:1")
    for thread in threading.enumerate():
        if thread.name == "probe of node 1":
            thread.join(10)
    assert run(peers.worth_a_try([one], 1)) == [one]


def test_a_peer_whose_queue_stays_full_is_left_out(pair: Cluster) -> None:
    pair.limit(forward=ForwardLimits(queue_chunks=1, stall_ns=100_000_000, finish_ns=60 * SECOND_NS))
    released = threading.Event()
    pair.node(2).at_reading(1, lambda: released.wait(20))
    noise = rows(0, 10_000).set_column(1, "v", pa.array([os.urandom(1000).hex() for _ in range(10_000)]))
    try:
        stream = Stream(pair, 1, write_ticket(pair), ROWS_SCHEMA)
        answer = stream.send(*[noise] * 4).end(RowsEnd(rows=40_000))
        assert [one.node for one in expect(StagedSegment, answer).holders] == [1]
    finally:
        released.set()


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


# ---------------------------------------------------------------- what fetches rely on


def test_the_encoding_is_one_for_all_schemas_of_a_client(pair: Cluster) -> None:
    """Rows that carry field ids already and rows that do not make the same file."""
    plain, tagged = write_ticket(pair), write_ticket(pair)
    schema = arrow_schema(pair.table.fields)
    batch = pa.RecordBatch.from_arrays(rows(0, 9).columns, schema=schema)
    first = expect(StagedSegment, Stream(pair, 1, plain, ROWS_SCHEMA).send(rows(0, 9)).end(RowsEnd(rows=9)))
    second = expect(StagedSegment, Stream(pair, 2, tagged, schema).send(batch).end(RowsEnd(rows=9)))
    assert first.sha256 == second.sha256
