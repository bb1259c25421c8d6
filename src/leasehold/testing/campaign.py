"""Campaigns over a store that several processes share: drives `testing/leadership.py` with transactions and a clock.

A leadership is beaten by `hold`, in a task of whoever leads; it ends by raising, and with it all that runs beside it.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, NoReturn, Protocol

import msgspec

from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record, encode
from leasehold.core.words.operations import Change, Compare, KeyValue, Missing, ModifiedAt, Txn, TxnResult
from leasehold.core.words.records import ClusterRecord, LeaderRecord
from leasehold.errors import Indefinite, LeaseholdError
from leasehold.ids import Generation, Term
from leasehold.limits.lease import DRIFT_PPM, LEADER_POLL_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.metastorage.contract import LeadershipLost
from leasehold.testing.leadership import Challenger, LeadershipTiming, Reign, Standing, first_record, resigned

LEADERSHIP_DURATION_NS: Final = 3 * SECOND_NS
LEADERSHIP_BEAT_NS: Final = 500 * MILLISECOND_NS
LEADERSHIP_MARGIN_NS: Final = 500 * MILLISECOND_NS
"""Added to a challenger's wait, for timers that fire late."""
assert LEADERSHIP_BEAT_NS * 3 < LEADERSHIP_DURATION_NS, "a leadership must outlast two lost beats"

TIMING = LeadershipTiming(
    duration_ns=LEADERSHIP_DURATION_NS,
    beat_every_ns=LEADERSHIP_BEAT_NS,
    margin_ns=LEADERSHIP_MARGIN_NS,
    drift_ppm=DRIFT_PPM,
)


class Store(Protocol):
    """What a campaign needs of a meta storage."""

    async def txn(self, txn: Txn) -> TxnResult:
        """As `MetaStorage.txn`."""
        ...

    async def get(self, key: bytes) -> KeyValue | None:
        """The newest version of a key."""
        ...


class Time(Protocol):
    """What a campaign needs of a clock (`wire.ports.Clock`)."""

    def now_ns(self) -> int:
        """The reading."""
        ...

    async def sleep_until(self, deadline_ns: int) -> None:
        """Returns once the reading has reached it."""
        ...


