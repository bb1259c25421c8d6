"""A process that stands for many nodes: each has a TCP connection, a session stream and a `Holder` of its own.

The streams are those of `bench/session_streams.py`. Registration goes through the real client.
"""

import asyncio
import gc
import heapq
import ssl
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import msgspec
import uvloop

from bench.session_streams import Stream
from leasehold.certificates.files import IDENTITY
from leasehold.certificates.names import CertificateRole
from leasehold.core.lease.holder import (
    Applied,
    GrantReceived,
    Holder,
    HolderEvent,
    PublishLease,
    SendRenewal,
    SessionEstablished,
    TimePassed,
)
from leasehold.core.membership.identity import CAPABILITIES
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_message
from leasehold.core.words.lineage import GENESIS
from leasehold.core.words.messages import (
    Allocate,
    AllocateAnswer,
    ClusterFacts,
    Grant,
    Join,
    JoinAnswer,
    OpenSession,
    RecoveryAccepted,
    RecoveryBehind,
    RecoveryFinished,
    RenewalRefused,
    SessionOpened,
    Watched,
    WhoAreYou,
)
from leasehold.ids import Incarnation, LineageHash, Nonce, RequestNumber, Revision, Session, Token
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.messages import PROTOCOL_VERSION
from leasehold.limits.units import SECOND_NS
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.rpc_client import GrpcConnection
from leasehold.wire.tls import Tls, read_tls

JOINING_AT_ONCE = 64
NODES_OF_A_MACHINE = 100
"""A coordinator takes so many connections of one address, and more: each address stands for a machine."""
OPENING_S = 30


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """What the nodes are to do: renew this often, spread evenly, for so long."""

    every_ns: int
    lasts_ns: int


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """How long all nodes took to register, each over a connection of its own, before they opened their sessions."""

    lasted_ns: int


class Seen(msgspec.Struct, kw_only=True):
    """What happened in a phase. A lag is how late this process sent a renewal: if it is large, look at nothing else."""

    sent: int = 0
    refused: int = 0
    trips_ns: list[int] = []
    lags_ns: list[int] = []
    urgent: int = 0
    broken: str | None = None
    """Why a connection ended, which ended the phase: a coordinator that has too much to do ends some."""


# ---------------------------------------------------------------- one node


class Applying:
    """What a revision means to a node, worked out once for all of them: they get the same bytes."""

    def __init__(self) -> None:
        self._blob = b""
        self._event: Applied | None = None

    def read(self, blob: bytes, message: Watched) -> Applied:
        if self._event is None or blob != self._blob:
            changes = message.batch.changes
            lineage = next(one.value for one in changes if one.key == keys.LINEAGE)
            assert lineage is not None
            urgent = any(one.key.startswith(keys.PROCEDURES) and one.value is not None for one in changes)
            self._event = Applied(revision=message.batch.revision, lineage=LineageHash(lineage), urgent=urgent)
            self._blob = blob
        return self._event


