"""One member of the physical topology: the theory is in the package's head. `step` is the only door."""

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, assert_never

import msgspec

from leasehold.core.swim import events, messages
from leasehold.core.swim.codec import CLAIMS_HEADER_BYTES, PAYLOAD_BYTES_MAX, encoded
from leasehold.core.swim.dissemination import Dissemination
from leasehold.core.swim.events import SwimEffect, SwimEvent
from leasehold.core.swim.messages import Datagram, Member, MemberClaim, State, SwimIncarnation
from leasehold.core.swim.pages import pages
from leasehold.core.swim.probing import Probing
from leasehold.core.swim.roster import Roster, digest_of
from leasehold.core.swim.suspicion import suspect
from leasehold.core.words.addresses import is_loopback
from leasehold.core.words.time_passed import TimePassed
from leasehold.limits.swim import (
    SWIM_DEAD_KEPT_NS,
    SWIM_INCARNATION_MAX,
    SWIM_LATE_NS,
    SWIM_LEAVE_MEMBERS,
    SWIM_LEAVE_NS,
    SWIM_MEMBERS_MAX,
    SWIM_PERIOD_NS,
    SWIM_SEED_RETRY_NS,
    SWIM_SEEDS_MAX,
    SWIM_SPREAD_MEMBERS,
    SWIM_SPREAD_NS,
    SWIM_SYNC_ANSWERS_MAX,
    SWIM_SYNC_NS,
)

FIRST_INCARNATION: Final = SwimIncarnation(1)
_DIGESTS: Final = 2**64


class _Duty(Enum):
    """Timers of a member, besides those of probes and suspicions."""

    JOIN = auto()
    SPREAD = auto()
    SYNC = auto()
    ANSWER_AGAIN = auto()
    FINISH_LEAVING = auto()


