"""Turns of users at one resource. Few large statements of each user wait, two however large they are.

| event | effect |
| --- | --- |
| `enter` | the ticket waits behind the others of its user; BUSY for a third large statement if all are large together |
| `next_ticket` | the first ticket of the user whose turn it is; that user is last from then on |
| `leave` | a ticket that waits no more |

Users without a waiting ticket are not remembered, so memory is bounded by the tickets. What is no large statement waits
as a call, and the calls are bounded (`limits/requests.py`).
"""

from collections import OrderedDict, deque

from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
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
        self._last = 0

    def __len__(self) -> int:
        return len(self._characters)

    def enter(self, user: str, characters: int = 0) -> int:
        """A ticket for a computation: to parse a large statement of so many `characters`, or one that any number may
        wait for. Raises `Refused` with code BUSY."""
        if characters:
            self._check_room(user, characters)
        self._last += 1
        self._waiting.setdefault(user, deque()).append(self._last)
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
        user, tickets = self._waiting.popitem(last=False)
        ticket = tickets.popleft()
        self._characters.pop(ticket, None)
        if tickets:
            self._waiting[user] = tickets
        return ticket

    def leave(self, ticket: int) -> None:
        """Gives a place up; does nothing for a ticket that had its turn."""
        for user, tickets in self._waiting.items():
            if ticket in tickets:
                tickets.remove(ticket)
                self._characters.pop(ticket, None)
                if not tickets:
                    del self._waiting[user]
                return
