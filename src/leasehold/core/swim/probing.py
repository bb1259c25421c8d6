"""The failure detector of one member: its probe of this period, pings it makes for others, and its local health.

| probe  | event                           | next                                   |
| none   | a period begins                 | pinged                                 |
| pinged | answer                          | none, healthier                        |
| pinged | the timeout passes              | asked: others ping as well             |
| asked  | answer, perhaps through another | none, healthier                        |
| asked  | the period ends                 | none; its target is suspected          |
"""

from collections.abc import Callable
from typing import Final

import msgspec

from leasehold.core.swim.messages import Ack, Datagram, Member, Nack, Ping, PingRequest
from leasehold.core.swim.roster import Roster
from leasehold.limits.swim import (
    SWIM_HEALTH_MAX,
    SWIM_HELPERS,
    SWIM_NACK_NS,
    SWIM_PERIOD_NS,
    SWIM_PING_TIMEOUT_NS,
    SWIM_RELAYS_MAX,
)

_NUMBERS: Final = 2**48


class _Probe(msgspec.Struct, eq=False):
    number: int
    target: Member
    ask_at_ns: int | None
    helpers: set[str]
    """Members that were asked to ping and have not answered."""
    asked: int = 0


class _Relay(msgspec.Struct, frozen=True):
    """A ping for another member, to which its answer goes."""

    address: str
    requester: str
    number: int
    target: str
    nack_at_ns: int


class Probing:
    """Driven by `Swim`. What it returns to send is an address, a datagram and the receiver's name."""

    def __init__(self, me: str, roster: Roster, draw: Callable[[int], int]) -> None:
        self._me = me
        self._roster = roster
        # An answer to an earlier process of this name can't pass for one to this.
        self._number = draw(_NUMBERS)
        self._draw = draw
        self._probe: _Probe | None = None
        self._period_at_ns: int | None = None
        self._relays: dict[int, _Relay] = {}
        self.health = 0

    def start(self, now_ns: int) -> None:
        """Probes from now on, the first time somewhere within a period."""
        self._period_at_ns = now_ns + self._draw(SWIM_PERIOD_NS)

    def stop(self) -> None:
        self._probe = self._period_at_ns = None
        self._relays.clear()

    def next_deadline_ns(self) -> int | None:
        """When `on_time` has something to do."""
        deadlines = [one.nack_at_ns for one in self._relays.values()]
        if self._period_at_ns is not None:
            deadlines.append(self._period_at_ns)
        if self._probe is not None and self._probe.ask_at_ns is not None:
            deadlines.append(self._probe.ask_at_ns)
        return min(deadlines, default=None)

    def postpone(self, late_ns: int) -> None:
        """This process runs late by `late_ns`: what it waits for gets that much more time."""
        self.blame_myself()
        self._relays.clear()  # nobody waits for those any more
        if self._period_at_ns is not None:
            self._period_at_ns += late_ns
        if self._probe is not None and self._probe.ask_at_ns is not None:
            self._probe.ask_at_ns += late_ns

    def blame_myself(self) -> None:
        """Something shows that this member is slow."""
        self._worsen(1)

    def on_time(self, now_ns: int) -> tuple[str | None, list[tuple[str, Datagram, str | None]]]:
        """The member to suspect, if a probe has failed, and what to send."""
        datagrams: list[tuple[str, Datagram, str | None]] = []
        for number, relay in [one for one in self._relays.items() if now_ns >= one[1].nack_at_ns]:
            del self._relays[number]
            datagrams.append((relay.address, Nack(sender=self._me, number=relay.number), relay.requester))
        suspected = None
        if self._period_at_ns is not None and now_ns >= self._period_at_ns:
            suspected = self._fail()
            datagrams += self._begin(now_ns)
        probe = self._probe
        if probe is not None and probe.ask_at_ns is not None and now_ns >= probe.ask_at_ns:
            datagrams += self._ask(probe)
        return suspected, datagrams

    def on_request(self, source: str, request: PingRequest, now_ns: int) -> Ping | None:
        """The ping to send for another member; None when there are too many, which it takes for our slowness."""
        if request.target == self._me or len(self._relays) >= SWIM_RELAYS_MAX:
            return None
        number = self._next_number()
        nack_at_ns = now_ns + SWIM_NACK_NS
        self._relays[number] = _Relay(source, request.sender, request.number, request.target, nack_at_ns)
        return Ping(sender=self._me, number=number, target=request.target)

    def on_ack(self, ack: Ack) -> tuple[str, Ack, str] | None:
        """What to pass on, if the ping was made for another."""
        relay = self._relays.get(ack.number)
        if relay is not None and relay.target == ack.sender:
            del self._relays[ack.number]
            passed = Ack(sender=self._me, number=relay.number, target=relay.target)
            return relay.address, passed, relay.requester
        probe = self._probe
        if probe is None or probe.number != ack.number or probe.target.name != ack.target:
            return None
        if ack.sender == ack.target or ack.sender in probe.helpers:
            self._probe = None
            self._worsen(-1)
        return None

    def on_nack(self, number: int, sender: str) -> None:
        """A helper has answered: this member is not the slow one."""
        if self._probe is not None and self._probe.number == number:
            self._probe.helpers.discard(sender)

    def _worsen(self, by: int) -> None:
        self.health = max(0, min(SWIM_HEALTH_MAX, self.health + by))

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _fail(self) -> str | None:
        probe, self._probe = self._probe, None
        if probe is None:
            return None
        # Helpers that say that they had no answer either speak for this member; those that are silent, against it.
        self._worsen(len(probe.helpers) if probe.asked else 1)
        return probe.target.name

    def _begin(self, now_ns: int) -> list[tuple[str, Datagram, str | None]]:
        patience = self.health + 1
        self._period_at_ns = now_ns + SWIM_PERIOD_NS * patience
        entry = self._roster.next_probed()
        if entry is None:
            return []
        target, number = entry.claim.member, self._next_number()
        ask_at_ns = now_ns + SWIM_PING_TIMEOUT_NS * patience
        self._probe = _Probe(number=number, target=target, ask_at_ns=ask_at_ns, helpers=set())
        return [(target.address, Ping(sender=self._me, number=number, target=target.name), target.name)]

    def _ask(self, probe: _Probe) -> list[tuple[str, Datagram, str | None]]:
        probe.ask_at_ns = None
        helpers = [one.claim.member for one in self._roster.some(SWIM_HELPERS, but=probe.target.name)]
        probe.helpers = {one.name for one in helpers}
        probe.asked = len(helpers)
        request = PingRequest(
            sender=self._me, number=probe.number, target=probe.target.name, address=probe.target.address
        )
        return [(one.address, request, one.name) for one in helpers]
