"""A call to a coordinator, counted among those of its peer until its answer has gone.

The server keeps an answer until its client has taken it, and a client can leave the window of a call at 0, for as long
as it likes. A call that is refused ends with a status: that needs no window, so nothing of it stays.
"""

from typing import Any, Self

import grpc

from leasehold.wire.peer_calls import CallsPerPeer
from leasehold.wire.untaken_answers import UntakenAnswers


class CountedCall:
    """Takes the place of the call where answers are written."""

    def __init__(self, context: Any, answers: UntakenAnswers, peer: str) -> None:
        self._context = context
        self._answers = answers
        self._peer = peer
        self._connection: str = context.peer()

    @classmethod
    async def begin(cls, context: Any, peer: str, peers: CallsPerPeer, answers: UntakenAnswers) -> Self:
        """Ends the call, by a status, if too many of its peer are under way."""
        if not peers.begin(peer):
            await _refuse(context, "too many calls from this address are under way")

        context.add_done_callback(lambda _: peers.end(peer))
        return cls(context, answers, peer)

    async def holding(self, answer: bytes) -> bytes:
        """The only answer of the call, counted until it has gone. Ends the call if there is no room."""
        size_bytes = len(answer)
        await self._hold(size_bytes)
        self._context.add_done_callback(lambda _: self._drop(size_bytes))
        return answer

    async def write(self, answer: bytes) -> None:
        """Writes one of several answers, counted until the client takes it. Ends the call if there is no room."""
        await self._hold(len(answer))
        try:
            await self._context.write(answer, ahead_bytes=0)
        finally:
            self._drop(len(answer))

    async def _hold(self, size_bytes: int) -> None:
        if not self._answers.hold(self._peer, self._connection, size_bytes):
            await _refuse(self._context, "this address does not take its answers")

    def _drop(self, size_bytes: int) -> None:
        self._answers.drop(self._peer, self._connection, size_bytes)


async def _refuse(context: Any, why: str) -> None:
    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, why)
