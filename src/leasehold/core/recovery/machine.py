"""Recovery: a process on its way from its join into the logical topology, and back into it whenever it has left.

`core/recovery/case.py` decides what it does first:

| stage      | event                                                  | next                                      |
| CONNECTING | opened, case a or b                                    | REPLAYING; MEMBER if it never left        |
| CONNECTING | opened, case c                                         | LEAPING                                   |
| any        | the watch was overtaken by compaction                  | LEAPING                                   |
| LEAPING    | leapt to S                                             | CONNECTING: the next stream starts at S+1 |
| REPLAYING  | durable near the newest, and the disk was compared     | ASKING: says `RecoveryFinished`           |
| ASKING     | behind                                                 | REPLAYING                                 |
| ASKING     | no answer for some time                                | ASKING: says it again                     |
| ASKING     | accepted                                               | ADMITTED; MEMBER if it has `required`     |
| ADMITTED   | shows `required`                                       | MEMBER: renews at once                    |
| MEMBER     | a renewal that it sent as a member is refused          | REPLAYING                                 |
| any        | the stream broke                                       | CONNECTING                                |
| any        | it surrenders                                          | STOPPED                                   |

`RecoveryFinished` is repeated until it is answered. Until the node is in, the disk is compared anew on each stream:
what was reported missing may have been lost with the stream before (I7).
"""

from typing import assert_never

from leasehold.core.recovery import events
from leasehold.core.recovery.case import Ahead, FromVault, Replay, Snapshot, decide
from leasehold.core.recovery.events import DiskComparison, Effect, Event, Stage
from leasehold.core.recovery.progress import Tally
from leasehold.core.words.messages import NodeRecovery
from leasehold.core.words.time_passed import TimePassed
from leasehold.ids import RequestNumber, Revision
from leasehold.limits.recovery import RECOVERY_ASK_AGAIN_NS


