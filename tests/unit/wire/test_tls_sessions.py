"""Sessions of TLS that go on in another connection: nobody has looked at the certificate again."""

import asyncio
import contextlib
import socket
import ssl
from pathlib import Path

import grpc
import grpc.aio
from grpc.experimental import session_cache
from tests.certificate_words import of_process
from tests.unit.wire.test_tls import Callers, pki, start

from leasehold.certificates.files import IDENTITY
from leasehold.core.access.callers import Caller, CallerRole
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import AskStatus
from leasehold.wire.rpc import CALL, CHANNEL_OPTIONS
from leasehold.wire.tls import Tls, read_tls

__all__ = ["pki"]


async def test_no_connection_goes_on_with_the_session_of_an_earlier_one(pki: Path) -> None:
    """TLS would not look at the certificate again, which may have ended."""
    callers, tls = Callers(), read_tls(pki / "ann")
    server = await start(callers, of_process(pki / "coordinator"))
    cache = ("grpc.ssl_session_cache", session_cache.ssl_session_cache_lru(1))
    options = (*CHANNEL_OPTIONS, *tls.checks_of_coordinators(), cache)
    try:
        for _ in range(2):
            async with grpc.aio.secure_channel(tls.door(server.address), tls.channel(), options=options) as channel:
                call = channel.unary_unary(CALL)(encode(AskStatus()), timeout=10)
                await call
                assert callers.seen.pop() == Caller(CallerRole.CLIENT, "ann")
        assert await asyncio.to_thread(resumes, pki, tls, server.address) is False
    finally:
        await server.close()


def resumes(pki: Path, tls: Tls, address: str) -> bool | None:
    """Whether a client with the session of one connection goes on with it in the next one."""
    context = ssl.create_default_context(cadata=tls.roots.decode())
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(pki / "ann" / IDENTITY)
    host, _, port = tls.door(address).rpartition(":")
    session = reused = None
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            plain = stack.enter_context(socket.create_connection((host, int(port))))
            connection = stack.enter_context(context.wrap_socket(plain, session=session))
            connection.recv(1)
            session, reused = connection.session, connection.session_reused
    return reused
