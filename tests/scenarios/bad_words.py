"""Words that the scenarios of bad messages share: garbled bytes, and a coordinator on real sockets to send them to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, get_args

import grpc
import msgspec
import pytest

from leasehold.coordinator.runtime import Coordinator
from leasehold.core.lease.grants import HeldLease
from leasehold.core.membership.identity import CAPABILITIES
from leasehold.core.words.codec import encode
from leasehold.core.words.lineage import GENESIS
from leasehold.core.words.messages import (
    Allocate,
    AllocateAnswer,
    AskStatus,
    Execute,
    Initialise,
    Join,
    JoinAnswer,
    Message,
    OpenSession,
    Renewal,
    SessionOpened,
    Surrender,
    SurrenderAccepted,
)
from leasehold.errors import LeaseholdError, NotLeader
from leasehold.ids import (
    ClusterId,
    Generation,
    Incarnation,
    NodeId,
    Nonce,
    RequestNumber,
    Revision,
    Session,
    StatementId,
    Token,
)
from leasehold.limits.units import SECOND_NS
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from leasehold.testing.passwords import QuickPasswords
from leasehold.testing.threads import NoThreads
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.rpc import CALL, STREAM, read_answer, serve
from leasehold.wire.rpc_client import GrpcTransport

CLUSTER = ClusterId("c" * 32)
OTHER = ClusterId("d" * 32)
SOON_NS = 10 * SECOND_NS
OWN = Session("1" * 32)
ANOTHER = Session("2" * 32)


def nested(depth: int) -> bytes:
    """A known message with an unknown key, whose value lies so deep that a decoder could run out of stack."""
    return b"\x82\xa1x" + b"\x91" * depth + b"\xc0" + b"\xa1t" + msgspec.msgpack.encode("who-are-you/1")


def packed(**fields: object) -> bytes:
    return msgspec.msgpack.encode(fields)


GARBLED = {
    "noise": b"\xff\x00garbage",
    "not a map": msgspec.msgpack.encode([1, 2]),
    "no tag": packed(a=1),
    "a tag of the future": packed(t="who-are-you/2"),
    "a field of the future": packed(t="who-are-you/1", new=1),
    "a missing field": packed(t="ask-table/1", name="d.t"),
    "another type": packed(t="ask-table/1", cluster_id=None, name=7),
    "text that is none": b"\x82\xa1t\xadask-status/1\x00\xa2\xff\xff\x01",
    "nested": nested(60_000),
}
WHOLE = encode(Execute(cluster_id=CLUSTER, statement=StatementId("e" * 32), text="CREATE DATABASE d"))
TRUNCATED = [WHOLE[:length] for length in range(1, len(WHOLE))]


# ---------------------------------------------------------------- a coordinator on real sockets


class Ground:
    """A coordinator that leads, with two nodes joined: `OWN` is node 1's session, incarnation 2, `ANOTHER` node 2's."""

    def __init__(self, coordinator: Coordinator, storage: MemoryMetaStorage, address: str) -> None:
        self.coordinator = coordinator
        self.storage = storage
        self.address = address
        self.faults: list[BaseException] = []
        self.transport = GrpcTransport()

    async def call(self, request: Message) -> Message:
        connection = self.transport.connect(self.address)
        try:
            return await connection.call(request, timeout_ns=SOON_NS)
        finally:
            await connection.close()

    async def join(self, number: int, session: Session, previous: int = 0) -> None:
        token, nonce = Token(f"{number}" * 32), Nonce(f"{number}{previous}" * 16)
        name = f"n{number}"
        allocated = await self.call(Allocate(cluster_id=CLUSTER, token=token, name=name, address=f"{name}:1"))
        assert isinstance(allocated, AllocateAnswer)
        joined = await self.call(
            Join(
                cluster_id=CLUSTER,
                generation=Generation(1),
                token=token,
                node=allocated.node,
                name=name,
                address=f"{name}:1",
                previous=Incarnation(previous),
                nonce=nonce,
                session=session,
                protocol=1,
                applied=Revision(0),
                lineage=GENESIS,
                capabilities=CAPABILITIES,
            )
        )
        assert isinstance(joined, JoinAnswer), joined

    async def initialise(self) -> None:
        """As soon as the coordinator leads."""
        while True:
            try:
                await self.call(Initialise(cluster_id=CLUSTER))
            except NotLeader:
                await asyncio.sleep(0.01)
            else:
                return

    def state(self) -> tuple[object, ...]:
        """All that a message could change: what is durable, what was granted, who is heard."""
        leader = self.coordinator.leader
        assert leader is not None
        grantor = leader.grantor
        held: list[HeldLease | None] = [grantor.held(NodeId(number)) for number in (1, 2, 3)]
        return self.storage.store.newest, grantor.floor, grantor.sequence, held

    async def still_serves(self) -> None:
        """Everybody else: a client, and the other node on a session of its own."""
        assert isinstance(await self.call(AskStatus()), get_args(Message))
        connection = self.transport.connect(self.address)
        duplex = await connection.session()
        await duplex.send(opening(2, session=ANOTHER, incarnation=1))
        assert isinstance(await duplex.receive(), SessionOpened)
        await duplex.close()
        await connection.close()
        assert self.faults == []


@asynccontextmanager
async def ground() -> AsyncIterator[Ground]:
    storage = StoredIn(MemoryStore())
    coordinator = Coordinator(
        name="c1",
        storage=storage,
        clock=BoottimeClock(),
        passwords=QuickPasswords(),
        entropy=SystemEntropy(),
        threads=NoThreads(),
        statement_threads=NoThreads(),
    )
    faults: list[BaseException] = []
    server = await serve("127.0.0.1:0", coordinator, on_fault=faults.append)
    try:
        async with asyncio.TaskGroup() as group:
            life = group.create_task(coordinator.run())
            made = Ground(coordinator, storage, server.address)
            made.faults = faults
            await made.initialise()
            await until(lambda: coordinator.leader)
            await made.join(1, Session("0" * 32))
            await surrendered(made, 1, Session("0" * 32))
            await made.join(1, OWN, previous=1)
            await made.join(2, ANOTHER)
            yield made
            life.cancel()
    finally:
        await server.close()
        await storage.close()


async def until(holds: Callable[[], object], *, at_most_s: int = 10) -> None:
    """Lets the others run until it holds; the seconds are virtual ones in a simulation."""
    async with asyncio.timeout(at_most_s):
        while not holds():  # noqa: ASYNC110 nobody here has an event to set
            await asyncio.sleep(0.01)


class StoredIn(MemoryMetaStorage):
    """A meta storage whose store can be looked at."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.store = store


