"""Calls to a coordinator, counted until their answers have gone.

The server keeps an answer until its client has taken it, and a client can leave the window of a call at 0, for as long
as it likes. A call that is refused ends with a status: that needs no window, so nothing of it stays.
"""

import sys
from typing import Any

import grpc

from leasehold.limits.requests import CALLS_MAX, CALLS_PER_PEER_MAX
from leasehold.wire.fair_room import FairRoom
from leasehold.wire.known_peers import KnownPeers
from leasehold.wire.untaken_answers import UntakenAnswers


class CountedCalls:
    """Of one server. Of each peer CALLS_PER_PEER_MAX are under way at most, and `calls_max` of all together; then one
    gives way (`wire/fair_room.py`). Members' calls are counted apart, of each peer alone. Without TLS all peers are on
    this machine, and nothing is counted."""

    def __init__(
        self, answers: UntakenAnswers, known: KnownPeers, *, are_counted: bool, calls_max: int = CALLS_MAX
    ) -> None:
        self._answers = answers
        self._are_counted = are_counted
        self._others = FairRoom[Any](per_peer_max=CALLS_PER_PEER_MAX, places=calls_max, known=known)
        self._members = FairRoom[Any](per_peer_max=CALLS_PER_PEER_MAX, places=sys.maxsize)

    async def begin(self, call: Any, peer: str) -> "CountedCall":
        """Ends the call, by a status, if there is no room for it."""
        if self._are_counted:
            room = self._members if call.is_of_member else self._others
            gives_way = room.enter(peer, call)
            if gives_way is call:
                await _refuse(call, "too many calls are under way, from this address or in all")
            if gives_way is not None:
                gives_way.cut_off()
            call.add_done_callback(room.leave)
        return CountedCall(call, self._answers, peer)


class CountedCall:
    """Takes the place of the call where answers are written."""

    def __init__(self, context: Any, answers: UntakenAnswers, peer: str) -> None:
        self._context = context
        self._answers = answers
        self._peer = peer
        self._connection: str = context.peer()

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
