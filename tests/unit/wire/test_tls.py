"""The two doors of a server, over real sockets: whom it takes each caller for, and whom a client believes."""

import asyncio
import contextlib
import shutil
import socket
import ssl
import warnings
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight
from tests.certificate_words import issued, of_process

from leasehold.certificates.authority import create_authority
from leasehold.certificates.files import CA
from leasehold.certificates.summary import summarise
from leasehold.core.access.callers import Caller, CallerRole
from leasehold.core.words.messages import AskStatus, Message, WhoAreYou
from leasehold.errors import BadSettings, LeaseholdError, Refused, Unreachable
from leasehold.limits.units import SECOND_NS
from leasehold.wire.addresses import next_port
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.flight import calling, reader_to
from leasehold.wire.flight_calls import Incoming
from leasehold.wire.flight_server import FlightServer, Outgoing
from leasehold.wire.ports import CALLER, Duplex
from leasehold.wire.rpc import GrpcServer, serve
from leasehold.wire.rpc_client import GrpcTransport
from leasehold.wire.tls import Tls, read_tls

TIMEOUT_NS = 10 * SECOND_NS
NEIGHBOUR = Caller(CallerRole.NEIGHBOUR)


def named(caller: Caller | None) -> Caller | None:
    """A caller without what tells one certificate of it from another."""
    return None if caller is None else Caller(caller.role, caller.name)


class Callers:
    """A service that notes whom it takes each caller for."""

    def __init__(self) -> None:
        self.seen: list[Caller | None] = []
        self.whole: Caller | None = None
        """The last one."""

    async def call(self, request: Message) -> Message:
        self.whole = CALLER.get()
        self.seen.append(named(CALLER.get()))
        return request

    async def stream(self, request: Message) -> AsyncIterator[Message]:
        self.seen.append(named(CALLER.get()))
        yield request

    async def session(self, duplex: Duplex) -> None:
        self.seen.append(named(CALLER.get()))
        await duplex.send(WhoAreYou())


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return issued(tmp_path_factory.mktemp("pki") / "ours")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an authority of the same names whom nobody trusts."""
    return issued(tmp_path_factory.mktemp("pki") / "theirs")


async def start(callers: Callers, tls: Tls | None, address: str = "127.0.0.1:0") -> GrpcServer:
    return await serve(address, callers, on_fault=lambda fault: pytest.fail(repr(fault)), tls=tls)


@pytest.mark.parametrize(
    ("holder", "caller"),
    [
        ("node-1", Caller(CallerRole.NODE, "node-1")),
        ("coordinator", Caller(CallerRole.COORDINATOR, "coordinator")),
        ("ann", Caller(CallerRole.CLIENT, "ann")),
        ("ann/ca.pem", NEIGHBOUR),
    ],
)
async def test_a_caller_is_whom_its_certificate_names(pki: Path, holder: str, caller: Caller) -> None:
    callers = Callers()
    server = await start(callers, of_process(pki / "coordinator"))
    connection = GrpcTransport(read_tls(pki / holder)).connect(server.address)
    try:
        await connection.call(AskStatus(), timeout_ns=TIMEOUT_NS)
        assert [one async for one in connection.stream(AskStatus(), timeout_ns=TIMEOUT_NS)] == [AskStatus()]
        session = await connection.session()
        await session.send(AskStatus())
        assert await session.receive() == WhoAreYou()
        assert callers.seen == [caller] * 3
    finally:
        await connection.close()
        await server.close()
    assert CALLER.get() is None


async def test_a_caller_is_known_with_the_serial_number_and_the_begin_of_its_certificate(pki: Path) -> None:
    callers = Callers()
    server = await start(callers, of_process(pki / "coordinator"))
    connection = GrpcTransport(read_tls(pki / "ann")).connect(server.address)
    try:
        await connection.call(AskStatus(), timeout_ns=TIMEOUT_NS)
    finally:
        await connection.close()
        await server.close()
    [facts, *_] = summarise(pki / "ann", datetime.now(UTC)).certificates
    times = (int(at.timestamp()) for at in (facts.not_before, facts.not_after))
    assert callers.whole == Caller(CallerRole.CLIENT, "ann", facts.serial, *times)


async def test_without_tls_nobody_is_known() -> None:
    callers = Callers()
    server = await start(callers, None)
    connection = GrpcTransport().connect(server.address)
    try:
        await connection.call(AskStatus(), timeout_ns=TIMEOUT_NS)
    finally:
        await connection.close()
        await server.close()
    assert callers.seen == [None]


@pytest.mark.parametrize(
    ("listen", "host"),
    [("0.0.0.0", "127.0.0.1"), ("[::]", "127.0.0.1"), ("[::]", "[::1]"), ("[::]", "localhost")],
)
async def test_beyond_loopback_who_shows_nothing_is_a_stranger(pki: Path, listen: str, host: str) -> None:
    callers = Callers()
    server = await start(callers, of_process(pki / "coordinator"), f"{listen}:0")
    port = server.address.rpartition(":")[2]
    connection = GrpcTransport(read_tls(pki / "ann" / CA)).connect(f"{host}:{port}")
    try:
        await connection.call(AskStatus(), timeout_ns=TIMEOUT_NS)
    finally:
        await connection.close()
        await server.close()
    assert callers.seen == [Caller(CallerRole.STRANGER)]


async def unreached(address: str, tls: Tls | None) -> str:
    """Why a call to the server at `address` gets no answer."""
    connection = GrpcTransport(tls).connect(address)
    try:
        with pytest.raises(Unreachable) as caught:
            await connection.call(AskStatus(), timeout_ns=TIMEOUT_NS)
    finally:
        await connection.close()
    return caught.value.text


async def test_nobody_comes_in_by_a_certificate_that_no_root_has_issued(pki: Path, theirs: Path) -> None:
    callers = Callers()
    server = await start(callers, of_process(pki / "coordinator"))
    ours, foreign = read_tls(pki / "node-1"), read_tls(theirs / "node-1")
    disguised = Tls(authority=ours.authority, roots=ours.roots, chain=foreign.chain, key=foreign.key)
    try:
        await unreached(server.address, disguised)
        assert "not of an authority that is trusted" in await unreached(server.address, foreign)
        assert "TLS" in await unreached(server.address, None)
        await unreached(next_port(server.address), None)
        members_door = Tls(authority=ours.authority, roots=ours.roots)
        host, _, port = server.address.rpartition(":")
        await unreached(f"{host}:{int(port) - 1}", members_door)  # it goes to the next port, where members come in
    finally:
        await server.close()
    assert callers.seen == []


async def test_a_certificate_of_another_cluster_of_the_same_root_is_as_good_as_none(pki: Path, theirs: Path) -> None:
    """As with a company's root: it has issued the certificates of several clusters."""
    callers = Callers()
    own, foreign = of_process(pki / "coordinator"), read_tls(theirs / "node-1")
    both = Tls(authority=own.authority, roots=own.roots + foreign.roots, chain=own.chain, key=own.key)
    server = await start(callers, both)
    caller = Tls(authority=own.authority, roots=own.roots, chain=foreign.chain, key=foreign.key)
    connection = GrpcTransport(caller).connect(server.address)
    try:
        await connection.call(AskStatus(), timeout_ns=TIMEOUT_NS)
    finally:
        await connection.close()
        await server.close()
    assert callers.seen == [NEIGHBOUR]


