"""How many statements of each user may run or wait at a leader, and how much memory they may take.

A statement counts until it has ended, also if its client has gone. A user may hold as much as stays free for others, up
to a bound for each user. So no user takes all the room, and a user who holds little is let in.
"""

from collections import Counter

from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import StatementId
from leasehold.limits.statements import (
    STATEMENTS_RUNNING_BYTES_MAX,
    STATEMENTS_RUNNING_MAX,
    USER_STATEMENTS_RUNNING_BYTES_MAX,
    USER_STATEMENTS_RUNNING_MAX,
)


class StatementRoom:
    """The statements of one leader that have not ended: how many, and the memory of their texts and parsed forms."""

    def __init__(self) -> None:
        self._held: dict[StatementId, tuple[str | None, int]] = {}
        self._number_of: Counter[str | None] = Counter()
        self._bytes_of: Counter[str | None] = Counter()

    def check(self, user: str | None, size_bytes: int) -> None:
        """Raises `Refused` (BUSY) unless there is room for one more statement of this user. Where there are no users,
        only the room of all counts."""
        number, size = self._number_of[user] + 1, self._bytes_of[user] + size_bytes
        free = STATEMENTS_RUNNING_MAX - len(self._held) - 1
        free_bytes = STATEMENTS_RUNNING_BYTES_MAX - self._bytes_of.total() - size_bytes
        if user is None:
            is_full, is_large = free < 0, free_bytes < 0
        else:
            is_full = number > min(USER_STATEMENTS_RUNNING_MAX, free)
            is_large = size > min(USER_STATEMENTS_RUNNING_BYTES_MAX, free_bytes)
        if not is_full and not is_large:
            return
        whose = f"{len(self._held)} statements" if user is None or number == 1 else f"{number - 1} statements of {user}"
        more = "" if is_full else f", and there is no memory for one of {size_bytes} bytes"
        hint = "wait until some have ended (SHOW PROCEDURES lists them), and run fewer at the same time"
        raise Refused(f"{whose} are running or waiting{more}", code=ErrorCode.BUSY, hint=hint)

    def enter(self, statement: StatementId, user: str | None, size_bytes: int) -> None:
        """Counts a statement from now on."""
        self._held[statement] = (user, size_bytes)
        self._number_of[user] += 1
        self._bytes_of[user] += size_bytes

    def leave(self, statement: StatementId) -> None:
        """Counts a statement no more; does nothing for one that is not counted."""
        user, size_bytes = self._held.pop(statement, (None, None))
        if size_bytes is None:
            return
        self._number_of[user] -= 1
        self._bytes_of[user] -= size_bytes
        if not self._number_of[user]:
            del self._number_of[user], self._bytes_of[user]
