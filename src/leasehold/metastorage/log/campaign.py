"""Campaigns for the leader record of a log: drives `core.log.leadership` with the log and a clock.

`hold` keeps a leadership by beats, in a task of the leader. When the leadership ends, `hold` raises, which ends all
tasks beside it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NoReturn

import msgspec

from leasehold.core.log.leadership import Challenger, LeadershipTiming, Reign, Standing, first_record, resigned
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.operations import Compare, LedBy
from leasehold.core.words.records import LeaderRecord, SettingsRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite, Indefinite, LeaseholdError
from leasehold.ids import Term
from leasehold.limits.lease import DRIFT_PPM, LEADER_COURTESY_NS, LEADER_POLL_NS
from leasehold.limits.log import LEADERSHIP_BEAT_NS, LEADERSHIP_DURATION_NS, LEADERSHIP_MARGIN_NS, LOG_RETRY_NS
from leasehold.metastorage.contract import LeadershipLost
from leasehold.metastorage.log.log import LEADER, Log, LogFence
from leasehold.metastorage.log.patience import until_answered
from leasehold.metastorage.log.replica import Replica
from leasehold.metastorage.log.store import StoreFull
from leasehold.metastorage.transaction import generation_of
from leasehold.wire.ports import Clock, Entropy
from leasehold.wire.tasks import until_set_or_due

log = logging.getLogger(__name__)

_UNANSWERED: Final = frozenset({ErrorCode.UNREACHABLE, ErrorCode.UNKNOWN})
"""Codes of requests that had no answer."""

TIMING: Final = LeadershipTiming(
    beat_every_ns=LEADERSHIP_BEAT_NS,
    margin_ns=LEADERSHIP_MARGIN_NS,
    drift_ppm=DRIFT_PPM,
    courtesy_ns=LEADER_COURTESY_NS,
)


class BeatenLeadership:
    """A leadership that lasts as long as its beats succeed in time; implements `contract.Leadership`."""

    def __init__(self, log: Log, clock: Clock, reign: Reign, log_fence: LogFence) -> None:
        self.log_fence: Final = log_fence
        self._log = log
        self._clock = clock
        self._reign = reign

    @property
    def term(self) -> Term:
        return self._reign.term

    def deadline_ns(self) -> int | None:
        return self._reign.ends_ns

    def leads(self) -> bool:
        """Whether it has not ended yet, on this clock."""
        return self._reign.leads(self._clock.now_ns())

    def end(self) -> None:
        """Another term has begun."""
        self._reign.end()

    def fence(self) -> tuple[Compare, ...]:
        return (LedBy(self.term),)

    async def hold(self, on_extended: Callable[[int | None], None]) -> NoReturn:
        """Beats for ever, and reports each new end. Raises `LeadershipLost` when the last end passes, or earlier."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._beat_again_and_again(on_extended))
                while self.leads():
                    await self._clock.sleep_until(self._reign.ends_ns)
                raise _lost(self.term)
        except* LeadershipLost as errors:
            raise errors.exceptions[0] from None
        raise AssertionError("a leadership ends by raising")

    async def resign(self, successor: str = "") -> None:
        """As `Leadership.resign`; idempotent.

        If the store can't be reached, the successor waits until the leadership would have ended by itself.
        """
        leads = self.leads()
        self._reign.end()
        if leads:
            async with asyncio.TaskGroup() as group:
                giving_up = group.create_task(self._give_up(successor))
                # After its own end there is nothing left to shorten.
                ending = group.create_task(self._clock.sleep_until(self._reign.ends_ns))
                await asyncio.wait({giving_up, ending}, return_when=asyncio.FIRST_COMPLETED)
                giving_up.cancel()
                ending.cancel()

    async def _give_up(self, successor: str) -> None:
        with contextlib.suppress(Definite):
            await until_answered(partial(self._try_to_give_up, successor), lasts=lambda: True, clock=self._clock)

    async def _try_to_give_up(self, successor: str) -> None:
        # Read anew, since a beat under way may change the record.
        while (standing := await self._log.leader()) is not None and standing.record.term == self.term:
            if not standing.record.holder or await self._log.beat(standing, resigned(standing, successor)) is not None:
                break

    async def _beat_again_and_again(self, on_extended: Callable[[int | None], None]) -> NoReturn:
        while True:
            await self._clock.sleep_until(self._reign.beat_at_ns)
            while not await self._beat():
                await self._clock.sleep_until(self._clock.now_ns() + LOG_RETRY_NS)
            on_extended(self._reign.ends_ns)

    async def _beat(self) -> bool:
        """One try of the beat that is due; whether it is known to have happened. Raises `LeadershipLost`."""
        record = self._reign.next_beat(self._clock.now_ns())
        try:
            standing = await self._log.beat(self._reign.standing, record)
            if standing is not None:
                goes_on = self._reign.beaten(standing, self._clock.now_ns())
            else:  # another one's record, or that of an earlier try
                goes_on = self._reign.found(await self._log.leader(), self._clock.now_ns())
        except (StoreFull, Indefinite):
            return False
        if not goes_on:
            raise _lost(self.term)
        return not self._reign.awaits_answer


