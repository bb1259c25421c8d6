"""Calls whose handlers run on threads: what moves, and how a thread hears that its call has ended."""

import asyncio
import contextlib
import gc
import queue
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.e2e.waiting import wait_until

from leasehold.limits.flight import FLIGHT_ANSWERS_AHEAD_BYTES
from leasehold.limits.units import SECOND_NS
from leasehold.wire.http2.calls import CallEnded, IncomingCall
from leasehold.wire.http2.door_server import DoorServer
from leasehold.wire.http2.grpc_messages import binary
from leasehold.wire.http2.listening import listen_at_doors
from leasehold.wire.http2.streams import Http2Limits
from leasehold.wire.http2.thread_calls import ThreadCall

MESSAGE_BYTES_MAX = 4 * 1024 * 1024
LARGE = bytes(range(256)) * 4_096 * 3
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]


class Threaded:
    """A server that hands each call to `answer`, on a thread."""

    def __init__(self, answer: Callable[[ThreadCall], None]) -> None:
        self._answer = answer
        self._threads = ThreadPoolExecutor()
        self.ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        """How each handler has ended."""
        self.last: IncomingCall | None = None

    def _run(self, call: ThreadCall) -> None:
        try:
            self._answer(call)
        except CallEnded as error:
            self.ended.put(error)
        else:
            self.ended.put(None)
        finally:
            call.finish()

    async def handle(self, call: IncomingCall) -> None:
        self.last, made = call, ThreadCall(call)
        self._threads.submit(self._run, made)
        await made.serve()

    def unsent_bytes(self) -> int:
        return 0 if self.last is None else self.last.unsent_bytes

    async def is_full(self) -> None:
        """Returns once the windows of a client that reads nothing are full."""
        await asyncio.to_thread(wait_until, self.unsent_bytes)

    async def how(self) -> BaseException | None:
        return await asyncio.to_thread(self.ended.get, timeout=30)


@asynccontextmanager
async def serving(answer: Callable[[ThreadCall], None]) -> AsyncGenerator[tuple[Threaded, DoorServer, Any]]:
    faults: list[BaseException] = []
    server = DoorServer(
        limits=Http2Limits(streams_max=8, stream_window=16_384),
        message_bytes_max=MESSAGE_BYTES_MAX,
        idle_ns=60 * SECOND_NS,
        connections_max=10,
        on_fault=faults.append,
        kept_header=b"who-bin",
    )
    threaded = Threaded(answer)
    address, sockets = listen_at_doors("127.0.0.1:0", with_tls=False)
    await server.serve([(sockets[0], None)], {}, threaded.handle)
    async with asyncio.timeout(60), grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
        yield threaded, server, channel.stream_stream("/a/b")
    await server.close()
    assert faults == []


def echo(call: ThreadCall) -> None:
    for message in call:
        call.write(bytes(message))


@pytest.mark.parametrize("messages", [[], [b""], [b"x", b"", b"y" * 5_000], [LARGE] * 3])
async def test_messages_of_any_size_go_both_ways(messages: list[bytes]) -> None:
    async with serving(echo) as (threaded, _, method):
        call = method(iter(messages))
        assert [one async for one in call] == messages
        assert await call.code() is grpc.StatusCode.OK
        assert await threaded.how() is None


async def test_a_status_comes_after_all_answers_with_what_trails_it() -> None:
    def fail(call: ThreadCall) -> None:
        call.write(LARGE)
        call.write(b"last")
        call.ends_with(grpc.StatusCode.UNKNOWN, "a reason", ((b"x-text", b"words"), (b"x-bytes-bin", b"\0\xff\1\2")))

    async with serving(fail) as (_, _, method):
        call = method(iter([]))
        assert [await call.read(), await call.read()] == [LARGE, b"last"]
        assert (await call.code(), await call.details()) == (grpc.StatusCode.UNKNOWN, "a reason")
        assert dict(await call.trailing_metadata()) == {"x-text": "words", "x-bytes-bin": b"\0\xff\1\2"}


async def test_a_handler_sees_the_header_that_is_kept() -> None:
    said: list[bytes | None] = []
    async with serving(lambda call: said.append(call.said)) as (_, _, method):
        for value in (b"\xff\0", b"a", b"ab", b"abc"):
            await method(iter([]), metadata=[("who-bin", value), ("other", "x")]).read()
            text = said.pop()
            assert text is not None
            assert binary(text) == value
        await method(iter([])).read()
        assert said == [None]


def test_a_header_of_bytes_that_is_no_base64_is_none() -> None:
    assert binary(b"@@@@") is None
    assert binary(b"a") is None


