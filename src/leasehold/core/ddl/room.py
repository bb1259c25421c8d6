"""How many statements of each user may run or wait at a leader, and how much memory they may take.

A statement counts until it has ended, also if its client has gone. A user may hold as much as stays free for others, up
to a bound for each user. So no user takes all the room, and a user who holds little is let in. Statements with CASCADE
use all views alone, so a user may have fewer of them.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from leasehold.core.ddl.claims import VIEWS
from leasehold.core.words.records import Claim
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import StatementId
from leasehold.limits.statements import (
    STATEMENTS_RUNNING_BYTES_MAX,
    STATEMENTS_RUNNING_MAX,
    USER_CASCADES_MAX,
    USER_STATEMENTS_RUNNING_BYTES_MAX,
    USER_STATEMENTS_RUNNING_MAX,
)


class _Held(NamedTuple):
    user: str | None
    size_bytes: int
    cascades: bool


class StatementRoom:
    """The statements of one leader that have not ended: how many, and the memory of their texts and parsed forms."""

    def __init__(self) -> None:
        self._held: dict[StatementId, _Held] = {}
        self._number_of: Counter[str | None] = Counter()
        self._bytes_of: Counter[str | None] = Counter()
        self._cascades_of: Counter[str | None] = Counter()

    def check(self, user: str | None, size_bytes: int, used: Mapping[str, Claim]) -> None:
        """Raises `Refused` (BUSY) unless there is room for one more statement of this user, which uses these objects.
        Where there are no users, only the room of all counts."""
        if _cascades(used) and user is not None and self._cascades_of[user] >= USER_CASCADES_MAX:
            raise _busy(f"{USER_CASCADES_MAX} statements of {user} with CASCADE are running or waiting")
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
        raise _busy(f"{whose} are running or waiting{more}")

    def enter(self, statement: StatementId, user: str | None, size_bytes: int, used: Mapping[str, Claim]) -> None:
        """Counts a statement from now on."""
        self._held[statement] = held = _Held(user, size_bytes, _cascades(used))
        self._number_of[user] += 1
        self._bytes_of[user] += size_bytes
        self._cascades_of[user] += held.cascades

    def leave(self, statement: StatementId) -> None:
        """Counts a statement no more; does nothing for one that is not counted."""
        held = self._held.pop(statement, None)
        if held is None:
            return
        self._number_of[held.user] -= 1
        self._bytes_of[held.user] -= held.size_bytes
        self._cascades_of[held.user] -= held.cascades
        if not self._number_of[held.user]:
            del self._number_of[held.user], self._bytes_of[held.user], self._cascades_of[held.user]


def _cascades(used: Mapping[str, Claim]) -> bool:
    return used.get(VIEWS) is Claim.EXCLUSIVE


def _busy(what: str) -> Refused:
    hint = "wait until some have ended (SHOW PROCEDURES lists them), and run fewer at the same time"
    return Refused(what, code=ErrorCode.BUSY, hint=hint)
