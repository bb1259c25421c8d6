"""A call as bytes: the real server takes it, and its answer is found in what comes back."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from leasehold.core.words.messages import AskStatus, ChallengeCoordinator, Message, WhoAreYou
from leasehold.errors import NotLeader, Refused
from leasehold.ids import ClusterId, Nonce
from leasehold.wire.ports import Duplex
from leasehold.wire.prepared_call import prepared_answer, prepared_call
from leasehold.wire.rpc import serve

LARGE = ChallengeCoordinator(cluster_id=ClusterId("c" * 32), address="a" * 10_000, nonce=Nonce("1" * 32))


class Echo:
    """Answers with the request; it does not lead if asked who it is."""

    async def call(self, request: Message) -> Message:
        if isinstance(request, WhoAreYou):
            raise NotLeader("another one leads", leader="127.0.0.1:1")
        return request

    def stream(self, request: Message) -> AsyncIterator[Message]:
        raise Refused(f"no streams of {request}")

    async def session(self, duplex: Duplex) -> None:
        raise Refused(f"no sessions, {duplex}")


@pytest.mark.parametrize(("request_", "accepted"), [(AskStatus(), True), (LARGE, True), (WhoAreYou(), False)])
async def test_the_server_answers_bytes_that_were_prepared(request_: Message, accepted: bool) -> None:
    server = await serve("127.0.0.1:0", Echo(), on_fault=lambda _fault: None)
    try:
        host, _, port = server.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(prepared_call(request_))
        came = b""
        async with asyncio.timeout(20):
            while prepared_answer(request_) not in came and b"NOT_LEADER" not in came:
                some = await reader.read(65_536)
                assert some, came
                came += some
        writer.close()
        await writer.wait_closed()
    finally:
        await server.close()
    assert (prepared_answer(request_) in came) is accepted
