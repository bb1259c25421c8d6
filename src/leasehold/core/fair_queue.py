"""Turns of users at one resource: at most two of each user wait, and users take turns.

| event | effect |
| --- | --- |
| `enter` | the ticket waits behind the other tickets of its user; refused as BUSY if two of them wait |
| `next_ticket` | the first ticket of the user whose turn it is; that user is last from then on |
| `leave` | a ticket that waits no more |

Users without a waiting ticket are not remembered, so memory is bounded by the tickets.
"""

from collections import OrderedDict, deque

from leasehold.errors import Refused
from leasehold.limits import PARSES_PER_USER_MAX, PARSES_WAITING_MAX


class FairQueue:
    """Tickets are numbers that are given once."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[int]] = OrderedDict()
        self._last = 0

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def enter(self, user: str) -> int:
        """A ticket that waits. Raises `Refused` with code BUSY."""
        mine = self._waiting.get(user, ())
        if len(mine) >= PARSES_PER_USER_MAX or len(self) >= PARSES_WAITING_MAX:
            text = f"{len(mine)} large statements of this user wait to be read"
            raise Refused(text, code="BUSY", hint="try again in some seconds")
        self._last += 1
        self._waiting.setdefault(user, deque()).append(self._last)
        return self._last

    def next_ticket(self) -> int | None:
        """Whose turn it is, taken out of the queue; None if nobody waits."""
        if not self._waiting:
            return None
        user, tickets = self._waiting.popitem(last=False)
        ticket = tickets.popleft()
        if tickets:
            self._waiting[user] = tickets
        return ticket

    def leave(self, ticket: int) -> None:
        """Gives a place up; does nothing for a ticket that had its turn."""
        for user, tickets in self._waiting.items():
            if ticket in tickets:
                tickets.remove(ticket)
                if not tickets:
                    del self._waiting[user]
                return
