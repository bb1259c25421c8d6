"""First messages and large rows that a node may have to hold for long: nobody takes the answer, or the rest never
comes."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import msgspec
import pytest

from leasehold.client.table import conditions
from leasehold.core.membership.identity import node_login
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import CompactTicket, FieldFilter, FlightCaller
from leasehold.ids import (
    BucketNumber,
    ClusterId,
    Generation,
    ObjectId,
    Revision,
    SchemaVersion,
    SegmentId,
    TransactionId,
)
from leasehold.limits.flight import FLIGHT_MESSAGE_BYTES_MAX, TICKET_WORD_CHARACTERS_MAX
from leasehold.limits.statements import REPLACED_VALUES_MAX
from leasehold.limits.upkeep import REWRITE_PORTION_SEGMENTS
from leasehold.wire.flight import CALLER_HEADER, HEALTH, descriptor
from leasehold.wire.flight_codec import pieces, write_field, write_schema
from tests.attacks.floods.test_flight_floods import SERVICE
from tests.attacks.floods.tickets import logged_in, reading, writing
from tests.attacks.ground import NOBODY, READER, TABLE, WRITER, Ground

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

TAKES_NOTHING = (("grpc.http2.lookahead_bytes", 5), ("grpc.http2.bdp_probe", 0))
"""Options of a client whose windows are too small for any answer."""
CONNECTIONS = 8
"""To each node."""
CALLS = 900
"""To one node, fewer than a peer may have."""
METADATA = 3
"""The field of a message with rows."""
ROWS_AT_ONCE = 16


def compaction() -> bytes:
    """A ticket of some 900 KiB for another cluster, which nobody signs."""
    word = "\N{SNOWMAN}" * TICKET_WORD_CHARACTERS_MAX
    ticket = CompactTicket(
        cluster_id=ClusterId(word),
        transaction=TransactionId(word),
        segment=SegmentId(word),
        table=ObjectId(1),
        bucket=BucketNumber(0),
        schema_version=SchemaVersion(1),
        joined=((SegmentId(word), b"x" * 32),) * REWRITE_PORTION_SEGMENTS,
        revision=Revision(1),
        generation=Generation(1),
    )
    return write_field(1, encode(ticket))


@pytest.mark.parametrize(
    "kind", ["compactions of strangers", "conditions of a reader", "values of a reader", "questions of a nobody"]
)
def test_tickets_whose_answers_nobody_takes(ground: Ground, scale: int, kind: str) -> None:
    with contextlib.ExitStack() as opened, ground.attacked():
        said: list[tuple[str, bytes]] = []
        address, method, asked = ground.nodes()[0], "DoGet", b""
        match kind:
            case "compactions of strangers":
                asked = compaction()
            case "conditions of a reader":
                cluster = opened.enter_context(ground.connect(READER))
                where = conditions(f"b IN ({', '.join(repr(str(one) * 100) for one in range(600))})")
                login = logged_in(cluster)
                address, request = reading(cluster, TABLE)[0]
                plan = cluster.plan(TABLE, None, where=where)
                asked = write_field(1, encode(msgspec.structs.replace(request, where=plan.where)))
                said = [(CALLER_HEADER, encode(FlightCaller(login=node_login(login))))]
            case "values of a reader":
                cluster = opened.enter_context(ground.connect(READER))
                login = logged_in(cluster)
                address, request = reading(cluster, TABLE)[0]
                short = FieldFilter(field=request.fields[0], operator="IN", values=("12",) * REPLACED_VALUES_MAX)
                asked = write_field(1, encode(msgspec.structs.replace(request, where=(short,) * 33)))
                said = [(CALLER_HEADER, encode(FlightCaller(login=node_login(login))))]
            case _:
                cluster = opened.enter_context(ground.connect(NOBODY))
                method, asked = "DoAction", write_field(1, HEALTH.encode()) + write_field(2, b"x" * 1_000_000)
                said = [(CALLER_HEADER, encode(FlightCaller(login=node_login(logged_in(cluster)))))]
        channels = [opened.enter_context(ground.channel(address, *TAKES_NOTHING)) for _ in range(CONNECTIONS)]
        calls: list[Any] = []
        for number in range(CALLS * scale):
            calls.append(channels[number % CONNECTIONS].unary_stream(f"{SERVICE}{method}")(asked, metadata=said))
            opened.callback(calls[-1].cancel)
        for call in calls:
            with contextlib.suppress(grpc.RpcError):
                call.initial_metadata()  # comes with an answer, or with a refusal


def test_large_rows_that_never_come_whole(ground: Ground, scale: int) -> None:
    """Each in pieces, of which the last is not sent."""
    ended, whole = threading.Event(), threading.Semaphore(0)

    def sent(begin: bytes) -> Iterator[bytes]:
        yield begin
        for piece in list(pieces(b"x" * FLIGHT_MESSAGE_BYTES_MAX))[:-1]:
            yield write_field(METADATA, piece)
        whole.release()
        ended.wait()

    with ground.connect(WRITER) as cluster, contextlib.ExitStack() as opened, ground.attacked():
        opened.callback(ended.set)
        request, address, schema = writing(cluster)
        said = [(CALLER_HEADER, encode(FlightCaller(login=node_login(cluster.token))))]
        for number in range(ROWS_AT_ONCE * scale):
            segment = SegmentId(f"{request.transaction}-{number:032x}")
            ticket = descriptor(msgspec.structs.replace(request, segment=segment)).serialize()
            channel = opened.enter_context(ground.channel(address))
            begin = write_field(1, ticket) + write_schema(schema)
            call: Any = channel.stream_stream(f"{SERVICE}DoPut")(sent(begin), metadata=said)
            opened.callback(call.cancel)
        assert whole.acquire(timeout=60)
        assert whole.acquire(timeout=60), "another one has its turn, since the first is silent"


def test_a_stranger_is_answered_while_others_take_no_answer(ground: Ground, scale: int) -> None:
    address, health = ground.nodes()[0], write_field(1, HEALTH.encode())
    with contextlib.ExitStack() as opened, ground.attacked():
        channel = opened.enter_context(ground.channel(address, *TAKES_NOTHING))
        calls: list[Any] = [channel.unary_stream(f"{SERVICE}DoAction")(health) for _ in range(40 * scale)]
        for call in calls:
            opened.callback(call.cancel)
            with contextlib.suppress(grpc.RpcError):
                call.initial_metadata()
        other = opened.enter_context(ground.channel(address))
        answers: Any = other.unary_stream(f"{SERVICE}DoAction")(health, timeout=5)
        assert len(list(answers)) == 1