class Recovery:
    """One process; `step` is its only door."""

    def __init__(self, *, applied: Revision, history_known: bool, compares_disk: bool, now_ns: int) -> None:
        self._stage = Stage.CONNECTING
        self._shown = self._durable = self._newest = applied
        self._history_known = history_known
        self._leapt = False
        """Since this process was a member, if it ever was."""
        self._compares_disk = compares_disk
        self._difference = 0
        self._asked_ns = now_ns
        self._required: Revision | None = None
        self._recovered = False
        self._member_from: RequestNumber | None = None
        """The first renewal that was sent as a member: an earlier one may be refused still."""
        self._compare = DiskComparison(number=0, revision=applied)
        self._compared = True
        self._tally = Tally(applied, now_ns)

    @property
    def stage(self) -> Stage:
        return self._stage

    @property
    def recovered(self) -> bool:
        """Whether this process has been let in, and its vault then held what was required."""
        return self._recovered

    @property
    def busy(self) -> bool:
        """Whether there is progress to report."""
        return self._tally.missing > 0 or self._stage not in {Stage.MEMBER, Stage.STOPPED}

    @property
    def comparison_due(self) -> DiskComparison | None:
        """What the disk is to be compared with now, if anything."""
        return None if self._compared or self._stage is not Stage.REPLAYING else self._compare

    @property
    def keys(self) -> int:
        return self._tally.keys

    def progress(self, now_ns: int) -> NodeRecovery:
        return self._tally.progress(
            self._durable,
            max(self._newest, self._durable),
            now_ns,
            leaping=self._stage is Stage.LEAPING,
            replaying=self._stage in {Stage.REPLAYING, Stage.ASKING, Stage.ADMITTED},
        )

    def step(self, event: Event, now_ns: int) -> tuple[Effect, ...]:
        """Takes one event. One of a stream or a question that is over changes nothing."""
        if isinstance(event, events.OwnEvent):
            return self._on_own(event, now_ns)
        if self._stage is Stage.STOPPED:
            return ()
        match event:
            case events.Opened():
                return self._on_opened(event, now_ns)
            case events.Overtaken(minimum=minimum):
                why = f"revision {self._shown + 1} was compacted on the way, the oldest kept is {minimum}"
                return self._leap(why, now_ns)
            case events.SnapshotBegun() | events.PageTaken() | events.Leapt():
                self._on_snapshot(event, now_ns)
                return ()
            case events.DiskCompared():
                return self._on_compared(event, now_ns)
            case events.Accepted() | events.Behind():
                return self._on_answer(event, now_ns)
            case TimePassed():
                return self._on_time(now_ns)
            case events.Excluded(request=request):
                return self._on_excluded(request, now_ns)
            case _:
                assert_never(event)

    def _on_own(self, event: events.OwnEvent, now_ns: int) -> tuple[Effect, ...]:
        match event:
            case events.RevisionShown(revision=revision):
                assert revision > self._shown, "a view never goes back (INV-BARRIER-1)"
                self._shown = revision
                self._newest = max(self._newest, revision)
                return self._enter()
            case events.Stored(revision=revision):
                self._store(revision)
                return self._finish(now_ns)
            case events.SegmentsCounted():
                self._tally.count(event.fetched, event.evicted, event.missing, now_ns)
            case events.RenewalSent(request=request):
                if self._stage is Stage.MEMBER and self._member_from is None:
                    self._member_from = request
            case events.Stopping():
                self._stage = Stage.STOPPED
            case events.StreamBroken():
                if self._stage is not Stage.STOPPED:
                    self._stage = Stage.CONNECTING
            case _:
                assert_never(event)
        return ()

    # ------------------------------------------------------------ getting there

    def _on_opened(self, event: events.Opened, now_ns: int) -> tuple[Effect, ...]:
        assert self._stage is Stage.CONNECTING, "one stream at a time"
        self._newest = max(self._newest, event.latest)
        self._difference = event.catch_up_difference
        self._member_from = None
        self._compared = not self._compares_disk
        self._compare = DiskComparison(number=self._compare.number + 1, revision=event.latest)
        case = decide(
            applied=self._shown,
            latest=event.latest,
            minimum=event.minimum,
            live_keys=event.live_keys,
            history_known=self._history_known,
            leapt=self._leapt,
        )
        match case:
            case Ahead():
                return (events.EndAhead(applied=self._shown, latest=event.latest),)
            case Snapshot(why=why):
                return self._leap(why, now_ns)
            case FromVault() | Replay():
                if event.member:
                    # Whatever was required lies at or below the newest; the opening of a stream renews anyway.
                    self._admit(event.latest)
                    self._enter()
                    return ()
                return self._replay(case, now_ns)
            case _:
                assert_never(case)

    def _replay(self, case: FromVault | Replay, now_ns: int) -> tuple[Effect, ...]:
        self._stage = Stage.REPLAYING
        self._required = None
        if isinstance(case, FromVault):
            letter, why = "a", f"nothing has changed since revision {self._shown}"
        else:
            letter, why = "b", f"revisions {self._shown + 1} to {self._newest} are kept"
        self._tally.replaying(letter, why, self._durable, now_ns)
        return self._finish(now_ns)

    def _leap(self, why: str, now_ns: int) -> tuple[Effect, ...]:
        if self._stage is Stage.LEAPING:
            return ()
        self._stage = Stage.LEAPING
        self._tally.leaping(why, now_ns)
        return (events.TakeSnapshot(),)

    def _on_snapshot(self, event: events.SnapshotEvent, now_ns: int) -> None:
        match event:
            case events.SnapshotBegun(revision=revision, keys=keys):
                self._newest = max(self._newest, revision)
                self._tally.begin_snapshot(keys, now_ns)
            case events.PageTaken(keys=keys):
                self._tally.take(keys)
            case events.Leapt(revision=revision):
                # Whatever became of its stream: vault and view are there.
                self._shown = max(self._shown, revision)
                self._newest = max(self._newest, revision)
                self._history_known = self._leapt = True
                self._store(revision)
                self._stage = Stage.CONNECTING
            case _:
                assert_never(event)

    def _store(self, revision: Revision) -> None:
        self._durable = max(self._durable, revision)
        if self._required is not None and self._durable >= self._required:
            self._recovered = True

    # ------------------------------------------------------------ getting in

    def _finish(self, now_ns: int) -> tuple[Effect, ...]:
        """Says that recovery is finished, if it is and that was not said."""
        if self._stage is not Stage.REPLAYING or not self._compared:
            return ()
        if self._newest - self._durable > self._difference:
            return ()
        self._stage = Stage.ASKING
        return self._ask(now_ns)

    def _ask(self, now_ns: int) -> tuple[Effect, ...]:
        self._asked_ns = now_ns
        return (events.SendFinished(applied=self._durable),)

    def _on_time(self, now_ns: int) -> tuple[Effect, ...]:
        if self._stage is not Stage.ASKING or now_ns < self._asked_ns + RECOVERY_ASK_AGAIN_NS:
            return ()
        return self._ask(now_ns)

    def _on_compared(self, event: events.DiskCompared, now_ns: int) -> tuple[Effect, ...]:
        if event.number != self._compare.number or self._durable < self._compare.revision:
            return ()  # of an earlier stream, or of a catalog too old: what it reported may be lost
        self._compared = True
        self._tally.compare(event.kept, event.missing, now_ns)
        return self._finish(now_ns)

    def _on_answer(self, event: events.LeaderAnswer, now_ns: int) -> tuple[Effect, ...]:
        if self._stage is not Stage.ASKING:
            return ()
        match event:
            case events.Accepted(required=required):
                self._admit(required)
                return self._enter()
            case events.Behind(latest=latest, catch_up_difference=difference):
                self._stage = Stage.REPLAYING
                self._newest = max(self._newest, latest)
                self._difference = difference
                return self._finish(now_ns)
            case _:
                assert_never(event)

    def _admit(self, required: Revision) -> None:
        self._stage, self._required = Stage.ADMITTED, required
        self._newest = max(self._newest, required)
        self._store(self._durable)

    def _enter(self) -> tuple[Effect, ...]:
        """Becomes a member as soon as the view shows what was required (INV-REC-3)."""
        if self._stage is not Stage.ADMITTED or self._required is None or self._shown < self._required:
            return ()
        self._stage = Stage.MEMBER
        self._member_from = None
        self._leapt = False
        self._tally.arrived()
        return (events.RenewNow(),)

    def _on_excluded(self, request: RequestNumber, now_ns: int) -> tuple[Effect, ...]:
        if self._stage is not Stage.MEMBER or self._member_from is None or request < self._member_from:
            return ()
        self._stage = Stage.REPLAYING
        self._required = None
        self._tally.replaying("b", "it had left the logical topology", self._durable, now_ns)
        return self._finish(now_ns)
