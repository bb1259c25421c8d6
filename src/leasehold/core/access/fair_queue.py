"""Turns of users at one resource: few of each user wait, two however large they are, and users take turns.

| event | effect |
| --- | --- |
| `enter` | the ticket waits behind the others of its user; BUSY if two wait, and all are large together |
| `next_ticket` | the first ticket of the user whose turn it is; that user is last from then on |
| `leave` | a ticket that waits no more |

Users without a waiting ticket are not remembered, so memory is bounded by the tickets.
"""

from collections import OrderedDict, deque

from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.statements import (
    PARSE_COUNTED_CHARACTERS,
    PARSE_INLINE_CHARACTERS,
    PARSES_PER_USER_MAX,
    PARSES_WAITING_MAX,
)


class FairQueue:
    """Tickets are numbers that are given once."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[int]] = OrderedDict()
        self._characters: dict[int, int] = {}
        """Of each ticket that waits."""
        self._last = 0

    def __len__(self) -> int:
        return len(self._characters)

    def enter(self, user: str, characters: int) -> int:
        """A ticket for a text of `characters`. Raises `Refused` with code BUSY."""
        mine = self._waiting.get(user, ())
        counted = max(characters, PARSE_COUNTED_CHARACTERS)
        whole = counted + sum(self._characters[one] for one in mine)
        is_too_much = len(mine) >= PARSES_PER_USER_MAX and whole > PARSE_INLINE_CHARACTERS
        if is_too_much or len(self) >= PARSES_WAITING_MAX:
            text = f"{len(mine)} statements of this user already wait"
            raise Refused(text, code=ErrorCode.BUSY, hint="try again in a few seconds")
        self._last += 1
        self._waiting.setdefault(user, deque()).append(self._last)
        self._characters[self._last] = counted
        return self._last

    def next_ticket(self) -> int | None:
        """The next ticket, taken out of the queue; None if none waits."""
        if not self._waiting:
            return None
        user, tickets = self._waiting.popitem(last=False)
        ticket = tickets.popleft()
        del self._characters[ticket]
        if tickets:
            self._waiting[user] = tickets
        return ticket

    def leave(self, ticket: int) -> None:
        """Gives a place up; does nothing for a ticket that had its turn."""
        for user, tickets in self._waiting.items():
            if ticket in tickets:
                tickets.remove(ticket)
                del self._characters[ticket]
                if not tickets:
                    del self._waiting[user]
                return
