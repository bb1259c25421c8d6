"""The queue of password checks: who waits, whose check is next, and which names have failed of late.

A check costs tens of milliseconds of a core, so few run at once. Nobody has proved anything before the check, so the
queue is open to strangers. Four lanes keep strangers from shutting users out:

| lane | names | places to wait |
| --- | --- | --- |
| KNOWN | users from a peer from which they had a right one; new passwords | a fifth |
| USER | other users without a wrong password within WRONG_PASSWORD_RECENT_NS | two fifths |
| FAILED | other users | a fifth |
| STRANGER | no user has this name | a fifth |

| event | effect |
| --- | --- |
| `enter`, the lane has a place | the ticket waits behind the other tickets of its peer and name |
| `enter`, the lane is full | the ticket takes the place of another one, if a peer, or else a name of its own peer, holds at least two more places than its own; else it is refused as BUSY |
| `next_ticket` | the lanes take turns, and in a lane the names; of each name one check runs at a time |
| `leave` | the check has ended, or its client has given up |

A ticket that loses its place is the newest one of the name with the most places, of that peer. No name is
locked out: wrong passwords from other peers take no places in the lane of those from which a user has logged in.
"""  # noqa: E501 a row of a table is one line

import enum
from collections import Counter, OrderedDict, deque
from typing import Final, NewType

import msgspec

from leasehold.core.access.peers_of_names import PeersOfNames
from leasehold.core.backoff import Backoff
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.people import (
    PASSWORDS_AT_ONCE,
    PASSWORDS_WAITING_MAX,
    WRONG_PASSWORD_RECENT_NS,
    WRONG_PASSWORD_REST_MAX_NS,
    WRONG_PASSWORD_REST_MIN_NS,
    WRONG_PASSWORDS_KEPT,
)

NameHash = NewType("NameHash", bytes)
"""SHA-256 of a user name as a client typed it: a password typed as the name is not kept."""


class Lane(enum.Enum):
    """Which of the waiting places a name may take."""

    KNOWN = "known"
    USER = "user"
    FAILED = "failed"
    STRANGER = "stranger"


PLACES: Final = {
    Lane.KNOWN: PASSWORDS_WAITING_MAX // 5,
    Lane.USER: 2 * PASSWORDS_WAITING_MAX // 5,
    Lane.FAILED: PASSWORDS_WAITING_MAX // 5,
    Lane.STRANGER: PASSWORDS_WAITING_MAX // 5,
}
"""How many tickets of each lane may wait."""


class QueuedCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A ticket that waits, and the ticket that was displaced for it, if any."""

    ticket: int
    displaced: int | None = None


class _Asker(msgspec.Struct, frozen=True):
    """The owner of tickets that take turns with those of others."""

    peer: str
    name: NameHash


class PasswordQueue:
    """Tickets are numbers that are given once."""

    def __init__(self) -> None:
        self._lanes: OrderedDict[Lane, OrderedDict[_Asker, deque[int]]] = OrderedDict(
            (lane, OrderedDict()) for lane in Lane
        )
        """The lane that had its turn longest ago comes first; so do the askers within it."""
        self._running: dict[int, NameHash] = {}
        self._last = 0

    def enter(self, lane: Lane, peer: str, name: NameHash) -> QueuedCheck:
        """Takes a place. Raises `Refused` with code BUSY."""
        waiting, asker = self._lanes[lane], _Asker(peer, name)
        displaced = None
        if sum(map(len, waiting.values())) >= PLACES[lane]:
            displaced = self._displace(waiting, asker)
        self._last += 1
        waiting.setdefault(asker, deque()).append(self._last)
        return QueuedCheck(ticket=self._last, displaced=displaced)

    def next_ticket(self) -> int | None:
        """The ticket whose check begins now, or None."""
        if len(self._running) >= PASSWORDS_AT_ONCE:
            return None
        busy = set(self._running.values())
        for lane, waiting in self._lanes.items():
            asker = next((one for one in waiting if one.name not in busy), None)
            if asker is not None:
                tickets = waiting[asker]
                ticket = tickets.popleft()
                waiting.move_to_end(asker)
                if not tickets:
                    del waiting[asker]
                self._lanes.move_to_end(lane)
                self._running[ticket] = asker.name
                return ticket
        return None

    def leave(self, ticket: int) -> None:
        """Ends a check, or gives a place up; does nothing for a ticket that was displaced."""
        if self._running.pop(ticket, None) is not None:
            return
        for waiting in self._lanes.values():
            for asker, tickets in waiting.items():
                if ticket in tickets:
                    tickets.remove(ticket)
                    if not tickets:
                        del waiting[asker]
                    return

    @staticmethod
    def _displace(waiting: OrderedDict[_Asker, deque[int]], newcomer: _Asker) -> int:
        """Makes room in a full lane. Raises `Refused` with code BUSY."""
        places: Counter[str] = Counter()
        for asker, tickets in waiting.items():
            places[asker.peer] += len(tickets)
        peer = max(places, key=lambda one: places[one])
        if places[newcomer.peer] + 2 > places[peer]:
            peer = newcomer.peer  # it has its share: another name of it may have more than its own
        names = [asker for asker in waiting if asker.peer == peer]
        heaviest = max(names, key=lambda one: len(waiting[one]), default=newcomer)
        if peer == newcomer.peer and len(waiting.get(newcomer, ())) + 2 > len(waiting.get(heaviest, ())):
            raise too_many_passwords()
        displaced = waiting[heaviest].pop()
        if not waiting[heaviest]:
            del waiting[heaviest]
        return displaced


def too_many_passwords() -> Refused:
    return Refused("too many passwords are being checked", code=ErrorCode.BUSY, hint="try again in a moment")


_NO_REST: Final = Backoff(WRONG_PASSWORD_REST_MIN_NS, WRONG_PASSWORD_REST_MAX_NS)


class _Failed(msgspec.Struct):
    """Wrong passwords of one name."""

    in_all: int = 0
    last_ns: int = 0
    rest: Backoff = _NO_REST
    """It grows until the right one comes."""


class WrongPasswords:
    """Wrong passwords by name, of the names that failed last. Names without a user do not displace users' names."""

    def __init__(self) -> None:
        self._users: OrderedDict[NameHash, _Failed] = OrderedDict()
        self._strangers: OrderedDict[NameHash, _Failed] = OrderedDict()
        self._right = PeersOfNames[bytes]()
        """Where right passwords have come from."""

    def count(self, name: NameHash) -> int:
        """How many were tried for a user's name."""
        found = self._users.get(name)
        return 0 if found is None else found.in_all

    def lane(self, name: NameHash, peer: str, *, is_user: bool, now_ns: int) -> Lane:
        if not is_user:
            return Lane.STRANGER
        if self._right.has(name, peer):
            return Lane.KNOWN
        found = self._users.get(name)
        is_recent = found is not None and now_ns - found.last_ns < WRONG_PASSWORD_RECENT_NS
        return Lane.FAILED if is_recent else Lane.USER

    def failed(self, name: NameHash, *, is_user: bool, now_ns: int) -> int:
        """Counts a wrong password; answers for how many nanoseconds to withhold the answer."""
        known = self._users if is_user else self._strangers
        found = known.setdefault(name, _Failed())
        known.move_to_end(name)
        if len(known) > WRONG_PASSWORDS_KEPT:
            known.popitem(last=False)
        found.in_all += 1
        found.last_ns = now_ns
        found.rest = found.rest.after_failure(now_ns)
        return found.rest.pause_ns

    def succeeded(self, name: NameHash, peer: str) -> None:
        """A right password: the next wrong one counts as the first again."""
        self._right.add(name, peer)
        found = self._users.get(name)
        if found is not None:
            found.rest = _NO_REST