class Node:
    """A session of one node: it renews as the production holder says, and applies what it is sent."""

    def __init__(
        self, join: Join, incarnation: Incarnation, applied: Revision, lineage: LineageHash, tls: Tls | None
    ) -> None:
        self._clock = BoottimeClock()
        self._tls = tls
        self._join = join
        self._incarnation = incarnation
        self._applied = applied
        self._lineage = lineage
        self._sent_ns: dict[RequestNumber, int] = {}
        self.opened: asyncio.Future[SessionOpened] = asyncio.get_running_loop().create_future()
        self.accepted: asyncio.Future[Revision] = asyncio.get_running_loop().create_future()
        self.advanced = asyncio.Event()
        self.seen = Seen()
        self.holder: Holder | None = None
        self.stream: Stream | None = None

    @property
    def applied(self) -> Revision:
        return self._applied

    @property
    def lineage(self) -> LineageHash:
        return self._lineage

    async def open(self, address: str) -> SessionOpened:
        host, port = address.rsplit(":", 1)
        loop = asyncio.get_running_loop()
        context, name = (None, None) if self._tls is None else (_context(self._tls), _coordinator(self._tls))
        machine = f"127.0.1.{1 + self._join.node // NODES_OF_A_MACHINE}"
        _, self.stream = await loop.create_connection(
            lambda: Stream(address, self._on_bytes),
            host,
            int(port),
            ssl=context,
            server_hostname=name,
            local_addr=(machine, 0),
        )
        self.stream.send(
            OpenSession(
                cluster_id=self._join.cluster_id,
                node=self._join.node,
                incarnation=self._incarnation,
                session=self._join.session,
                watch_from=Revision(self._applied + 1),
            )
        )
        return await self.opened

    def finish(self) -> None:
        """Says that it has recovered."""
        assert self.stream is not None
        self.stream.send(
            RecoveryFinished(
                node=self._join.node,
                incarnation=self._incarnation,
                session=self._join.session,
                applied=self._applied,
            )
        )

    async def enter(self) -> None:
        """Waits until it is in the logical topology and has applied what was required of it."""
        required = await self.accepted
        while self._applied < required:
            self.advanced.clear()
            await self.advanced.wait()

    def follow(self, every_ns: int, seen: Seen) -> None:
        """Begins a phase."""
        self.seen = seen
        self._sent_ns.clear()
        self.holder = Holder(
            node=self._join.node,
            incarnation=self._incarnation,
            session=self._join.session,
            applied=self._applied,
            lineage=self._lineage,
            renew_every_ns=every_ns,
        )
        self.step(SessionEstablished(term=self.opened.result().term))

    def step(self, event: HolderEvent) -> None:
        assert self.holder is not None
        assert self.stream is not None
        now_ns = self._clock.now_ns()
        for effect in self.holder.step(event, now_ns):
            match effect:
                case SendRenewal(renewal=renewal):
                    self._sent_ns[renewal.request] = now_ns
                    self.seen.sent += 1
                    self.stream.send(renewal)
                case PublishLease():
                    pass
                case _:
                    raise AssertionError(effect)

    def _on_bytes(self, blob: bytes) -> None:
        message = decode_message(blob)
        match message:
            case Grant() | RenewalRefused():
                began_ns = self._sent_ns.pop(message.request, None)
                if began_ns is None:
                    return  # of an earlier phase
                self.seen.trips_ns.append(self._clock.now_ns() - began_ns)
                if isinstance(message, Grant):
                    self.step(GrantReceived(grant=message))
                else:
                    self.seen.refused += 1
            case Watched():
                self._on_revision(APPLYING.read(blob, message))
            case SessionOpened():
                self.opened.set_result(message)
            case RecoveryAccepted(required=required):
                self.accepted.set_result(required)
            case RecoveryBehind():
                self.finish()
            case _:
                raise AssertionError(message)

    def _on_revision(self, event: Applied) -> None:
        self._applied, self._lineage = event.revision, event.lineage
        self.advanced.set()
        if self.holder is not None:
            self.seen.urgent += event.urgent
            self.step(event)


APPLYING = Applying()


