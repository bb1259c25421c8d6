"""From which addresses somebody has come who has shown who that is, as servers and gossip see it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.certificate_words import issued, of_process
from tests.unit.wire.served_flight import KNOWN, serving
from tests.unit.wire.served_flight import call as flight_call
from tests.unit.wire.test_udp import until

from leasehold.cli.discovery import seal_of
from leasehold.core.swim.messages import Member, Role
from leasehold.core.words.messages import AskStatus, LoggedIn, Login, LogInByToken, Message, WhoAreYou
from leasehold.errors import LeaseholdError, Refused
from leasehold.ids import LoginToken, NodeId, Revision, UserToken
from leasehold.limits.units import SECOND_NS
from leasehold.wire import udp
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.flight import CALLER_HEADER
from leasehold.wire.gossip import Gossip
from leasehold.wire.known_peers import KnownPeers
from leasehold.wire.ports import Duplex
from leasehold.wire.rpc import GrpcServer, serve
from leasehold.wire.rpc_client import GrpcTransport
from leasehold.wire.tls import Tls, read_tls

HERE = "127.0.0.1"
TIMEOUT_NS = 10 * SECOND_NS
KEY, OTHER_KEY = b"k" * 32, b"o" * 32


class Doorkeeper:
    """Lets ann in, and answers nothing else."""

    async def call(self, request: Message) -> Message:
        if isinstance(request, Login) and (request.user, request.password) == ("ann", "right"):
            return LoggedIn(token=LoginToken("0" * 32), revision=Revision(1))
        if isinstance(request, LogInByToken):
            return LoggedIn(token=LoginToken("0" * 32), revision=Revision(1))
        raise Refused("no", code="NO", hint="")

    async def stream(self, request: Message) -> AsyncIterator[Message]:
        yield request

    async def session(self, duplex: Duplex) -> None:
        await duplex.close()


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return issued(tmp_path_factory.mktemp("pki") / "ours")


async def asked(request: Message, *, server_tls: Tls | None = None, tls: Tls | None = None) -> GrpcServer:
    """A server that was asked this once, and has closed."""
    server = await serve("127.0.0.1:0", Doorkeeper(), on_fault=lambda fault: pytest.fail(repr(fault)), tls=server_tls)
    connection = GrpcTransport(tls).connect(server.address)
    try:
        with contextlib.suppress(LeaseholdError):
            await connection.call(request, timeout_ns=TIMEOUT_NS)
    finally:
        await connection.close()
        await server.close()
    return server


@pytest.mark.parametrize(
    ("holder", "is_known"), [("node-1", True), ("coordinator", True), ("ann", True), ("ann/ca.pem", False)]
)
async def test_who_shows_a_certificate_is_known(pki: Path, holder: str, is_known: bool) -> None:
    server = await asked(AskStatus(), server_tls=of_process(pki / "coordinator"), tls=read_tls(pki / holder))
    assert (HERE in server.known) == is_known


@pytest.mark.parametrize(
    ("request_", "is_known"),
    [
        (Login(cluster_id=None, user="ann", password="right"), True),
        (LogInByToken(cluster_id=None, user="ann", token=UserToken("0" * 32)), True),
        (Login(cluster_id=None, user="ann", password="wrong"), False),
        (WhoAreYou(), False),
    ],
    ids=["the right password", "a token", "a wrong password", "a question"],
)
async def test_who_logs_in_is_known(request_: Message, is_known: bool) -> None:
    server = await asked(request_)
    assert (HERE in server.known) == is_known


@pytest.mark.parametrize(("said", "is_known"), [(KNOWN, True), (b"unknown", False)])
def test_who_asks_a_node_with_a_login_is_known(said: bytes, is_known: bool) -> None:
    with serving() as served, served.raw() as channel:
        flight_call(channel, "ListActions", b"", metadata=[(CALLER_HEADER, said)])
        assert (HERE in served.server.known) == is_known


async def test_who_gossips_with_the_key_of_the_cluster_is_known() -> None:
    peers = [await udp.listen("127.0.0.1:0") for _ in range(3)]
    heard: asyncio.Queue[str] = asyncio.Queue()

    def member(number: int, key: bytes, *, listens: bool = False) -> Gossip:
        name = f"n{number}"
        return Gossip(
            me=Member(
                name=name,
                address=peers[number].address,
                role=Role.NODE,
                service="127.0.0.1:1",
                node=NodeId(number + 1),
            ),
            seal=seal_of((key,)),
            seeds=() if listens else (peers[0].address,),
            clock=BoottimeClock(),
            entropy=SystemEntropy(),
            datagrams=peers[number],
            on_heard=heard.put_nowait if listens else lambda _: None,
        )

    first, stranger, friend = member(0, KEY, listens=True), member(1, OTHER_KEY), member(2, KEY)
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        running = [group.create_task(one.run()) for one in (first, stranger)]
        await until(lambda: first.traffic.dropped)
        running.append(group.create_task(friend.run()))
        assert await heard.get() == peers[2].address
        for one in running:
            one.cancel()
    while not heard.empty():
        assert heard.get_nowait() == peers[2].address


def test_a_source_of_gossip_is_known_by_its_host() -> None:
    known = KnownPeers()
    known.heard("[2001:db8::1]:7400")
    known.heard("192.0.2.1:7400")
    assert "2001:db8::/64" in known
    assert "192.0.2.1" in known
    assert "192.0.2.2" not in known