async def surrendered(made: Ground, node: int, session: Session) -> None:
    """Ends the first incarnation, so that the next one need not wait for its lease."""
    connection = made.transport.connect(made.address)
    duplex = await connection.session()
    await duplex.send(opening(node, session=session, incarnation=1))
    await duplex.send(Surrender(node=NodeId(node), incarnation=Incarnation(1), session=session))
    while not isinstance(await duplex.receive(), SurrenderAccepted):
        pass
    await duplex.close()
    await connection.close()


def opening(number: int, **other: Any) -> OpenSession:
    made = OpenSession(
        cluster_id=CLUSTER, node=NodeId(number), incarnation=Incarnation(2), session=OWN, watch_from=Revision(1)
    )
    return msgspec.structs.replace(made, **other)


def raw(made: Ground) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(made.address, options=[("grpc.max_send_message_length", -1)])


async def answer_to(made: Ground, method: str, blob: bytes) -> LeaseholdError:
    """The error that comes back for raw bytes on a unary or a streaming call."""
    async with raw(made) as channel:
        with pytest.raises(LeaseholdError) as caught:
            if method == CALL:
                read_answer(await channel.unary_unary(CALL)(blob, timeout=10))
            else:
                answers = [answer async for answer in channel.unary_stream(STREAM)(blob, timeout=10)]
                read_answer(answers[-1])
    return caught.value


def renewal(**other: Any) -> Renewal:
    made = Renewal(
        node=NodeId(1),
        incarnation=Incarnation(2),
        session=OWN,
        request=RequestNumber(1),
        applied=Revision(1),
        lineage=GENESIS,
    )
    return msgspec.structs.replace(made, **other)