def _context(tls: Tls) -> ssl.SSLContext:
    """What a node shows and trusts, for a bare socket."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=tls.roots.decode())
    context.load_cert_chain(Path(tls.bundle) / IDENTITY)
    context.set_alpn_protocols(["h2"])
    return context


def _coordinator(tls: Tls) -> str:
    return tls.server_name(CertificateRole.COORDINATOR)


def node_name(number: int) -> str:
    return f"node-{number}"


# ---------------------------------------------------------------- all of them


async def _join(coordinator: str, tls: Tls | None, facts: ClusterFacts, number: int) -> tuple[Join, Incarnation]:
    entropy, connection = SystemEntropy(), GrpcConnection(coordinator, tls)
    name, address, token = node_name(number), f"127.0.0.1:{20_000 + number}", Token(entropy.hex_128())
    ask = Allocate(cluster_id=facts.cluster_id, token=token, name=name, address=address)
    allocated = await connection.call(ask, timeout_ns=CALL_TIMEOUT_NS)
    assert isinstance(allocated, AllocateAnswer)
    join = Join(
        cluster_id=facts.cluster_id,
        generation=facts.generation,
        token=token,
        node=allocated.node,
        name=name,
        address=address,
        previous=Incarnation(0),
        nonce=Nonce(entropy.hex_128()),
        session=Session(entropy.hex_128()),
        protocol=PROTOCOL_VERSION,
        applied=Revision(0),
        lineage=GENESIS,
        capabilities=CAPABILITIES,
    )
    joined = await connection.call(join, timeout_ns=CALL_TIMEOUT_NS)
    assert isinstance(joined, JoinAnswer)
    await connection.close()
    return join, joined.incarnation


async def _register_all(address: str, shown: list[Tls | None]) -> tuple[list[tuple[Join, Incarnation]], Joined]:
    """Each node with the certificate that it shows."""
    connection = GrpcConnection(address, shown[0])
    facts = await connection.call(WhoAreYou(), timeout_ns=CALL_TIMEOUT_NS)
    assert isinstance(facts, ClusterFacts)
    await connection.close()
    joined: list[tuple[Join, Incarnation]] = []
    count, began_ns = len(shown), BoottimeClock().now_ns()
    for first in range(1, count + 1, JOINING_AT_ONCE):
        numbers = range(first, min(first + JOINING_AT_ONCE, count + 1))
        joined.extend(await asyncio.gather(*(_join(address, shown[one - 1], facts, one) for one in numbers)))
    return joined, Joined(lasted_ns=BoottimeClock().now_ns() - began_ns)


async def _open_all(address: str, shown: list[Tls | None]) -> tuple[list[Node], Joined]:
    """Registers all nodes, reads the history once, then opens a session of each from the newest revision on."""
    joined, lasted = await _register_all(address, shown)
    reader = Node(*joined[0], Revision(0), GENESIS, shown[0])
    latest = (await reader.open(address)).latest
    while reader.applied < latest:
        reader.advanced.clear()
        await reader.advanced.wait()
    assert reader.stream is not None
    reader.stream.close()
    nodes = [
        Node(join, incarnation, reader.applied, reader.lineage, tls)
        for (join, incarnation), tls in zip(joined, shown, strict=True)
    ]
    for node in nodes:
        await asyncio.wait_for(node.open(address), OPENING_S)
    for node in nodes:
        node.finish()
    for node in nodes:
        await node.enter()
    return nodes, lasted


async def _phase(nodes: list[Node], phase: Phase) -> Seen:
    seen = Seen()
    try:
        await _renew(nodes, phase, seen)
    except ConnectionError as error:
        seen.broken = str(error)
    return seen


async def _renew(nodes: list[Node], phase: Phase, seen: Seen) -> None:
    """All nodes begin one after the other within the first interval, so that they stay spread. Raises
    `ConnectionError`."""
    clock = BoottimeClock()
    began_ns = clock.now_ns()
    ends_ns = began_ns + phase.lasts_ns
    due = [(began_ns + index * phase.every_ns // len(nodes), index, False) for index in range(len(nodes))]
    while (now_ns := clock.now_ns()) < ends_ns:
        while due and due[0][0] <= now_ns:
            at_ns, index, running = due[0]
            node = nodes[index]
            if not running:
                node.follow(phase.every_ns, seen)
            elif node.holder is not None and node.holder.next_deadline_ns() == at_ns:
                seen.lags_ns.append(now_ns - at_ns)
                node.step(TimePassed())
            assert node.holder is not None
            next_ns = node.holder.next_deadline_ns()
            assert next_ns is not None
            heapq.heapreplace(due, (next_ns, index, True))
        until_ns = min(due[0][0], ends_ns)
        await asyncio.sleep(max(0, until_ns - clock.now_ns()) / SECOND_NS)
    for node in nodes:
        assert node.stream is not None
        if node.stream.broken is not None:
            raise ConnectionError(node.stream.broken)


async def _serve(pipe: Pipe, address: str, shown: list[Tls | None]) -> None:
    """Tells once all sessions are open, then carries out one phase after the other, until the pipe ends."""
    nodes, joined = await _open_all(address, shown)
    gc.collect()
    gc.freeze()
    pipe.send_bytes(msgspec.msgpack.encode(joined))
    while phase := await asyncio.to_thread(_next_phase, pipe):
        pipe.send_bytes(msgspec.msgpack.encode(await _phase(nodes, phase)))
    for node in nodes:
        assert node.stream is not None
        node.stream.close()


def _next_phase(pipe: Pipe) -> Phase | None:
    try:
        return msgspec.msgpack.decode(pipe.recv_bytes(), type=Phase)
    except EOFError:
        return None


def main(pipe: Pipe, address: str, count: int, bundles: Path | None) -> None:
    """The life of the process; the other end of `pipe` gets `Joined`, then sends `Phase` and gets `Seen`. With
    `bundles` each node shows the certificate of its name that is in there."""
    shown = [None if bundles is None else read_tls(bundles / node_name(number)) for number in range(1, count + 1)]
    uvloop.run(_serve(pipe, address, shown))