class Swim:
    """`draw(n)` gives a random number from 0 to n - 1; `incarnation` is what this process begins with."""

    def __init__(
        self,
        *,
        me: Member,
        seeds: tuple[str, ...],
        draw: Callable[[int], int],
        incarnation: SwimIncarnation = FIRST_INCARNATION,
    ) -> None:
        assert len(seeds) <= SWIM_SEEDS_MAX, "seeds are bounded where they come in"
        assert 0 < incarnation < SWIM_INCARNATION_MAX
        self._mine = MemberClaim(member=me, incarnation=incarnation, state=State.ALIVE)
        self._seeds = tuple(dict.fromkeys(one for one in seeds if one != me.address))
        self._draw = draw
        self._roster = Roster(draw)
        self._news = Dissemination()
        self._probing = Probing(me.name, self._roster, draw)
        self._effects: list[SwimEffect] = []
        self._answers_left = SWIM_SYNC_ANSWERS_MAX
        self._runs = False
        self._due_ns: dict[_Duty, int] = {}

    # ------------------------------------------------------------ what is known

    @property
    def health(self) -> int:
        """The local health: 0 is well."""
        return self._probing.health

    def seen(self) -> list[MemberClaim]:
        """The newest claim about each member, itself first."""
        return [self._mine, *sorted((one.claim for one in self._roster.entries()), key=lambda one: one.member.name)]

    def next_deadline_ns(self) -> int | None:
        """When to call with `TimePassed`; None before it starts, alone without seeds, and after it has left."""
        deadlines = [*self._due_ns.values(), *(one.deadline_ns for one in self._roster.suspicions())]
        probing_ns = self._probing.next_deadline_ns()
        if probing_ns is not None:
            deadlines.append(probing_ns)
        return min(deadlines, default=None)

    # ------------------------------------------------------------ events

    def step(self, event: SwimEvent, now_ns: int) -> tuple[SwimEffect, ...]:
        """Takes one event; what it leads to, in order."""
        self._allow_for_lateness(now_ns)
        match event:
            case events.Started():
                self._on_started(now_ns)
            case events.DatagramReceived(source=source, datagram=datagram):
                self._on_datagram(source, datagram, now_ns)
            case TimePassed():
                self._on_time(now_ns)
            case events.LeaveRequested():
                self._on_leave(now_ns)
            case _:
                assert_never(event)
        if self._news and self._runs:
            self._due_ns.setdefault(_Duty.SPREAD, now_ns + SWIM_SPREAD_NS)
        effects, self._effects = tuple(self._effects), []
        return effects

    def _allow_for_lateness(self, now_ns: int) -> None:
        due_ns = self.next_deadline_ns()
        if due_ns is None or now_ns - due_ns <= SWIM_LATE_NS:
            return
        late_ns = now_ns - due_ns
        self._probing.postpone(late_ns)
        for one in self._roster.suspicions():
            one.began_ns += late_ns
        self._due_ns = {duty: due_ns + late_ns for duty, due_ns in self._due_ns.items()}

    def _on_started(self, now_ns: int) -> None:
        assert not self._runs, "a member starts once"
        self._runs = True
        self._probing.start(now_ns)
        # Not all at the same time, where many start together.
        self._due_ns[_Duty.SYNC] = now_ns + SWIM_SYNC_NS // 2 + self._draw(SWIM_SYNC_NS // 2)
        if self._seeds:
            self._due_ns[_Duty.JOIN] = now_ns

    def _on_leave(self, now_ns: int) -> None:
        if not self._runs or self._is_leaving:
            return
        others = self._roster.some(SWIM_LEAVE_MEMBERS)
        self._probing.stop()
        self._roster.acquit()
        self._due_ns = {_Duty.FINISH_LEAVING: now_ns + (SWIM_LEAVE_NS if others else 0)}
        self._say_of_me(msgspec.structs.replace(self._mine, state=State.LEFT))
        for one in others:
            self._tell(one.claim.member.address, self._mine)

    @property
    def _is_leaving(self) -> bool:
        return self._mine.state is State.LEFT

    def _is_due(self, duty: _Duty, now_ns: int) -> bool:
        """Whether a timer has expired; clears it then."""
        due = duty in self._due_ns and now_ns >= self._due_ns[duty]
        if due:
            del self._due_ns[duty]
        return due

    def _on_time(self, now_ns: int) -> None:
        if self._is_due(_Duty.FINISH_LEAVING, now_ns):
            self._runs = False
            self._due_ns.clear()
            self._effects.append(events.LeaveFinished())
            return
        if self._is_due(_Duty.JOIN, now_ns):
            self._due_ns[_Duty.JOIN] = now_ns + SWIM_SEED_RETRY_NS
            for seed in self._seeds:
                self._ask(seed, None)
        if self._is_due(_Duty.ANSWER_AGAIN, now_ns):
            self._answers_left = SWIM_SYNC_ANSWERS_MAX
        suspected, datagrams = self._probing.on_time(now_ns)
        if suspected is not None:
            self._suspect(suspected, now_ns)
        for address, datagram, name in datagrams:
            self._send(address, datagram, name)
        self._bury(now_ns)
        if self._is_due(_Duty.SPREAD, now_ns):
            self._spread()
        if self._is_due(_Duty.SYNC, now_ns):
            self._due_ns[_Duty.SYNC] = now_ns + SWIM_SYNC_NS
            self._compare()
            self._forget(now_ns)

    def _on_datagram(self, source: str, datagram: Datagram, now_ns: int) -> None:
        if not self._runs or datagram.sender == self._mine.member.name:
            return  # not yet, no more, or an echo: a process of the same name is heard of through others
        self._due_ns.pop(_Duty.JOIN, None)
        page_of = datagram.sender if isinstance(datagram, messages.MemberPage) else None
        for claim in datagram.claims:
            self._hear(claim, now_ns, source=source, page_of=page_of)
        if not self._is_leaving:
            self._on_kind(source, datagram, now_ns)

    def _on_kind(self, source: str, datagram: Datagram, now_ns: int) -> None:
        match datagram:
            case messages.Ping():
                self._on_ping(source, datagram)
            case messages.PingRequest():
                ping = self._probing.on_request(source, datagram, now_ns)
                if ping is not None:
                    self._send(datagram.address, ping, datagram.target)
            case messages.Ack():
                relayed = self._probing.on_ack(datagram)
                if relayed is not None:
                    self._send(*relayed)
            case messages.Nack(number=number, sender=sender):
                self._probing.on_nack(number, sender)
            case messages.News():
                pass
            case messages.Sync(digest=digest):
                if digest != self._digest():
                    self._answer(source, datagram.sender, now_ns, answer=True)
            case messages.MemberPage(answer=answer):
                if answer:
                    self._answer(source, datagram.sender, now_ns, answer=False)
            case _:
                assert_never(datagram)

    def _on_ping(self, source: str, ping: messages.Ping) -> None:
        name = self._mine.member.name
        if ping.target != name:
            return  # meant for who was at this address before
        self._send(source, messages.Ack(sender=name, number=ping.number, target=name), ping.sender)
        if self._roster.get(ping.sender) is None:
            self._ask(source, ping.sender)

    # ------------------------------------------------------------ claims

    def _hear(self, claim: MemberClaim, now_ns: int, *, source: str, page_of: str | None) -> None:
        name = claim.member.name
        if name == self._mine.member.name:
            self._hear_of_me(claim, source)
            return
        if page_of is not None and claim.state is State.DEAD:
            # It may have refuted since: the whole cluster is given the time to find out.
            claim = msgspec.structs.replace(claim, state=State.SUSPECT, by=page_of)
        known = self._roster.get(name)
        if known is None:
            if claim.state in {State.ALIVE, State.SUSPECT} and len(self._roster) < SWIM_MEMBERS_MAX:
                # What a page tells is known to others: a newcomer does not repeat all of it.
                self._take(claim, now_ns, spread=page_of is None)
        elif claim.rank > known.claim.rank:
            self._take(claim, now_ns)
        elif claim.rank == known.claim.rank and known.suspicion is not None and known.suspicion.confirm(claim.by):
            self._news.put(claim)

    def _take(self, claim: MemberClaim, now_ns: int, *, spread: bool = True) -> None:
        member = claim.member
        if self._is_of_elsewhere(member):
            return
        known = self._roster.get(member.name)
        entry = self._roster.put(claim, now_ns)
        if claim.state is State.SUSPECT and not self._is_leaving:
            self._roster.accuse(entry, suspect(claim.by, len(self._roster.living()) + 1, now_ns))
        if spread:
            self._news.put(claim)
        if known is None or known.state is not claim.state or known.claim.member != member:
            self._effects.append(events.MemberChanged(member=member, state=claim.state))

    def _is_of_elsewhere(self, member: Member) -> bool:
        """Whether it names a loopback address, which is another process where this member is."""
        is_here = is_loopback(self._mine.member.address)
        return not is_here and (is_loopback(member.address) or is_loopback(member.service))

    def _hear_of_me(self, claim: MemberClaim, source: str) -> None:
        mine = self._mine
        if self._is_leaving:
            return
        if claim.incarnation < mine.incarnation:
            if claim.state is not State.ALIVE:
                self._tell(source, mine)  # the refutation has not reached it, and may not go round any more
            return
        if claim.incarnation == mine.incarnation:
            if claim.state is State.ALIVE and claim.member == mine.member:
                return
            if claim.state is not State.ALIVE:
                self._probing.blame_myself()  # others did not hear of me in time
        if claim.incarnation < SWIM_INCARNATION_MAX:
            self._say_of_me(msgspec.structs.replace(mine, incarnation=SwimIncarnation(claim.incarnation + 1)))
            self._tell(source, self._mine)

    def _say_of_me(self, claim: MemberClaim) -> None:
        self._mine = claim
        self._news.put(claim)

    def _suspect(self, name: str, now_ns: int) -> None:
        entry = self._roster.get(name)
        if entry is None or not entry.lives:
            return
        accusation = msgspec.structs.replace(entry.claim, state=State.SUSPECT, by=self._mine.member.name)
        if entry.suspicion is None:
            self._take(accusation, now_ns)
        elif entry.suspicion.confirm(accusation.by):
            self._news.put(accusation)

    def _bury(self, now_ns: int) -> None:
        for one in self._roster.convicted(now_ns):
            self._take(msgspec.structs.replace(one.claim, state=State.DEAD, by=""), now_ns)

    def _forget(self, now_ns: int) -> None:
        for one in list(self._roster.entries()):
            if not one.lives and now_ns - one.since_ns >= SWIM_DEAD_KEPT_NS:
                self._roster.forget(one.claim.member.name)
                self._news.forget(one.claim.member.name)
                self._effects.append(events.MemberForgotten(member=one.claim.member))

    # ------------------------------------------------------------ what is sent

    def _send(self, address: str, datagram: Datagram, name: str | None) -> None:
        """Sends with as much news as fits. A receiver that is not seen alive hears of that first (buddy system)."""
        room_bytes = PAYLOAD_BYTES_MAX - len(encoded(datagram)) - CLAIMS_HEADER_BYTES
        claims = list(datagram.claims)
        known = None if name is None else self._roster.get(name)
        if known is not None and known.state is not State.ALIVE and known.size_bytes <= room_bytes:
            claims.append(known.claim)
            room_bytes -= known.size_bytes
        members = len(self._roster) + 1
        claims += self._news.take(room_bytes, members, but="" if known is None else known.claim.member.name)
        if isinstance(datagram, messages.News) and not claims:
            return
        if claims:
            datagram = msgspec.structs.replace(datagram, claims=tuple(claims))
        self._effects.append(events.SendDatagram(address=address, datagram=datagram))

    def _tell(self, address: str, claim: MemberClaim) -> None:
        news = messages.News(sender=self._mine.member.name, claims=(claim,))
        self._effects.append(events.SendDatagram(address=address, datagram=news))

    def _spread(self) -> None:
        others = self._roster.some(SWIM_SPREAD_MEMBERS)
        if not others:
            self._news.clear()  # who joins is told all anyway
        for one in others:
            if self._news:
                self._send(
                    one.claim.member.address, messages.News(sender=self._mine.member.name), one.claim.member.name
                )

    def _digest(self) -> bytes:
        total = self._roster.digest() + digest_of(self._mine.member, self._mine.incarnation)
        return (total % _DIGESTS).to_bytes(8, "big")

    def _ask(self, address: str, name: str | None) -> None:
        question = messages.Sync(sender=self._mine.member.name, digest=self._digest(), claims=(self._mine,))
        self._send(address, question, name)

    def _compare(self) -> None:
        for one in self._roster.some(1):
            self._ask(one.claim.member.address, one.claim.member.name)
        living = {one.claim.member.address for one in self._roster.living()}
        gone = [one for one in self._roster.entries() if one.state is State.DEAD]
        away = [one for one in self._seeds if one not in living]
        if gone and (not away or self._draw(2)):
            lost = self._roster.drawn(gone, 1)[0].claim.member
            self._ask(lost.address, lost.name)
        elif away:
            self._ask(away[self._draw(len(away))], None)

    def _answer(self, address: str, name: str, now_ns: int, *, answer: bool) -> None:
        """Sends all that is known, in pages; first what the receiver may have to refute, and this member itself."""
        if self._answers_left == 0:
            return
        self._answers_left -= 1
        self._due_ns.setdefault(_Duty.ANSWER_AGAIN, now_ns + SWIM_PERIOD_NS)
        receiver = self._roster.get(name)
        others = sorted(self._roster.entries(), key=lambda one: one.claim.member.name)
        at = self._draw(len(others)) if others else 0
        claims = [*(() if receiver is None else (receiver.claim,)), self._mine]
        # From anywhere on, so that each has its turn to be among the first where not all are told.
        claims += [one.claim for one in others[at:] + others[:at] if one is not receiver]
        for page in pages(self._mine.member.name, claims, answer=answer):
            self._effects.append(events.SendDatagram(address=address, datagram=page))
