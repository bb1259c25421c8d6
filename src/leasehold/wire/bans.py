"""Peers that flood a server with calls whose answers they do not want, or with connections that it has to cut off.

Such a call costs the server as much as any other. So a peer with too many is kept out for a while.

| in the last second | what happens |
| --- | --- |
| a peer has no more than FAULTS_OF_ONE_MAX | it is not banned: clients take a call back here and there |
| all others together have more than FAULTS_PER_SECOND_MAX | the one with most is banned for BAN_NS, then the next one |
| more calls wait than may (`wire/backlog.py`) | those with most of them are banned, down to half of that |
| peers with few each have more than a crowd may | those with more than one part in CROWD_SHARE of that, likewise |
| the process stood still, so that nobody looked for BAN_PAUSE_NS | nothing counts for BAN_GRACE_NS: calls are stale |

The peers of members are never banned, since a node would lose its lease. What is a fault, and how much it counts, is in
`limits/bans.py`.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from typing import NamedTuple

from leasehold.limits.bans import (
    BACKLOG_CALLS_MAX,
    BACKLOG_OF_CROWD_MAX,
    BAN_GRACE_NS,
    BAN_NS,
    BAN_PAUSE_NS,
    CROWD_SHARE,
    FAULTS_OF_CROWD_MAX,
    FAULTS_OF_ONE_MAX,
    FAULTS_PER_SECOND_MAX,
    MEMBERS_REMEMBERED_MAX,
)
from leasehold.limits.requests import CALLS_OF_CLIENT_MAX
from leasehold.limits.units import SECOND_NS


class _Bounds(NamedTuple):
    """What is borne."""

    of_one: int
    of_all: int
    """All who have more than `of_one`."""
    of_crowd: int
    """All who have no more."""


def _with_most(has: Mapping[str, int], of_one_max: int, of_all_max: int) -> set[str]:
    """Those with most, until the others with more than `of_one_max` have no more than `of_all_max` together."""
    many = {peer: size for peer, size in has.items() if size > of_one_max}
    left, found = sum(many.values()), set[str]()
    for peer in sorted(many, key=many.__getitem__, reverse=True):
        if left <= of_all_max:
            break
        left -= many[peer]
        found.add(peer)
    return found


class Bans:
    """A peer is an address, as in `wire.peer_connections`."""

    def __init__(self) -> None:
        self._faults: deque[tuple[int, Counter[str]]] = deque()
        """Of the looks in the last second, with their times."""
        self._until_ns: dict[str, int] = {}
        self._members: OrderedDict[str, None] = OrderedDict()
        """The one that called last is the last."""
        self._grace_until_ns = 0
        self._began_ns: int | None = None
        self._looked_ns: int | None = None
        self._worked_ns = 0
        """How long the process had worked at the last look."""

    def is_member(self, peer: str) -> None:
        """A node or coordinator has called from there."""
        self._members[peer] = None
        self._members.move_to_end(peer)
        self._until_ns.pop(peer, None)
        if len(self._members) > MEMBERS_REMEMBERED_MAX:
            self._members.popitem(last=False)

    def look(self, faults: Counter[str], now_ns: int, worked_ns: int) -> frozenset[str]:
        """Takes in the faults since the last look; answers whom it bans now. `worked_ns` is the time for which this
        process has had a processor."""
        self._began_ns = now_ns if self._began_ns is None else self._began_ns
        passed_ns = 0 if self._looked_ns is None else now_ns - self._looked_ns
        busy_ns = worked_ns - self._worked_ns
        if passed_ns > BAN_PAUSE_NS and busy_ns < passed_ns // 2:
            self._grace_until_ns = now_ns + BAN_GRACE_NS
        self._looked_ns, self._worked_ns = now_ns, worked_ns
        self._until_ns = {peer: until_ns for peer, until_ns in self._until_ns.items() if until_ns > now_ns}
        self._faults.append((now_ns, Counter(faults) if now_ns >= self._grace_until_ns else Counter()))
        while self._faults[0][0] <= now_ns - SECOND_NS:
            self._faults.popleft()
        counted = sum((of_look for _, of_look in self._faults), Counter[str]())
        return self._ban(counted, _Bounds(FAULTS_OF_ONE_MAX, FAULTS_PER_SECOND_MAX, FAULTS_OF_CROWD_MAX), now_ns)

    def shed(self, waiting: Counter[str], now_ns: int) -> frozenset[str]:
        """More calls wait than may: bans the peers with most of them, until the others have half of that. After a
        start or a pause nobody is banned: members are not known yet, or stale calls wait."""
        if self._began_ns is None or now_ns < max(self._grace_until_ns, self._began_ns + BAN_GRACE_NS):
            return frozenset()
        return self._ban(waiting, _Bounds(CALLS_OF_CLIENT_MAX, BACKLOG_CALLS_MAX // 2, BACKLOG_OF_CROWD_MAX), now_ns)

    def _ban(self, counted: Counter[str], bounds: _Bounds, now_ns: int) -> frozenset[str]:
        strangers = {peer: counted[peer] for peer in counted.keys() - self._members.keys()}
        banned = _with_most(strangers, bounds.of_one, bounds.of_all)
        crowd = {peer: has for peer, has in strangers.items() if has <= bounds.of_one}
        if sum(crowd.values()) > bounds.of_crowd:
            banned |= _with_most(crowd, bounds.of_one // CROWD_SHARE, bounds.of_all)
        for peer in banned:
            self._until_ns[peer] = now_ns + BAN_NS
            for _, of_look in self._faults:
                del of_look[peer]
        return frozenset(banned)

    def __contains__(self, peer: str) -> bool:
        """As of the last look."""
        return peer in self._until_ns

    @property
    def banned(self) -> frozenset[str]:
        """As of the last look."""
        return frozenset(self._until_ns)
