"""Readers against servers that lie, repeat, stall and end too early: every row once, or an error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from leasehold.client.scan import read_plan, read_segments
from leasehold.client.threads import places_of
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import BatchMark, Place, ReadTicket, ReadTogether, ScanPlan, TableFacts
from leasehold.core.words.records import Field, SegmentRecord, UseState
from leasehold.errors import Fenced, LeaseholdError, NotFound, Refused, Unreachable
from leasehold.ids import (
    BucketNumber,
    ClusterId,
    FieldId,
    Generation,
    Incarnation,
    NodeId,
    ObjectId,
    Revision,
    SchemaVersion,
    SegmentId,
    Sequence,
    Term,
)
from leasehold.limits.units import MILLISECOND_NS
from leasehold.storage.schema import arrow_schema
from leasehold.wire.clock import sleep_ns
from leasehold.wire.flight import read_ticket
from tests.unit.client.flight_errors import as_flight
from tests.unit.client.pace import paced

K = Field(id=FieldId(1), name="k", type="BIGINT", nullable=True, state=UseState.IN_USE)
SEEN = Revision(10)
ROWS = 10
Served = Iterator[tuple[pa.RecordBatch, bytes]]


def part(start: int, end: int, *, until: int | None = None, view: int = 10) -> tuple[pa.RecordBatch, bytes]:
    """The rows from `start` to `end`, and what a node would say of them."""
    batch = pa.RecordBatch.from_arrays([pa.array(range(start, end), pa.int64())], schema=arrow_schema((K,)))
    mark = BatchMark(next_row=until or end, view_revision=Revision(view), term=Term(1), sequence=Sequence(1))
    return batch, encode(mark)


def honest(start: int) -> Served:
    for at in range(start, ROWS, 3):
        yield part(at, min(at + 3, ROWS))


class Script(flight.FlightServerBase):
    """Serves what its script makes of the row it was asked from; keeps what it was asked."""

    def __init__(self, script: Callable[[int], Served], schema: pa.Schema | None = None) -> None:
        self.script = script
        self.schema = arrow_schema((K,)) if schema is None else schema
        self.asked: list[ReadTicket] = []
        super().__init__("grpc://127.0.0.1:0")

    def do_get(self, _context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        request = read_ticket(ticket.ticket)
        if isinstance(request, ReadTogether):
            request = request.first
        assert isinstance(request, ReadTicket)
        self.asked.append(request)
        return flight.GeneratorStream(self.schema, self.script(request.row_offset))


@contextmanager
def serving(*scripts: Callable[[int], Served]) -> Iterator[list[Script]]:
    servers = [Script(script) for script in scripts]
    try:
        yield servers
    finally:
        for server in servers:
            server.shutdown()


def segment(nodes: int, turn: int = 0) -> SegmentRecord:
    """A segment whose readers ask node `turn` + 1 first."""
    return SegmentRecord(
        id=SegmentId("a" * 32 + "-" + f"{turn:032x}"),
        table=ObjectId(1),
        bucket=BucketNumber(0),
        schema_version=SchemaVersion(1),
        rows=ROWS,
        size_bytes=1,
        sha256=b"",
        statistics=(),
        holders=tuple(NodeId(number + 1) for number in range(nodes)),
    )


def plan_of(servers: list[Script]) -> ScanPlan:
    places = tuple(
        Place(node=NodeId(at + 1), name="n", address=f"127.0.0.1:{one.port}", incarnation=Incarnation(1))
        for at, one in enumerate(servers)
    )
    facts = TableFacts(
        cluster_id=ClusterId("c" * 32),
        revision=SEEN,
        table=ObjectId(1),
        name="db.t",
        schema_version=SchemaVersion(1),
        fields=(K,),
        cluster_by=None,
        buckets=(),
        places=places,
    )
    return ScanPlan(facts=facts, fields=(K,), segments=(segment(len(servers)),))


def read(servers: list[Script], *, turn: int = 0) -> list[int]:
    """With a clock that leaps at every pause, so that giving up takes no time."""
    clock = [0]

    def sleep(duration_ns: int) -> None:
        clock[0] += duration_ns * 100

    plan = plan_of(servers)
    batches = read_segments(plan, (segment(len(servers), turn),), runtime=paced(sleep, lambda: clock[0]))
    return [value for batch in batches for value in batch[0].to_pylist()]


def failing(error: LeaseholdError, after: int = 0) -> Callable[[int], Served]:
    def script(start: int) -> Served:
        if after:
            yield part(start, start + after)
        raise as_flight(error)

    return script


LIES: dict[str, Callable[[int], Served]] = {
    "repeats rows": lambda start: iter([part(start, start + 3), part(start, start + 3)]),
    "goes back": lambda start: iter([part(start, start + 3), part(0, 1, until=1)]),
    "goes past the end": lambda start: iter([part(start, start + 3), part(start + 3, ROWS + 1)]),
    "has more rows than it says": lambda start: iter(
        [part(start, start + 3), part(start + 3, start + 6, until=start + 4)]
    ),
    "ends too early": lambda start: iter([part(start, start + 3)]),
    "serves an older view": lambda start: iter([part(start, start + 3), part(start + 3, start + 6, view=9)]),
    "is fenced": failing(Fenced("fenced"), after=3),
    "has damaged bytes": failing(LeaseholdError("bad", code="CORRUPT"), after=3),
    "says nothing at all": lambda _: iter([]),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_replica_that_misbehaves_loses_and_doubles_no_row(lie: str) -> None:
    with serving(LIES[lie], honest) as servers:
        assert read(servers) == list(range(ROWS))
        took = 0 if lie == "says nothing at all" else 3
        assert [one.row_offset for one in servers[1].asked] == [took]


def test_a_replica_that_sends_row_after_row_is_left_for_the_next_one() -> None:
    """Each row ends its silence, and each deadline brought some: it held its readers for ever."""

    def trickling(start: int) -> Served:
        for at in range(start, ROWS):
            sleep_ns(60 * MILLISECOND_NS)
            yield part(at, at + 1)

    with serving(trickling, honest) as servers:
        batches = read_segments(plan_of(servers), (segment(2),), batch_timeout_ns=150 * MILLISECOND_NS)
        assert [value for batch in batches for value in batch[0].to_pylist()] == list(range(ROWS))
        assert [len(one.asked) for one in servers] == [1, 1]


@pytest.mark.parametrize("lie", LIES)
def test_a_lone_replica_that_misbehaves_is_named(lie: str) -> None:
    """It gets no further than its honest part: what it says is an error, never a row too many."""
    with serving(lambda start: LIES[lie](start) if start == 0 else failing(Fenced("fenced"))(start)) as servers:
        with pytest.raises(Unreachable) as caught:
            read(servers)
        assert caught.value.code == "NO_REPLICA"
        assert "node 1 (n): " in caught.value.text


@pytest.mark.parametrize("code", ["TABLE_DROPPED", "COLUMN_DROPPED", "OTHER_CLUSTER", "GENERATION_CHANGED"])
def test_what_is_definite_ends_the_scan_at_once(code: str) -> None:
    with serving(failing(Refused("gone", code=code)), honest) as servers:
        with pytest.raises(Refused) as caught:
            read(servers)
        assert caught.value.code == code
        assert servers[1].asked == []


def test_another_schema_than_asked_for_is_not_handed_on() -> None:
    with serving(lambda _: iter([]), honest) as servers:
        servers[0].schema = pa.schema([("k", pa.int32())])
        assert read(servers) == list(range(ROWS))


def test_readers_of_different_segments_begin_at_different_nodes() -> None:
    with serving(honest, honest) as servers:
        for turn in range(4):
            assert read(servers, turn=turn) == list(range(ROWS))
        assert [len(one.asked) for one in servers] == [2, 2]


def test_a_segment_that_nobody_holds_any_more_is_lost_and_said_so_at_once() -> None:
    with pytest.raises(Refused, match=r"10 rows of db\.t are lost: all nodes that held segment") as caught:
        read([])
    assert caught.value.code == "SEGMENTS_LOST"
    assert "leasehold forget-lost db.t" in caught.value.hint


def test_a_failing_coordinator_does_not_end_a_scan() -> None:
    def refresh() -> TableFacts:
        raise NotFound("no table db.t")

    turns = iter([failing(Fenced("fenced")), honest])

    def script(start: int) -> Served:
        return next(turns)(start)

    with serving(script) as servers:
        plan = plan_of(servers)
        pauses: list[int] = []
        runtime = paced(pauses.append)
        places = places_of(plan.facts, refresh, runtime=runtime)
        batches = read_segments(plan, (plan.segments[0],), runtime=runtime, places=places)
        assert sum(batch.num_rows for batch in batches) == ROWS
        assert len(pauses) == 1


def test_errors_of_a_plan_keep_their_class_and_code() -> None:
    with serving(failing(Refused("gone", code="TABLE_DROPPED"))) as servers:
        plan = plan_of(servers)
        for segments in (1, 6):
            many = ScanPlan(facts=plan.facts, fields=plan.fields, segments=plan.segments * segments)
            with pytest.raises(Refused) as caught:
                read_plan(many).read_all()
            assert caught.value.code == "TABLE_DROPPED"


def test_segments_come_in_the_order_of_the_plan() -> None:
    with serving(honest) as servers:
        plan = plan_of(servers)
        each = (msgspec.structs.replace(plan.segments[0], bucket=BucketNumber(number)) for number in range(9))
        many = msgspec.structs.replace(plan, segments=tuple(each))
        assert read_plan(many).read_all().column("k").to_pylist() == list(range(ROWS)) * 9


def test_R6_a_scan_asks_in_the_generation_of_its_plan() -> None:
    with serving(honest) as servers:
        plan = plan_of(servers)
        recovered = msgspec.structs.replace(plan.facts, generation=Generation(7))
        batches = read_segments(msgspec.structs.replace(plan, facts=recovered), plan.segments[:1])
        assert sum(batch.num_rows for batch in batches) == ROWS
        assert [one.generation for one in servers[0].asked] == [7]


@pytest.mark.parametrize("segments", [1, 6])
def test_R6_a_scan_by_the_plan_of_a_lost_state_ends_with_the_first_lookup(segments: int) -> None:
    """The nodes may be as far behind as they like."""
    with serving(failing(Refused("behind", code="BEHIND"))) as servers:
        plan = plan_of(servers)
        many = msgspec.structs.replace(plan, segments=plan.segments * segments)
        recovered = msgspec.structs.replace(plan.facts, generation=Generation(7), revision=Revision(1))
        with pytest.raises(Refused) as caught:
            read_plan(many, runtime=paced(lambda _: None), refresh=lambda: recovered).read_all()
        assert caught.value.code == "GENERATION_CHANGED"
