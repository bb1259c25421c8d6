"""What a connection makes of a member that answers what kazoo can't read."""

import asyncio
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from leasehold.limits.units import SECOND_NS
from leasehold.limits.zookeeper import ZOOKEEPER_ANSWER_BYTES_MAX
from leasehold.metastorage.tries import TryFailed
from leasehold.metastorage.zookeeper.connection import ZooKeeperConnection

SESSION = struct.pack(">iiqi16s?", 0, 6_000, 1, 16, bytes(16), False)
NO_NODE = -101


def header(xid: int, error: int) -> bytes:
    return struct.pack(">iqi", xid, 1, error)


def frame(answer: bytes) -> bytes:
    return struct.pack(">i", len(answer)) + answer


LONG = frame(bytes(4 * ZOOKEEPER_ANSWER_BYTES_MAX))
"""No buffers of sockets take it."""


@asynccontextmanager
async def connected(garbled: bytes) -> AsyncGenerator[tuple[ZooKeeperConnection, list[int]]]:
    """A connection to a member that has no nodes, and that answers its second request with `garbled`; with the numbers
    of bytes of each answer that was taken."""
    taken: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers = iter([frame(SESSION), frame(header(1, NO_NODE)), garbled])
        try:
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                await reader.readexactly(length)
                answer = next(answers)
                writer.write(answer)
                await writer.drain()
                taken.append(len(answer))
        except (asyncio.IncompleteReadError, StopIteration, ConnectionError):
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        connection = ZooKeeperConnection(address, None, None, timeout_ns=20 * SECOND_NS)
        await connection.open()
        try:
            yield connection, taken
        finally:
            await connection.close()


@pytest.mark.parametrize(
    "garbled",
    [
        pytest.param(frame(header(77, 0)), id="of another request"),
        pytest.param(frame(header(2, -999)), id="an error that kazoo does not know"),
        pytest.param(frame(header(2, 0)), id="without its content"),
        pytest.param(frame(b"?"), id="without a header"),
        pytest.param(LONG, id="longer than any"),
    ],
)
async def test_an_answer_that_can_not_be_read_ends_the_connection(garbled: bytes) -> None:
    changed = asyncio.Event()
    async with connected(garbled) as (connection, taken), asyncio.timeout(10):
        assert await connection.stat("/watched", changed.set) is None
        with pytest.raises(TryFailed) as failed:
            await connection.get("/read")
        assert failed.value.may_happen
        await changed.wait()
        assert not connection.is_open
    assert len(LONG) not in taken