@pytest.mark.parametrize("impostor", ["node-1", "theirs"])
async def test_a_client_tells_a_coordinator_from_whoever_has_its_address(
    pki: Path, theirs: Path, impostor: str
) -> None:
    tls = of_process(theirs / "coordinator" if impostor == "theirs" else pki / impostor)
    callers = Callers()
    server = await start(callers, tls)
    try:
        for holder in ("ann", "ann/ca.pem"):
            await unreached(server.address, read_tls(pki / holder))
    finally:
        await server.close()
    assert callers.seen == []


async def test_a_server_without_tls_gets_no_word_from_a_client_with_it(pki: Path) -> None:
    callers = Callers()
    server = await start(callers, None)
    try:
        assert "TLS" in await unreached(server.address, read_tls(pki / "ann"))
    finally:
        await server.close()
    assert callers.seen == []


async def test_an_error_of_a_client_says_what_is_wrong_with_its_own_certificate(pki: Path, tmp_path: Path) -> None:
    """The connection alone fails, whatever the reason: the files are read again to say it."""
    broken = tmp_path / "broken"
    shutil.copytree(pki / "ann", broken)
    create_authority(tmp_path / "new", "", datetime.now(UTC), successor_of=pki / "authority")
    shutil.copy(tmp_path / "new" / CA, broken)
    server = await start(Callers(), of_process(pki / "coordinator"))
    connection = BlockingConnection(server.address, read_tls(broken))
    try:
        with pytest.raises(BadSettings) as caught:
            await asyncio.to_thread(connection.call, AskStatus(), TIMEOUT_NS)
    finally:
        connection.close()
        await server.close()
    assert caught.value.code == "BAD_CERTIFICATE"
    assert "has signed it" in caught.value.text


# ---------------------------------------------------------------- ports


