"""Requests to a coordinator: in frames, and bounded before they are read."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import grpc
import pytest

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import AskStatus, CommitTransaction, Execute, Message
from leasehold.errors import Definite, Indefinite, LeaseholdError, Refused
from leasehold.ids import ClusterId, StatementId, TransactionId
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.requests import (
    REQUEST_BYTES_MAX,
    REQUEST_FRAME_BYTES_MAX,
    REQUESTS_BYTES_MAX,
    REQUESTS_DECODED_OF_ONE_MAX,
    REQUESTS_UNREAD_MAX,
)
from leasehold.limits.sessions import SESSION_OPENING_NS, SESSIONS_UNOPENED_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.testing.loop import run_virtual
from leasehold.testing.threads import NoThreads
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.http2.calls import EOF
from leasehold.wire.requests import ANNOUNCED, SIZE_BYTES, RequestReader, frames
from leasehold.wire.rpc import serve
from leasehold.wire.rpc_client import GrpcTransport

HELD = REQUESTS_BYTES_MAX // REQUEST_BYTES_MAX
"""So many of the largest requests fit into the budget."""


class Aborted(Exception):
    """The server has ended a call with this status."""


class Call:
    """What gRPC hands to a handler: frames, then nothing more, or the end."""

    def __init__(self, *sent: bytes, ends: bool = True, peer: str = "ipv4:127.0.0.1:1") -> None:
        self._sent = list(sent)
        self._ends = ends
        self._peer = peer
        self.read_frames = 0

    def peer(self) -> str:
        return self._peer

    async def read(self) -> Any:
        if self._sent:
            self.read_frames += 1
            return self._sent.pop(0)
        if not self._ends:
            await asyncio.get_running_loop().create_future()
        return EOF

    async def abort(self, code: grpc.StatusCode, _details: str) -> None:
        raise Aborted(code)


def statement(characters: int) -> Execute:
    return Execute(cluster_id=None, statement=StatementId("0" * 32), text="x" * characters)


def commit(bytes_: int) -> CommitTransaction:
    return CommitTransaction(
        cluster_id=ClusterId("c" * bytes_), transaction=TransactionId("0" * 32), segments=(), login=None
    )


def reader() -> RequestReader:
    return RequestReader(NoThreads())


def announced(size: int) -> bytes:
    return ANNOUNCED + size.to_bytes(SIZE_BYTES, "big")


def virtually(main: Callable[[], Awaitable[None]]) -> None:
    async def begin(_random: Random) -> None:
        await main()

    run_virtual(begin, 1)


async def read(call: Call, requests: RequestReader, *, commit: bool = False) -> Message:
    async with requests.reading(call, commit=commit) as message:
        return message


async def refusal(call: Call, requests: RequestReader, *, commit: bool = False) -> LeaseholdError:
    with pytest.raises(LeaseholdError) as caught:
        await read(call, requests, commit=commit)
    return caught.value


@pytest.mark.parametrize("characters", [0, REQUEST_FRAME_BYTES_MAX, 3 * REQUEST_FRAME_BYTES_MAX + 1])
def test_what_is_sent_in_frames_is_read_as_it_was(characters: int) -> None:
    async def main() -> None:
        message = statement(characters)
        sent = list(frames(encode(message)))
        assert all(len(one) <= REQUEST_FRAME_BYTES_MAX for one in sent)
        assert len(sent) == (1 if characters == 0 else 3 if characters == REQUEST_FRAME_BYTES_MAX else 5)
        assert await read(Call(*sent, ends=False), reader()) == message

    virtually(main)


def test_a_large_request_is_turned_away_before_it_is_read_while_others_fill_the_budget() -> None:
    async def main() -> None:
        requests = reader()
        async with asyncio.TaskGroup() as group:
            held = [Call(announced(REQUEST_BYTES_MAX), ends=False) for _ in range(HELD)]
            tasks = [group.create_task(read(one, requests)) for one in held]
            for _ in range(HELD):
                await asyncio.sleep(0)
            late = Call(*frames(encode(statement(REQUEST_BYTES_MAX - 100))))
            busy = await refusal(late, requests)
            assert isinstance(busy, Indefinite), "an earlier copy of the request may have been carried out"
            assert busy.code == "BUSY"
            assert late.read_frames == 1, "its size, and nothing else"
            assert await read(Call(encode(AskStatus())), requests) == AskStatus(), "small ones are read all the same"
            for task in tasks:
                task.cancel()
        again = statement(REQUEST_BYTES_MAX - 100)
        assert await read(Call(*frames(encode(again))), requests) == again, "the room has come back"

    virtually(main)


def test_a_large_request_of_another_address_ends_the_oldest_of_the_one_that_has_most() -> None:
    async def main() -> None:
        requests = reader()
        async with asyncio.TaskGroup() as group:
            slow = [
                group.create_task(refusal(Call(announced(REQUEST_BYTES_MAX), ends=False), requests))
                for _ in range(HELD)
            ]
            await asyncio.sleep(0)
            honest = statement(REQUEST_BYTES_MAX - 100)
            elsewhere = Call(*frames(encode(honest)), peer="ipv4:127.0.0.2:1")
            assert await read(elsewhere, requests) == honest
            assert (await slow[0]).code == "TOO_SLOW"
            assert not any(one.done() for one in slow[1:])
            assert requests.arriving.size_bytes == (HELD - 1) * REQUEST_BYTES_MAX
            for one in slow:
                one.cancel()
        assert requests.arriving.size_bytes == 0

    virtually(main)


def test_addresses_that_have_as_much_do_not_end_each_others_requests() -> None:
    async def main() -> None:
        requests = reader()
        async with asyncio.TaskGroup() as group:
            waiting = [
                Call(announced(REQUEST_BYTES_MAX), ends=False, peer=f"ipv4:127.0.1.{number}:1")
                for number in range(HELD)
            ]
            tasks = [group.create_task(read(one, requests)) for one in waiting]
            await asyncio.sleep(0)
            another = Call(announced(REQUEST_BYTES_MAX), peer="ipv4:127.0.0.2:1")
            assert (await refusal(another, requests)).code == "BUSY"
            assert not any(one.done() for one in tasks)
            for one in tasks:
                one.cancel()

    virtually(main)


WIDE = "\N{GRINNING FACE}"
"""One such character makes all the others of its text take four bytes each."""
DECODED_FIT = REQUESTS_DECODED_OF_ONE_MAX // (4 * REQUEST_FRAME_BYTES_MAX)


def test_requests_count_by_what_they_take_in_memory_until_they_are_answered() -> None:
    async def main() -> None:
        requests = reader()
        blob = encode(Execute(cluster_id=None, statement=StatementId("0" * 32), text="x" * 65_400 + WIDE))
        async with AsyncExitStack() as held:
            for _ in range(DECODED_FIT):
                await held.enter_async_context(requests.reading(Call(blob)))
            busy = await refusal(Call(blob), requests)
            assert isinstance(busy, Indefinite)
            assert busy.code == "BUSY"
            assert await read(Call(encode(AskStatus())), requests) == AskStatus(), "small ones are read all the same"
            elsewhere = [Call(blob, peer="ipv4:127.0.0.2:1") for _ in range(DECODED_FIT)]
            for one in elsewhere:
                await held.enter_async_context(requests.reading(one))
            assert (await refusal(Call(blob, peer="ipv4:127.0.0.3:1"), requests)).code == "BUSY"
        assert len((await read(Call(blob), requests)).text) == 65_401, "the room has come back"

    virtually(main)


def test_only_a_commit_may_be_larger_than_other_requests() -> None:
    async def main() -> None:
        requests = reader()
        large = commit(REQUEST_BYTES_MAX)
        refused = await refusal(Call(*frames(encode(large))), requests)
        assert isinstance(refused, Refused)
        assert refused.code == "MESSAGE_TOO_LARGE"
        assert await read(Call(*frames(encode(large))), requests, commit=True) == large
        assert (await refusal(Call(encode(AskStatus())), requests, commit=True)).code == "BAD_MESSAGE"
        over = Call(announced(MESSAGE_BYTES_MAX + 1), ends=False)
        assert (await refusal(over, requests, commit=True)).code == "MESSAGE_TOO_LARGE"
        assert requests.arriving.size_bytes == 0

    virtually(main)


@pytest.mark.parametrize(
    "sent",
    [
        (),
        (b"",),
        (ANNOUNCED,),
        (announced(0),),
        (announced(REQUEST_FRAME_BYTES_MAX),),
        (announced(100_000) + b"x",),
        (announced(100_000),),
        (announced(100_000), b"x" * 60_000),
        (announced(100_000), b"x" * 60_000, b"x" * 60_000),
        (announced(100_000), b"", b"x" * 100_000),
        (announced(100_000), b"x" * 60_000, b"x" * 40_000),
    ],
)
def test_a_request_that_is_not_what_it_said_is_refused(sent: tuple[bytes, ...]) -> None:
    async def main() -> None:
        requests = reader()
        refused = await refusal(Call(*sent), requests)
        assert isinstance(refused, Definite)
        assert refused.code == "BAD_MESSAGE"
        assert requests.arriving.size_bytes == 0

    virtually(main)


@pytest.mark.parametrize("sent", [(), (announced(100_000),), (announced(100_000), b"x" * 60_000)])
def test_a_request_that_does_not_arrive_is_given_up(sent: tuple[bytes, ...]) -> None:
    async def main() -> None:
        requests = reader()
        given_up = await refusal(Call(*sent, ends=False), requests)
        assert isinstance(given_up, Indefinite)
        assert given_up.code == "TOO_SLOW"
        assert requests.arriving.size_bytes == 0

    virtually(main)


def test_one_more_request_that_says_nothing_ends_the_oldest() -> None:
    async def main() -> None:
        requests = reader()
        async with asyncio.TaskGroup() as group:
            silent = [group.create_task(refusal(Call(ends=False), requests)) for _ in range(REQUESTS_UNREAD_MAX + 1)]
            await silent[0]
            assert [one.done() for one in silent] == [True] + [False] * REQUESTS_UNREAD_MAX
            assert await read(Call(encode(AskStatus())), requests) == AskStatus(), "whoever speaks is heard"
            assert [one.done() for one in silent] == [True] + [False] * REQUESTS_UNREAD_MAX

    virtually(main)


def test_a_session_begins_with_its_first_message_or_its_end() -> None:
    async def main() -> None:
        requests = reader()
        assert await requests.first(Call(b"first", b"second", ends=False)) == b"first"
        assert await requests.first(Call()) is EOF

    virtually(main)


def test_a_session_that_says_nothing_is_given_up_and_one_more_ends_the_oldest() -> None:
    async def main() -> None:
        requests = reader()
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.TaskGroup() as group:
            silent = [group.create_task(given_up(requests)) for _ in range(SESSIONS_UNOPENED_MAX + 1)]
            await silent[0]
            assert loop.time() == began
            assert [one.done() for one in silent] == [True] + [False] * SESSIONS_UNOPENED_MAX
        assert loop.time() - began == SESSION_OPENING_NS / SECOND_NS

    async def given_up(requests: RequestReader) -> None:
        with pytest.raises(Aborted) as aborted:
            await requests.first(Call(ends=False))
        assert aborted.value.args == (grpc.StatusCode.RESOURCE_EXHAUSTED,)

    virtually(main)


class Echo:
    async def call(self, request: Message) -> Message:
        return request

    async def stream(self, request: Message) -> Any:
        yield request

    async def session(self, duplex: Any) -> None:
        raise Refused("no sessions")


async def test_large_requests_travel_over_grpc_from_both_clients() -> None:
    server = await serve("127.0.0.1:0", Echo(), on_fault=lambda _fault: None)
    connection, blocking = GrpcTransport().connect(server.address), BlockingConnection(server.address)
    try:
        for message in (statement(REQUEST_BYTES_MAX - 100), commit(MESSAGE_BYTES_MAX - 200)):
            assert await connection.call(message, timeout_ns=60 * SECOND_NS) == message
            assert await asyncio.to_thread(blocking.call, message, 60 * SECOND_NS) == message
        large = statement(REQUEST_BYTES_MAX - 100)
        assert [one async for one in connection.stream(large, timeout_ns=60 * SECOND_NS)] == [large]
        assert await asyncio.to_thread(lambda: list(blocking.stream(large, 60 * SECOND_NS))) == [large]
        with pytest.raises(Refused) as caught:
            await connection.call(statement(REQUEST_BYTES_MAX), timeout_ns=60 * SECOND_NS)
        assert caught.value.code == "MESSAGE_TOO_LARGE"
    finally:
        blocking.close()
        await connection.close()
        await server.close()
