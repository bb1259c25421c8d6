"""What every transport promises of calls, answers in a stream, and servers."""

import asyncio

import pytest

from leasehold.core.words.messages import AskReceipts, AskStatus, AskTable, JoinWait, Message, WhoAreYou
from leasehold.errors import BadSettings, Definite, Fenced, Indefinite, LeaseholdError, NotLeader, Unreachable
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.requests import REQUEST_BYTES_MAX, REQUEST_FRAME_BYTES_MAX
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.wire.ports import Connection
from tests.conformance.transport_ground import RUNS, SOON_NS, Echo, Ground, Run, Server, checked, refusal, text


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> Run:
    return RUNS[request.param]


def test_a_call_is_answered(run: Run) -> None:
    async def body(ground: Ground, service: Echo, server: Server, connection: Connection) -> None:
        asked = [AskTable(cluster_id=None, name=str(number)) for number in range(50)]
        assert await connection.call(asked[7], timeout_ns=SOON_NS) == asked[7]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(connection.call(one, timeout_ns=SOON_NS)) for one in asked]
        assert [task.result() for task in tasks] == asked
        assert ground.faults == []

    checked(run, body)


def test_an_error_of_the_service_arrives_as_itself(run: Run) -> None:
    async def body(ground: Ground, service: Echo, server: Server, connection: Connection) -> None:
        fenced = await refusal(connection.call(text("fenced"), timeout_ns=SOON_NS))
        assert type(fenced) is Fenced
        assert (fenced.text, fenced.code, fenced.hint) == ("node n1 is fenced", "FENCED", "ask another replica")
        special = await refusal(connection.call(text("special"), timeout_ns=SOON_NS))
        assert isinstance(special, Definite)
        assert special.code == "TUESDAY"
        assert type(await refusal(connection.call(text("group"), timeout_ns=SOON_NS))) is NotLeader
        assert ground.faults == []

    checked(run, body)


def test_a_bug_of_the_service_is_opaque_to_the_peer_and_known_to_the_server(run: Run) -> None:
    async def body(ground: Ground, service: Echo, server: Server, connection: Connection) -> None:
        error = await refusal(connection.call(text("bug"), timeout_ns=SOON_NS))
        assert isinstance(error, Indefinite)
        assert error.code == "INTERNAL"
        assert "secret" not in error.text + error.hint
        assert "Zero" not in error.text + error.hint
        assert [type(fault) for fault in ground.faults] == [ZeroDivisionError]

    checked(run, body)


def test_a_timeout_is_indefinite_names_the_address_and_cancels_the_handler(run: Run) -> None:
    async def body(ground: Ground, service: Echo, server: Server, connection: Connection) -> None:
        error = await refusal(connection.call(text("hang"), timeout_ns=200 * MILLISECOND_NS))
        assert type(error) is Unreachable
        assert isinstance(error, Indefinite)
        assert server.address in error.text
        assert "0.2 s" in error.text
        assert error.was_sent
        await service.cancelled.wait()

    checked(run, body)


def test_nobody_there_is_unreachable(run: Run) -> None:
    async def check(ground: Ground) -> None:
        connection = ground.transport.connect(ground.nowhere)
        for error in (
            await refusal(connection.call(WhoAreYou(), timeout_ns=SOON_NS)),
            await refusal(connection.session()),
            await refusal(anext(aiter(connection.stream(AskStatus(), timeout_ns=SOON_NS)))),
        ):
            assert type(error) is Unreachable
            assert ground.nowhere in error.text
            assert error.hint
        await connection.close()

    run(check)


def test_a_stream_gives_all_answers_in_order_then_ends(run: Run) -> None:
    async def body(ground: Ground, service: Echo, server: Server, connection: Connection) -> None:
        request = AskReceipts(after=0, limit=300)
        seen = [message async for message in connection.stream(request, timeout_ns=SOON_NS)]
        assert seen == [JoinWait(wait_ns=number) for number in range(300)]

    checked(run, body)


@pytest.mark.parametrize(("after", "kind", "faults"), [(1, Fenced, 0), (2, Unreachable, 0), (3, Indefinite, 1)])
def test_a_stream_that_fails_half_way_gives_what_came_before(run: Run, after: int, kind: type, faults: int) -> None:
    timeout_ns = SECOND_NS if kind is Unreachable else SOON_NS

    async def body(ground: Ground, service: Echo, server: Server, connection: Connection) -> None:
        seen: list[Message] = []

        async def read() -> None:
            async for message in connection.stream(AskReceipts(after=after, limit=2), timeout_ns=timeout_ns):
                seen.append(message)  # noqa: PERF401 what came before the error counts

        error = await refusal(read())
        assert type(error) is kind
        assert seen == [JoinWait(wait_ns=0), JoinWait(wait_ns=1)]
        assert len(ground.faults) == faults

    checked(run, body)


def test_an_oversized_message_is_refused_before_it_is_sent(run: Run) -> None:
    async def body(ground: Ground, service: Echo, server: Server, connection: Connection) -> None:
        big = text("x" * MESSAGE_BYTES_MAX)
        duplex = await connection.session()
        for error in (
            await refusal(connection.call(big, timeout_ns=SOON_NS)),
            await refusal(duplex.send(big)),
            await refusal(connection.call(text("big"), timeout_ns=SOON_NS)),
        ):
            assert isinstance(error, LeaseholdError)
            assert error.code == "MESSAGE_TOO_LARGE"
        for size in (REQUEST_FRAME_BYTES_MAX - 200, REQUEST_FRAME_BYTES_MAX + 1, REQUEST_BYTES_MAX - 200):
            fits = text("x" * size)
            assert await connection.call(fits, timeout_ns=SOON_NS) == fits
        await duplex.send(text("still open"))
        assert await duplex.receive() == text("still open")

    checked(run, body)


def test_a_cancelled_caller_cancels_the_handler(run: Run) -> None:
    async def body(ground: Ground, service: Echo, server: Server, connection: Connection) -> None:
        async with asyncio.TaskGroup() as group:
            call = group.create_task(connection.call(text("hang"), timeout_ns=60 * SECOND_NS))
            await service.entered.wait()
            call.cancel()
        await service.cancelled.wait()

    checked(run, body)


def test_a_port_in_use_is_named_and_a_closed_one_is_free_again(run: Run) -> None:
    async def body(ground: Ground, service: Echo, server: Server, connection: Connection) -> None:
        error = await refusal(ground.serve(server.address, Echo()))
        assert isinstance(error, BadSettings)
        assert error.code == "PORT_IN_USE"
        assert server.address in error.text
        await server.close()
        again = await ground.serve(server.address, Echo())
        assert again.address == server.address
        # The same connection finds the new server by itself.
        async with asyncio.timeout(10):
            while True:
                try:
                    assert await connection.call(WhoAreYou(), timeout_ns=SOON_NS) == WhoAreYou()
                    break
                except Unreachable:
                    await asyncio.sleep(0.01)
        await again.close()

    checked(run, body)
