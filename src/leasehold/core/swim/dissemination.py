"""News on its way through the cluster: each claim goes out a bounded number of times, the least sent first."""

import itertools
import math

import msgspec

from leasehold.core.swim.codec import encoded
from leasehold.core.swim.messages import MemberClaim
from leasehold.limits.swim import SWIM_RETRANSMIT


class _Queued(msgspec.Struct, eq=False):
    claim: MemberClaim
    size_bytes: int
    order: int
    sent: int = 0


class Dissemination:
    """At most one claim per member, the newest; so it is bounded as the members are."""

    def __init__(self) -> None:
        self._queued: dict[str, _Queued] = {}
        self._orders = itertools.count(1)

    def __bool__(self) -> bool:
        return bool(self._queued)

    def put(self, claim: MemberClaim) -> None:
        """Begins to spread a claim, in place of an older one about that member."""
        order = -next(self._orders)
        self._queued[claim.member.name] = _Queued(claim=claim, size_bytes=len(encoded(claim)), order=order)

    def forget(self, name: str) -> None:
        """Spreads nothing about that member any more."""
        self._queued.pop(name, None)

    def clear(self) -> None:
        """Spreads nothing any more."""
        self._queued.clear()

    def take(self, room_bytes: int, members: int, *, but: str = "") -> list[MemberClaim]:
        """The claims to send now, as many as fit; counts them as sent, and those about `but`, who knows, as well."""
        if not self._queued:
            return []
        limit = retransmissions(members)
        taken: list[MemberClaim] = []
        for one in sorted(self._queued.values(), key=lambda one: (one.sent, one.order)):
            name = one.claim.member.name
            if one.size_bytes > room_bytes:
                continue
            if name != but:
                room_bytes -= one.size_bytes
                taken.append(one.claim)
            one.sent += 1
            if one.sent >= limit:
                del self._queued[name]
        return taken


def retransmissions(members: int) -> int:
    """How often each of `members` sends a claim on: enough for all to hear of it, nearly always."""
    return math.ceil(SWIM_RETRANSMIT * math.log10(members + 1))
