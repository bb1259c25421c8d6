"""What every transport promises of sessions: order, and an end that is known for what it was."""

import asyncio

import pytest

from leasehold.core.words.messages import JoinWait, WhoAreYou
from leasehold.errors import Fenced, Indefinite, Unreachable
from leasehold.limits.units import SECOND_NS
from leasehold.wire.ports import Connection
from tests.conformance.transport_ground import RUNS, SOON_NS, Echo, Ground, Run, Server, checked, refusal, text


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> Run:
    return RUNS[request.param]


def test_a_session_keeps_order_both_ways(run: Run) -> None:
    async def body(ground: Ground, service: Echo, server: Server, connection: Connection) -> None:
        duplex = await connection.session()
        sent = [JoinWait(wait_ns=number) for number in range(2_000)]

        async def send() -> None:
            for message in sent:
                await duplex.send(message)

        async with asyncio.TaskGroup() as group:
            group.create_task(send())
            assert [await duplex.receive() for _ in sent] == sent

    checked(run, body)


def test_the_client_ends_a_session_and_what_it_sent_last_arrives(run: Run) -> None:
    async def body(ground: Ground, service: Echo, server: Server, connection: Connection) -> None:
        duplex = await connection.session()
        await duplex.send(text("last words"))
        await duplex.close()
        await duplex.close()
        assert await service.sessions_over.get() == "ended"
        assert service.last_words
        assert await duplex.receive() is None
        assert type(await refusal(duplex.send(text("late")))) is Unreachable

    checked(run, body)


def test_the_server_ends_a_session_in_order(run: Run) -> None:
    async def body(ground: Ground, service: Echo, server: Server, connection: Connection) -> None:
        duplex = await connection.session()
        await duplex.send(text("end"))
        assert await duplex.receive() == text("last")
        assert await duplex.receive() is None
        assert await duplex.receive() is None
        assert type(await refusal(duplex.send(text("late")))) is Unreachable

    checked(run, body)


def test_an_error_of_a_session_arrives_then_the_session_ends(run: Run) -> None:
    async def body(ground: Ground, service: Echo, server: Server, connection: Connection) -> None:
        for word, kind in (("fenced", Fenced), ("bug", Indefinite)):
            duplex = await connection.session()
            await duplex.send(text(word))
            assert type(await refusal(duplex.receive())) is kind
            assert await duplex.receive() is None
            await duplex.close()
        assert [type(fault) for fault in ground.faults] == [ZeroDivisionError]

    checked(run, body)


def test_closing_the_server_breaks_sessions_and_calls_promptly(run: Run) -> None:
    async def body(ground: Ground, service: Echo, server: Server, connection: Connection) -> None:
        duplex = await connection.session()
        await duplex.send(text("a session that says nothing is only a call"))
        assert await duplex.receive() is not None
        async with asyncio.TaskGroup() as group:
            call = group.create_task(refusal(connection.call(text("hang"), timeout_ns=60 * SECOND_NS)))
            receive = group.create_task(refusal(duplex.receive()))
            await service.entered.wait()
            started_s = asyncio.get_running_loop().time()
            await server.close()
            assert await service.sessions_over.get() == "broken"
        assert asyncio.get_running_loop().time() - started_s < 1
        assert type(call.result()) is Unreachable
        assert type(receive.result()) is Unreachable
        assert type(await refusal(duplex.send(text("late")))) is Unreachable
        assert type(await refusal(connection.call(WhoAreYou(), timeout_ns=SOON_NS))) is Unreachable
        await server.close()

    checked(run, body)


def test_a_client_that_vanishes_breaks_the_session_at_the_server(run: Run) -> None:
    async def body(ground: Ground, service: Echo, server: Server, connection: Connection) -> None:
        duplex = await connection.session()
        await duplex.send(text("hello"))
        assert await duplex.receive() == text("hello")
        duplex.break_off("vanished")  # pyright: ignore[reportAttributeAccessIssue]
        assert await service.sessions_over.get() == "broken"
        assert ground.faults == []

    checked(run, body)


def test_closing_a_connection_fails_its_calls_and_ends_its_sessions(run: Run) -> None:
    async def body(ground: Ground, service: Echo, server: Server, connection: Connection) -> None:
        await connection.session()
        async with asyncio.TaskGroup() as group:
            call = group.create_task(refusal(connection.call(text("hang"), timeout_ns=60 * SECOND_NS)))
            await service.entered.wait()
            await connection.close()
        assert type(call.result()) is Unreachable
        assert await service.sessions_over.get() == "ended"
        assert type(await refusal(connection.call(WhoAreYou(), timeout_ns=SOON_NS))) is Unreachable
        assert type(await refusal(connection.session())) is Unreachable

    checked(run, body)


def test_a_cancelled_receive_loses_no_message(run: Run) -> None:
    async def body(ground: Ground, service: Echo, server: Server, connection: Connection) -> None:
        duplex = await connection.session()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(duplex.receive(), 0.02)
        await duplex.send(text("one"))
        assert await duplex.receive() == text("one")

    checked(run, body)


def test_a_peer_that_reads_nothing_breaks_the_session_and_not_the_sender(run: Run) -> None:
    async def body(ground: Ground, service: Echo, server: Server, connection: Connection) -> None:
        duplex = await connection.session()

        async def flood() -> None:
            # The service echoes each; nothing here receives, so both ways fill up.
            for _ in range(100_000):
                await duplex.send(text("x" * 50_000))

        # Either end may be the first whose queue is full.
        assert type(await refusal(flood())) is Unreachable
        assert type(await refusal(duplex.send(text("more")))) is Unreachable

    checked(run, body)
