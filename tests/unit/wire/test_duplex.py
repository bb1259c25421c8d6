"""One end of a session: what came and was not looked at is bounded by its bytes."""

import asyncio

import grpc
import pytest

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import AskStatus, Failure
from leasehold.errors import Definite, Unreachable
from leasehold.limits.sessions import SESSION_SEND_MESSAGES_MAX
from leasehold.wire.duplex import END_FRAME, QueuedDuplex
from leasehold.wire.rpc import ServerDuplex
from leasehold.wire.rpc_client import ClientDuplex


async def test_small_messages_that_nobody_takes_break_the_session_by_their_number():
    here = QueuedDuplex("peer")
    for _ in range(SESSION_SEND_MESSAGES_MAX):
        await here.send(AskStatus())
    assert here.is_open
    with pytest.raises(Unreachable):
        await here.send(AskStatus())
    assert not here.is_open


async def test_who_sends_large_messages_waits_until_they_are_looked_at():
    blob = encode(AskStatus())
    here, came = QueuedDuplex("peer", receive_bytes_max=2 * len(blob)), 0

    async def read():
        nonlocal came
        came += 1
        return blob if came <= 6 else END_FRAME

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(here.read_all(read))
        for taken in range(6):
            for _ in range(10):
                await asyncio.sleep(0)
            assert came == min(taken + 3, 7), "two wait, and one was read"
            assert await here.receive() == AskStatus()
        assert await here.receive() is None


async def test_a_server_reads_one_message_ahead_until_the_session_is_open():
    blob = encode(AskStatus())
    here, came = ServerDuplex("peer"), 0

    async def read():
        nonlocal came
        came += 1
        return blob if came <= 9 else END_FRAME

    async def settle():
        for _ in range(40):
            await asyncio.sleep(0)

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(here.read_all(read))
        await settle()
        assert came == 2, "one waits, and one was read"
        assert await here.receive() == AskStatus()
        await settle()
        assert came == 3, "whoever opens a session has not said yet that it is open"
        assert await here.receive() == AskStatus()
        await settle()
        assert came == 10


class OverAlready:
    """A call that its server has ended with a refusal: nothing can be written, the refusal is still to be read."""

    def __init__(self):
        self._to_come = [
            encode(Failure(code="SUPERSEDED", text="another lives", hint="end", definite=True)),
            grpc.aio.EOF,
        ]
        self._cancelled = False
        self._tried = asyncio.Event()

    async def write(self, _blob):
        self._tried.set()
        raise asyncio.InvalidStateError

    async def read(self):
        await self._tried.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        if self._cancelled:
            raise asyncio.CancelledError
        return self._to_come.pop(0)

    def cancel(self):
        self._cancelled = True


async def test_why_the_peer_ends_is_heard_though_nothing_reaches_it_any_more():
    here = ClientDuplex("peer", OverAlready(), lambda _: None)
    async with asyncio.timeout(10):
        await here.send(AskStatus())
        with pytest.raises(Definite) as caught:
            await here.receive()
        assert caught.value.code == "SUPERSEDED"
        with pytest.raises(Unreachable):
            await here.send(AskStatus())
        with pytest.raises(Unreachable) as ended:
            await here.receive()
        assert "the call has ended" in ended.value.text
        await here.close()
