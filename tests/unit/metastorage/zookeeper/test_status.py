"""What a member tells about itself, which releases keep a log, and what is no ZooKeeper."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from leasehold.errors import LeaseholdError
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.metastorage.log.store import StoreUnsuitable
from leasehold.metastorage.tries import TryFailed
from leasehold.metastorage.zookeeper.releases import check_release, release_warning
from leasehold.metastorage.zookeeper.status import UNKNOWN, ZooKeeperStatus, ask_status
from tests.certificates import Authority

FOLLOWER = b"Zookeeper version: 3.9.5-293c89, built on 2026-02-11 20:18 UTC\nZxid: 0x1\nMode: follower\nNode count: 5\n"


@asynccontextmanager
async def answering(answer: bytes | None) -> AsyncIterator[str]:
    """The address of a server that gives this answer, or none."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answer is None:
            await ended.wait()
        else:
            assert await reader.readexactly(4) == b"srvr"
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ended.set()


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (FOLLOWER, ZooKeeperStatus(version="3.9.5", leads=False)),
        (FOLLOWER.replace(b"follower", b"leader"), ZooKeeperStatus(version="3.9.5", leads=True)),
        (FOLLOWER.replace(b"follower", b"standalone"), ZooKeeperStatus(version="3.9.5", leads=True)),
        (b"srvr is not executed because it is not in the whitelist.\n", ZooKeeperStatus(version=UNKNOWN, leads=False)),
    ],
)
async def test_a_member_tells_its_release_and_whether_it_leads(answer: bytes, wanted: ZooKeeperStatus) -> None:
    async with answering(answer) as address:
        assert await ask_status(address, None, timeout_ns=20 * SECOND_NS) == wanted


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"This ZooKeeper instance is not currently serving requests\n", TryFailed),
        (b"", TryFailed),
        (b"HTTP/1.1 400 Bad Request\r\n", StoreUnsuitable),
        (b"x" * 100_000, StoreUnsuitable),
    ],
)
async def test_what_can_not_be_asked_is_told(answer: bytes, error: type[Exception]) -> None:
    async with answering(answer) as address:
        with pytest.raises(error):
            await ask_status(address, None, timeout_ns=20 * SECOND_NS)


async def test_a_server_that_says_nothing_is_left() -> None:
    async with answering(None) as address:
        with pytest.raises(TryFailed, match="no answer in time"):
            await ask_status(address, None, timeout_ns=50 * MILLISECOND_NS)
    with pytest.raises(TryFailed, match="nothing listens there"):
        await ask_status(address, None, timeout_ns=20 * SECOND_NS)


async def test_a_server_that_hangs_after_the_handshake_of_TLS_is_left_at_once(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(*authority.sign("server"))
    trusting = ssl.create_default_context(cafile=authority.certificate)
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:

        def accept() -> ssl.SSLSocket:
            made = serving.wrap_socket(listening.accept()[0], server_side=True)
            assert made.recv(4) == b"srvr"
            return made

        held = pool.submit(accept)
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        asking = asyncio.ensure_future(ask_status(address, trusting, timeout_ns=60 * SECOND_NS))
        with await asyncio.wrap_future(held):
            asking.cancel()
            _, waits = await asyncio.wait({asking}, timeout=15)
        assert not waits


@pytest.mark.parametrize(
    ("version", "refused", "warned"),
    [
        ("3.4.14", "3.6 is the oldest", "no longer maintained"),
        ("3.5.10", "3.6 is the oldest", "no longer maintained"),
        ("3.6.4", "", "no longer maintained"),
        ("3.7.2", "", "no longer maintained"),
        ("3.8.3", "", "upgrade it to 3.8.4"),
        ("3.8.4", "", ""),
        ("3.9.1", "", "upgrade it to 3.9.2"),
        ("3.9.2", "", ""),
        ("3.9.3", "can lose what it holds", ""),
        ("3.9.5", "", ""),
        ("4.0.0", "", ""),
        (UNKNOWN, "", "unknown release"),
    ],
)
def test_releases(version: str, refused: str, warned: str) -> None:
    def refusal(check: Callable[[str, str], None]) -> str:
        try:
            check("h:1", version)
        except LeaseholdError as error:
            return error.text
        return ""

    assert refused in refusal(check_release)
    assert bool(refused) == bool(refusal(check_release))
    warning = release_warning("h:1", version)
    assert bool(warning) == bool(warned)
    assert warned in warning