class LogCandidate:
    """One coordinator that wants to lead, again and again."""

    def __init__(
        self, log: Log, turn: asyncio.Lock, clock: Clock, entropy: Entropy, *, replica: Callable[[], Replica]
    ) -> None:
        self.seen_leader: LeaderRecord | None = None
        """The leader record as it was read last, at most LEADER_POLL_NS ago while it campaigns."""
        self.obstacle: LeaseholdError | None = None
        """As `MetaStorage.obstacle`."""
        self._log = log
        self._turn = turn
        self._clock = clock
        self._entropy = entropy
        self._replica = replica
        self._woken = asyncio.Event()

    async def follow(self) -> None:
        """Looks at the leader record as soon as it changes, while this candidate waits for it."""
        async for _ in self._log.store.watch(LEADER):
            self._woken.set()

    async def win(self, name: str) -> BeatenLeadership:
        """Waits until it leads under this name, also while the store does not answer or is full."""
        shared, clock, challenger = self._log, self._clock, Challenger(TIMING, name)
        # Tells its elections from those of another process of the same name.
        nonce = self._entropy.hex_128()
        sent: tuple[LeaderRecord, int] | None = None
        while True:
            self._woken.clear()
            try:
                standing = await shared.leader()
                now_ns = clock.now_ns()
                self.seen_leader = None if standing is None else standing.record
                if sent is not None and standing is not None and standing.record == sent[0]:
                    # An election without an answer that happened.
                    fence = await shared.term()
                    if fence is not None and fence.term == sent[0].term:
                        return BeatenLeadership(shared, clock, Reign(standing, sent_ns=sent[1], timing=TIMING), fence)
                due_ns = challenger.due_ns(standing, now_ns)
                if now_ns < due_ns:
                    self.obstacle = None
                    await until_set_or_due(self._woken, min(due_ns, now_ns + LEADER_POLL_NS), clock)
                    continue
                record = await self._record(standing, name, nonce)
                if sent is None or sent[0] != record:
                    sent = record, clock.now_ns()
                elected = await shared.elect(standing, record)
                if elected is not None:
                    if standing is not None:
                        holder = standing.record.holder
                        why = f"which {holder} did not continue" if holder else "which was given up"
                        log.info("elected after term %d, %s", standing.record.term, why)
                    self.seen_leader, self.obstacle = record, None
                    return BeatenLeadership(
                        shared, clock, Reign(elected[0], sent_ns=sent[1], timing=TIMING), elected[1]
                    )
            except (StoreFull, Indefinite) as error:
                self.obstacle = error
                log.warning("can't lead: %s; %s", error.text, error.hint)
                # A person has to do something about what the store declines.
                pause_ns = LOG_RETRY_NS if error.code in _UNANSWERED else LEADER_POLL_NS
                await clock.sleep_until(clock.now_ns() + pause_ns)

    async def _record(self, standing: Standing | None, name: str, nonce: str) -> LeaderRecord:
        """What it is elected with over `standing`, as the replica has generation and settings. A replica that is being
        built is waited for."""
        async with self._turn:
            generation = generation_of(await self._replica().get(keys.CLUSTER))
            found = await self._replica().get(keys.SETTINGS)
        settings = None if found is None else decode_record(SettingsRecord, found.value)
        lasts_ns = LEADERSHIP_DURATION_NS if settings is None else settings.leadership_duration_ns
        record = first_record(standing, generation=generation, holder=name, duration_ns=lasts_ns)
        return msgspec.structs.replace(record, nonce=nonce)


def _lost(term: Term) -> LeadershipLost:
    return LeadershipLost(f"the leadership of term {term} has ended", hint="another coordinator leads, or soon will")
