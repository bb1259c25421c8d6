"""Turns: statements that use the same object run in the order in which they came (`core/ddl/queue.py`)."""

import asyncio
from collections.abc import Mapping

import msgspec

from leasehold.coordinator.nodes.leases import Leasing
from leasehold.core.ddl.queue import ObjectQueues
from leasehold.core.words.records import Claim
from leasehold.ids import Revision, StatementId
from leasehold.limits.statements import STATEMENTS_RUNNING_MAX
from leasehold.wire.ports import Clock


class Turn(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The places of a statement in the queues. `reached` is True once it is at the head, False if its time is over."""

    places: list[int]
    statement: StatementId
    claims: dict[str, Claim]
    reached: "asyncio.Future[bool]"


class ObjectTurns:
    """All places of one leader, and the revision at which each object was last changed."""

    def __init__(self, leasing: Leasing, clock: Clock, elected: Revision) -> None:
        self._leasing = leasing
        self._clock = clock
        self._elected = elected
        self._queues = ObjectQueues()
        self._turns: dict[int, Turn] = {}
        self._touched: dict[str, Revision] = {}

    def enter(self, statement: StatementId, claims: Mapping[str, Claim]) -> Turn:
        """Takes a place behind all statements that came before."""
        place, admitted = self._queues.enter(claims)
        reached: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        turn = self._turns[place] = Turn(places=[place], statement=statement, claims=dict(claims), reached=reached)
        self._admit(admitted)
        return turn

    def widen(self, turn: Turn, claims: Mapping[str, Claim]) -> None:
        """Adds objects that a statement turned out to use: later statements on them wait behind it."""
        more = {name: claim for name, claim in claims.items() if name not in turn.claims}
        if more:
            place, admitted = self._queues.enter(more)
            self._turns[place] = turn
            turn.places.append(place)
            turn.claims.update(more)
            self._admit(admitted)

    async def reach(self, turn: Turn, give_up_ns: int | None) -> bool:
        """Waits until a statement is at the head; False if its time is over before."""
        if give_up_ns is None or turn.reached.done():
            return await turn.reached
        timer = self._clock.call_at(give_up_ns, lambda: _settle(turn.reached, at_head=False))
        try:
            return await turn.reached
        finally:
            timer.cancel()

    def leave(self, turn: Turn) -> None:
        """Gives all places of a statement back."""
        for place in turn.places:
            del self._turns[place]
            self._admit(self._queues.leave(place))

    def ahead(self, claims: Mapping[str, Claim]) -> list[StatementId]:
        """The statements that a new one with these claims would wait for."""
        turns = (turn for _, turn in sorted(self._turns.items()))
        return list(dict.fromkeys(turn.statement for turn in turns if _conflict(turn.claims, claims)))

    def last_change(self, claims: Mapping[str, Claim]) -> Revision:
        """The newest revision that changed one of these objects. The next statement waits for its barrier, so that at
        most two versions of an object are in use."""
        return max((self._touched.get(name, self._elected) for name in claims), default=Revision(0))

    def touch(self, claims: Mapping[str, Claim], revision: Revision) -> None:
        """Notes that the objects that a statement uses exclusively were changed at `revision`."""
        for name, claim in claims.items():
            if claim is Claim.EXCLUSIVE:
                self._touched[name] = revision
        if len(self._touched) > STATEMENTS_RUNNING_MAX:
            settled = self._leasing.settled
            self._touched = {name: last for name, last in self._touched.items() if last > settled}

    def _admit(self, places: tuple[int, ...]) -> None:
        for place in places:
            _settle(self._turns[place].reached, at_head=True)


def _settle(reached: "asyncio.Future[bool]", *, at_head: bool) -> None:
    if not reached.done():
        reached.set_result(at_head)


def _conflict(held: Mapping[str, Claim], wanted: Mapping[str, Claim]) -> bool:
    return any(Claim.EXCLUSIVE in {held[name], wanted[name]} for name in held.keys() & wanted.keys())