async def test_the_door_of_strangers_is_at_the_next_port(pki: Path) -> None:
    server = await start(Callers(), of_process(pki / "coordinator"))
    try:
        for address in (server.address, next_port(server.address)):
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port))).close()
    finally:
        await server.close()


@pytest.mark.parametrize(
    ("version", "is_served"),
    [(ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, False), (ssl.TLSVersion.TLSv1_3, True)],
)
async def test_tls_is_1_3(pki: Path, version: ssl.TLSVersion, *, is_served: bool) -> None:
    server = await start(Callers(), of_process(pki / "coordinator"))
    context = ssl.create_default_context(cafile=pki / "coordinator" / CA)
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # else this client itself does without the older ones
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        context.minimum_version = context.maximum_version = version
    host, _, port = next_port(server.address).rpartition(":")
    try:
        with contextlib.nullcontext() if is_served else pytest.raises((ssl.SSLError, ConnectionError)):
            _, writer = await asyncio.open_connection(host, int(port), ssl=context)
            writer.close()
    finally:
        await server.close()


async def test_a_port_whose_next_one_is_taken_is_refused(pki: Path) -> None:
    with socket.socket() as first:
        first.bind(("127.0.0.1", 0))
        first.listen()
        port = first.getsockname()[1]
        with pytest.raises(BadSettings) as caught:
            await start(Callers(), of_process(pki / "coordinator"), f"127.0.0.1:{port - 1}")
    assert caught.value.code == "PORT_IN_USE"
    assert str(port) in caught.value.text


async def test_the_last_port_has_no_next_one(pki: Path) -> None:
    with pytest.raises(BadSettings, match="no next port"):
        await start(Callers(), of_process(pki / "coordinator"), "127.0.0.1:65535")


async def test_a_server_with_tls_listens_on_numbers_only(pki: Path) -> None:
    with pytest.raises(BadSettings, match="a name may stand for several"):
        await start(Callers(), of_process(pki / "coordinator"), "example.org:7400")


# ---------------------------------------------------------------- Flight


class FlightCallers:
    """A service that answers each ticket with whom it takes the caller for."""

    actions = {"health": "none"}  # noqa: RUF012 - as in the protocol

    def check_counts(self, caller: Caller | None, /) -> None:
        pass

    def who_calls(self, said: bytes, caller: Caller | None) -> str | None:
        return None

    def get(self, ticket: bytes, caller: Caller | None, /) -> Outgoing:
        batch = pa.record_batch({"caller": [repr(named(caller)), ticket.decode()]})
        return Outgoing(batch.schema, iter([(batch, None)]))

    def put(self, command: bytes, incoming: Incoming, caller: Caller | None, /) -> Iterator[bytes]:
        raise Refused(f"nothing is taken: {command!r} {incoming} {caller}")

    def act(self, action: str, body: bytes, caller: Caller | None) -> bytes:
        return action.encode()


@pytest.fixture(scope="module")
def node(pki: Path) -> Iterator[FlightServer]:
    server = FlightServer(
        FlightCallers(),
        listen="127.0.0.1:0",
        on_fault=lambda fault: pytest.fail(repr(fault)),
        tls=of_process(pki / "node-1"),
    )
    yield server
    server.close()


def asked(address: str, tls: Tls | None) -> str:
    with calling(address):
        found = reader_to(address, tls).do_get(flight.Ticket(b"t"), flight.FlightCallOptions(timeout=10)).read_all()
    return str(found["caller"][0])


@pytest.mark.parametrize(
    ("holder", "caller"),
    [
        ("node-2", Caller(CallerRole.NODE, "node-2")),
        ("ann", Caller(CallerRole.CLIENT, "ann")),
        ("ann/ca.pem", NEIGHBOUR),
    ],
)
def test_a_node_knows_callers_by_their_certificates(pki: Path, node: FlightServer, holder: str, caller: Caller) -> None:
    assert asked(node.address, read_tls(pki / holder)) == repr(caller)


def test_a_node_and_a_client_of_different_authorities_do_not_meet(pki: Path, theirs: Path, node: FlightServer) -> None:
    ours, foreign = read_tls(pki / "ann"), read_tls(theirs / "ann")
    mixed = Tls(authority=ours.authority, roots=ours.roots, chain=foreign.chain, key=foreign.key)
    for tls in (foreign, mixed, None):
        with pytest.raises(LeaseholdError):
            asked(node.address, tls)


async def test_a_coordinator_is_no_node(pki: Path) -> None:
    server = await start(Callers(), of_process(pki / "coordinator"))
    try:
        with pytest.raises(Unreachable):
            asked(server.address, read_tls(pki / "ann"))
    finally:
        await server.close()