@pytest.mark.parametrize("by", ["client", "server", "close"])
async def test_a_thread_that_reads_goes_on_when_its_call_ends(by: str) -> None:
    waiting = threading.Event()

    def read(call: ThreadCall) -> None:
        assert next(call) == b"first"
        heard = call.add_callback(threading.Event().set)
        assert heard
        waiting.set()
        if by == "server":
            call.cancel()
        next(call)

    async with serving(read) as (threaded, server, method):
        call = method()
        await call.write(b"first")
        await asyncio.to_thread(waiting.wait, 30)
        if by == "client":
            call.cancel()
        elif by == "close":
            await server.close()
        assert isinstance(await threaded.how(), CallEnded)
        assert await call.code() is grpc.StatusCode.CANCELLED


@pytest.mark.parametrize("by", ["client", "server", "message", "close"])
async def test_a_thread_that_writes_goes_on_when_its_call_ends(by: str) -> None:
    """What the client does not take is dropped."""
    calls: queue.SimpleQueue[ThreadCall] = queue.SimpleQueue()
    seen: list[bool] = []

    def write(call: ThreadCall) -> None:
        assert call.add_callback(lambda: seen.append(True))
        try:
            next(call)
            for _ in range(8):
                call.write(LARGE)
        finally:
            calls.put(call)

    async with serving(write) as (threaded, server, method):
        call = method()
        await call.write(b"first")
        await threaded.is_full()
        match by:
            case "client":
                call.cancel()
            case "server":
                assert threaded.last is not None
                threaded.last.cut_off()
            case "message":
                with contextlib.suppress(grpc.RpcError):
                    await call.write(bytes(MESSAGE_BYTES_MAX + 1))
            case _:
                await server.close()
        assert isinstance(await threaded.how(), CallEnded)
        assert threaded.unsent_bytes() == 0
        ended = calls.get()
        assert seen == [True]
        assert not ended.add_callback(lambda: seen.append(False))
        for again in (lambda: ended.write(b""), lambda: next(ended)):
            with pytest.raises(CallEnded):
                again()
        ended.cancel()
        call.cancel()


async def test_what_has_come_of_a_message_is_freed_when_its_call_ends() -> None:
    """Without a collection of garbage, which may be late."""
    made: list[weakref.ref[ThreadCall]] = []

    def read(call: ThreadCall) -> None:
        made.append(weakref.ref(call))
        for _ in call:
            call.write(b"one")

    gc.collect()
    gc.disable()
    try:
        async with serving(read) as (threaded, _, method):
            for ends in (True, False):
                call = method()
                await call.write(LARGE)
                assert await call.read() == b"one"
                if ends:
                    await call.done_writing()
                else:
                    call.cancel()
                assert isinstance(await threaded.how(), CallEnded) != ends
                threaded.last = None
                last = made.pop()
                await asyncio.to_thread(wait_until, lambda last=last: last() is None)
    finally:
        gc.enable()


async def test_a_handler_waits_until_its_answer_has_gone() -> None:
    handed: list[int] = []

    def write(call: ThreadCall) -> None:
        for number in range(20):
            call.write(LARGE)
            handed.append(number)

    async with serving(write) as (threaded, _, method):
        call = method(iter([]))
        await threaded.is_full()
        assert len(handed) < 10, "no more than the client's windows"
        assert sum([len(one) async for one in call]) == 20 * len(LARGE)
        assert await threaded.how() is None


@pytest.mark.parametrize(
    ("takes_first", "size", "written"),
    [(True, 10, 5), (True, FLIGHT_ANSWERS_AHEAD_BYTES // 2, 1), (False, 10, 0)],
    ids=["few bytes", "many bytes", "the first answer"],
)
async def test_a_thread_waits_for_the_first_answer_and_for_many_bytes(
    takes_first: bool, size: int, written: int
) -> None:
    """It goes on after a few bytes, however much the loop has to do."""
    goes_on, done = threading.Event(), queue.SimpleQueue[int]()

    def write(call: ThreadCall) -> None:
        if takes_first:
            call.write(b"first")
        goes_on.wait(30)
        for number in range(5):
            call.write(bytes(size))
            done.put(number)

    async with serving(write) as (threaded, _, method):
        call = method(iter([]))
        if takes_first:
            assert await call.read() == b"first"
        goes_on.set()
        for number in range(written):  # the loop does nothing else meanwhile
            assert done.get(timeout=30) == number
        if written < 5:
            with pytest.raises(queue.Empty):
                done.get(timeout=0.2)
        assert [await call.read() for _ in range(5)] == [bytes(size)] * 5
        assert await threaded.how() is None
