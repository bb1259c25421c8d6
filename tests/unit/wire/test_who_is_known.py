"""From which addresses somebody has come who has shown who that is, as servers and gossip see it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.certificate_words import issued, of_process
from tests.unit.wire.served_flight import KNOWN, serving
from tests.unit.wire.served_flight import call as flight_call

from leasehold.core.access.callers import Caller
from leasehold.core.words.messages import AskStatus, Message, WhoAreYou
from leasehold.error_codes import ErrorCode
from leasehold.errors import Forbidden, LeaseholdError, Unreachable
from leasehold.limits.units import SECOND_NS
from leasehold.wire.flight import CALLER_HEADER
from leasehold.wire.known_peers import PeerStanding
from leasehold.wire.ports import WHO_ASKS, Duplex
from leasehold.wire.rpc import GrpcServer, serve
from leasehold.wire.rpc_client import GrpcTransport
from leasehold.wire.tls import Tls, read_tls

HERE = "127.0.0.1"
TIMEOUT_NS = 10 * SECOND_NS
KEY, OTHER_KEY = b"k" * 32, b"o" * 32


class Doorkeeper:
    """Knows who asks for the status, and nobody else."""

    async def call(self, request: Message) -> Message:
        if isinstance(request, AskStatus):
            WHO_ASKS.get()("user ann")
        return request

    async def stream(self, request: Message) -> AsyncIterator[Message]:
        yield request

    async def session(self, duplex: Duplex) -> None:
        await duplex.receive()
        await duplex.close()


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return issued(tmp_path_factory.mktemp("pki") / "ours")


async def served(tls: Tls | None = None, check_counts: Callable[[Caller | None], None] = lambda _: None) -> GrpcServer:
    return await serve(
        "127.0.0.1:0", Doorkeeper(), on_fault=lambda fault: pytest.fail(repr(fault)), tls=tls, check_counts=check_counts
    )


async def asked(request: Message, *, server_tls: Tls | None = None, tls: Tls | None = None) -> GrpcServer:
    """A server that was asked this once, and has closed."""
    server = await served(server_tls)
    connection = GrpcTransport(tls).connect(server.address)
    try:
        with contextlib.suppress(LeaseholdError):
            await connection.call(request, timeout_ns=TIMEOUT_NS)
    finally:
        await connection.close()
        await server.close()
    return server


@pytest.mark.parametrize(
    ("holder", "is_known"), [("node-1", True), ("coordinator", True), ("ann", False), ("ann/ca.pem", False)]
)
async def test_a_member_is_known_by_its_certificate(pki: Path, holder: str, is_known: bool) -> None:
    server = await asked(WhoAreYou(), server_tls=of_process(pki / "coordinator"), tls=read_tls(pki / holder))
    assert (HERE in server.known) == is_known


@pytest.mark.parametrize("holder", ["node-1", "coordinator", "ann"])
async def test_connections_end_on_which_a_certificate_was_shown_that_counts_no_more(pki: Path, holder: str) -> None:
    counting: list[str] = []

    def check_counts(caller: Caller | None) -> None:
        if caller is not None and caller.serial and not counting:
            raise Forbidden("it was revoked", code=ErrorCode.CERTIFICATE_REVOKED)

    counting.append("all")
    server = await served(of_process(pki / "coordinator"), check_counts)
    first, second = (GrpcTransport(read_tls(pki / holder)).connect(server.address) for _ in range(2))
    try:
        silent = await first.session()
        assert (HERE in server.known) == (holder != "ann")
        counting.clear()
        async with asyncio.timeout(8):  # a call that says nothing ends by itself after 10 s
            await server._server._has_none.wait()
        with pytest.raises(Unreachable):
            await silent.receive()
        assert HERE not in server.known
        # Whoever comes with it now is a stranger, and hears from the service why it is refused.
        await second.call(WhoAreYou(), timeout_ns=TIMEOUT_NS)
        assert HERE not in server.known
        # The connection is worth what its certificate is worth, and that may count again.
        [connection] = server._server._connections
        counting.append("all")
        async with asyncio.timeout(30):
            while connection.standing is PeerStanding.NONE:  # noqa: ASYNC110 nobody tells of it
                await asyncio.sleep(0.01)
        assert (HERE in server.known) == (holder != "ann")
        await second.call(WhoAreYou(), timeout_ns=TIMEOUT_NS)
        assert set(server._server._connections) == {connection}, "it was not ended"
    finally:
        await first.close()
        await second.close()
        await server.close()


@pytest.mark.parametrize(("request_", "is_known"), [(AskStatus(), True), (WhoAreYou(), False)])
async def test_whom_the_service_has_found_to_be_somebody_is_known(request_: Message, is_known: bool) -> None:
    server = await asked(request_)
    assert (HERE in server.known) == is_known


@pytest.mark.parametrize(("said", "is_known"), [(KNOWN, True), (b"unknown", False)])
def test_who_asks_a_node_with_a_login_is_known(said: bytes, is_known: bool) -> None:
    with serving() as served, served.raw() as channel:
        flight_call(channel, "ListActions", b"", metadata=[(CALLER_HEADER, said)])
        assert (HERE in served.server.known) == is_known