class BeatenLeadership:
    """One candidate's time at the head, for as long as its beats succeed in time; implements `contract.Leadership`."""

    def __init__(self, store: Store, clock: Time, reign: Reign, fence: tuple[Compare, ...]) -> None:
        self._store = store
        self._clock = clock
        self._reign = reign
        self._fence = fence
        self._unsure = False

    @property
    def term(self) -> Term:
        """Higher than every term before it."""
        return self._reign.term

    def deadline_ns(self) -> int | None:
        """When it ends unless a beat succeeds first."""
        return self._reign.ends_ns

    def fence(self) -> tuple[Compare, ...]:
        """The key that only elections write: it fails from the moment another one leads."""
        return self._fence

    async def hold(self, on_extended: Callable[[int | None], None]) -> NoReturn:
        """Beats for ever, and tells each new end. Raises `LeadershipLost` at the latest when the last one passes."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._beat_again_and_again(on_extended))
                while self._reign.leads(self._clock.now_ns()):
                    await self._clock.sleep_until(self._reign.ends_ns)
                raise _lost(self.term)
        except* LeadershipLost as errors:
            raise errors.exceptions[0] from None
        raise AssertionError("a leadership ends by raising")

    async def resign(self) -> None:
        """Ends it now, so that a successor need not wait; idempotent. Nothing may be done under it any more.

        Where the store can't be told, the successor waits until it would have ended by itself.
        """
        leads = self._reign.leads(self._clock.now_ns())
        self._reign.end()
        if leads:
            async with asyncio.TaskGroup() as group:
                giving_up = group.create_task(self._give_up())
                # After its own end there is nothing left to shorten.
                ending = group.create_task(self._clock.sleep_until(self._reign.ends_ns))
                await asyncio.wait({giving_up, ending}, return_when=asyncio.FIRST_COMPLETED)
                giving_up.cancel()
                ending.cancel()

    async def _give_up(self) -> None:
        standing = self._reign.standing
        with contextlib.suppress(LeaseholdError):
            await self._store.txn(_swap(standing, resigned(standing)))

    async def _beat_again_and_again(self, on_extended: Callable[[int | None], None]) -> NoReturn:
        while True:
            await self._clock.sleep_until(self._reign.beat_at_ns)
            try:
                await self._beat(on_extended)
            except Indefinite:
                self._unsure = True
                self._reign.unanswered(self._clock.now_ns())

    async def _beat(self, on_extended: Callable[[int | None], None]) -> None:
        if self._unsure:
            await self._look()
        record = self._reign.next_record()
        sent_ns = self._clock.now_ns()
        result = await self._store.txn(_swap(self._reign.standing, record))
        if not result.succeeded:
            self._reign.end()
            raise _lost(self.term)
        standing = Standing(record=record, modified=result.revision)
        if self._reign.beaten(standing, sent_ns=sent_ns, now_ns=self._clock.now_ns()):
            on_extended(self._reign.ends_ns)

    async def _look(self) -> None:
        """After a beat without an answer: the next one compares what is there, if it is still ours."""
        found = await _standing(self._store)
        if found is None or found.record.term != self.term or not found.record.holder:
            self._reign.end()
            raise _lost(self.term)
        # When it was sent is not known any more, so it extends nothing.
        self._reign.noted(found)
        self._unsure = False


async def campaign(store: Store, candidate: str, clock: Time, timing: LeadershipTiming = TIMING) -> BeatenLeadership:
    """Waits until `candidate` leads. Raises `Indefinite` when the store can't be asked, or does not say who won."""
    challenger = Challenger(timing)
    while True:
        standing = await _standing(store)
        due_ns = challenger.due_ns(standing, clock.now_ns())
        now_ns = clock.now_ns()
        if now_ns < due_ns:
            await clock.sleep_until(min(due_ns, now_ns + LEADER_POLL_NS))
            continue
        won = await _take(store, standing, candidate, clock, timing)
        if won is not None:
            return won


async def _take(
    store: Store, standing: Standing | None, candidate: str, clock: Time, timing: LeadershipTiming
) -> BeatenLeadership | None:
    """One attempt; None if another candidate, or a late beat, was faster."""
    record = first_record(standing, generation=await _generation(store), holder=candidate, timing=timing)
    sent_ns = clock.now_ns()
    swap = _swap(standing, record)
    # The term's key goes with it: what this leader writes compares that, and not the record that beats change.
    result = await store.txn(msgspec.structs.replace(swap, then=(*swap.then, Change(keys.TERM, encode(record)))))
    if not result.succeeded:
        return None
    reign = Reign(Standing(record=record, modified=result.revision), sent_ns=sent_ns, timing=timing)
    return BeatenLeadership(store, clock, reign, (ModifiedAt(keys.TERM, result.revision),))


def _swap(standing: Standing | None, record: LeaderRecord) -> Txn:
    unchanged = Missing(keys.LEADER) if standing is None else ModifiedAt(keys.LEADER, standing.modified)
    return Txn(compares=(unchanged,), then=(Change(keys.LEADER, encode(record)),))


async def _standing(store: Store) -> Standing | None:
    found = await store.get(keys.LEADER)
    if found is None:
        return None
    return Standing(record=decode_record(LeaderRecord, found.value), modified=found.modified)


async def _generation(store: Store) -> Generation:
    found = await store.get(keys.CLUSTER)
    return Generation(1) if found is None else decode_record(ClusterRecord, found.value).generation


def _lost(term: Term) -> LeadershipLost:
    return LeadershipLost(f"the leadership of term {term} has ended", hint="another coordinator leads, or soon will")
