"""Turns of users at one resource. The next turn is that of the user who has used it least. Two large statements of a
user may wait, of any size, and more only while all of them together are small.

| event | effect |
| --- | --- |
| `give_way` | BUSY if the user has too much; if all together have too much, the user with most loses a ticket |
| `enter` | the ticket waits behind others of its user, or `is_first` before them; BUSY for a third large statement |
| `next_ticket` | the first ticket of the user who has used least; of several, who has waited longest since a turn |
| `begin` | a user has a turn without a ticket, since nobody waits |
| `used` | how long a turn of a user took |
| `leave` | a ticket that waits no more |

What a user leaves unused is lost (start-time fair queueing; Goyal, Vin and Cheng, 1996), but for TURNS_IN_HAND_NS. So
one request of a user who seldom asks waits for the turn that is under way, and no longer, however much others ask for
without end. A request takes up to eleven times as many bytes in memory as on its way, so its bytes in memory count.
"""

from collections import Counter, OrderedDict, deque
from heapq import nlargest
from operator import itemgetter

from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, Refused
from leasehold.limits.requests import (
    TURNS_IN_HAND_NS,
    TURNS_REMEMBERED,
    TURNS_WAITING_BYTES_MAX,
    TURNS_WAITING_MAX,
    TURNS_WAITING_PER_USER_BYTES_MAX,
    TURNS_WAITING_PER_USER_MAX,
)
from leasehold.limits.statements import (
    PARSE_COUNTED_CHARACTERS,
    PARSES_PER_USER_CHARACTERS,
    PARSES_PER_USER_MAX,
    PARSES_WAITING_MAX,
)


class FairQueue:
    """Tickets are numbers that are given once."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[int]] = OrderedDict()
        self._characters: dict[int, int] = {}
        """Of each large statement that waits."""
        self._bytes: dict[int, int] = {}
        """Of the request of each ticket that waits."""
        self._bytes_of: Counter[str] = Counter()
        self._first: set[int] = set()
        """The tickets that come before others of their users."""
        self._used_ns: dict[str, int] = {}
        """Up to where users have used their shares."""
        self._begun_ns = 0
        """The most that a user had used when a turn of that user began."""
        self._last = 0

    def __len__(self) -> int:
        return len(self._characters)

    def give_way(self, user: str, size_bytes: int) -> int | None:
        """Takes a ticket out of the queue to make room for a request of this size in memory; None once there is room.
        It is the last ticket of the user who has most. Raises `Indefinite` with code BUSY if that is this user, or if
        this user has too much. The only request of a user may be of any size."""
        number, held = len(self._waiting.get(user, ())) + 1, self._bytes_of[user] + size_bytes
        if number > TURNS_WAITING_PER_USER_MAX or (number > 1 and held > TURNS_WAITING_PER_USER_BYTES_MAX):
            raise busy()
        if self._bytes and self._bytes_of.total() + size_bytes > TURNS_WAITING_BYTES_MAX:
            most = max(self._waiting, key=self._bytes_of.__getitem__)
            return self._last_of(most, instead=held < self._bytes_of[most])
        if len(self._bytes) >= TURNS_WAITING_MAX:
            most = max(self._waiting, key=lambda one: len(self._waiting[one]))
            return self._last_of(most, instead=number < len(self._waiting[most]))
        return None

    def _last_of(self, user: str, *, instead: bool) -> int:
        if not instead:
            raise busy()
        ticket = self._waiting[user][-1]
        self.leave(ticket)
        return ticket

    def enter(self, user: str, characters: int = 0, size_bytes: int = 0, *, is_first: bool = False) -> int:
        """A ticket for a computation: to parse a large statement of so many `characters`, or another one. Raises
        `Refused` with code BUSY."""
        if characters:
            self._check_room(user, characters)
        self._last += 1
        tickets = self._waiting.setdefault(user, deque())
        if is_first:
            tickets.insert(sum(one in self._first for one in tickets), self._last)
            self._first.add(self._last)
        else:
            tickets.append(self._last)
        self._bytes[self._last] = size_bytes
        if size_bytes:
            self._bytes_of[user] += size_bytes
        if characters:
            self._characters[self._last] = max(characters, PARSE_COUNTED_CHARACTERS)
        return self._last

    def _check_room(self, user: str, characters: int) -> None:
        mine = [self._characters[one] for one in self._waiting.get(user, ()) if one in self._characters]
        whole = max(characters, PARSE_COUNTED_CHARACTERS) + sum(mine)
        is_too_much = len(mine) >= PARSES_PER_USER_MAX and whole > PARSES_PER_USER_CHARACTERS
        if is_too_much or len(self._characters) >= PARSES_WAITING_MAX:
            text = f"{len(mine)} statements of this user already wait"
            raise Refused(text, code=ErrorCode.BUSY, hint="try again in a few seconds")

    def next_ticket(self) -> int | None:
        """The next ticket, taken out of the queue; None if none waits."""
        if not self._waiting:
            return None
        user = min(self._waiting, key=self._used_up_to_ns)
        self.begin(user)
        tickets = self._waiting.pop(user)
        ticket = tickets.popleft()
        self._forget(user, ticket)
        if tickets:
            self._waiting[user] = tickets
        return ticket

    def begin(self, user: str) -> None:
        """A turn of this user begins."""
        self._begun_ns = max(self._begun_ns, self._used_up_to_ns(user))

    def used(self, user: str, spent_ns: int) -> None:
        """A turn of this user took so long."""
        self._used_ns[user] = self._used_up_to_ns(user) + spent_ns
        if len(self._used_ns) > 2 * TURNS_REMEMBERED:
            self._used_ns = dict(nlargest(TURNS_REMEMBERED, self._used_ns.items(), key=itemgetter(1)))

    def _used_up_to_ns(self, user: str) -> int:
        return max(self._used_ns.get(user, 0), self._begun_ns - TURNS_IN_HAND_NS)

    def leave(self, ticket: int) -> None:
        """Gives a place up; does nothing for a ticket that had its turn."""
        for user, tickets in self._waiting.items():
            if ticket in tickets:
                tickets.remove(ticket)
                self._forget(user, ticket)
                if not tickets:
                    del self._waiting[user]
                return

    def _forget(self, user: str, ticket: int) -> None:
        self._characters.pop(ticket, None)
        self._first.discard(ticket)
        self._bytes_of[user] -= self._bytes.pop(ticket)
        if not self._bytes_of[user]:
            del self._bytes_of[user]


def busy() -> Indefinite:
    """Indefinite: an earlier copy of the same request may have been carried out."""
    text = "too many requests wait for their turn at the coordinator"
    return Indefinite(text, code=ErrorCode.BUSY, hint="ask again in a moment")
