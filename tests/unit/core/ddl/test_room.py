"""The room for statements that run or wait: no user takes all of it."""

from collections.abc import Mapping

import pytest

from leasehold.core.ddl.claims import VIEWS, claims
from leasehold.core.ddl.room import StatementRoom
from leasehold.core.words.records import Claim
from leasehold.core.words.statements import DropTable, TableName
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

MEBIBYTE = 1024 * 1024
NOTHING: dict[str, Claim] = {}


class Filled(StatementRoom):
    """Room that statements enter until it is refused."""

    def __init__(self) -> None:
        super().__init__()
        self.last = 0

    def add(self, user: str | None, size_bytes: int = 0, used: Mapping[str, Claim] = NOTHING) -> StatementId:
        self.check(user, size_bytes, used)
        self.last += 1
        statement = StatementId(f"{self.last:032x}")
        self.enter(statement, user, size_bytes, used)
        return statement

    def fill(self, user: str | None, size_bytes: int = 0, used: Mapping[str, Claim] = NOTHING) -> list[StatementId]:
        """The statements of this user until there is no room for another one."""
        held = list[StatementId]()
        while True:
            try:
                held.append(self.add(user, size_bytes, used))
            except Refused as error:
                assert error.code is ErrorCode.BUSY
                return held


def test_one_user_has_a_part_of_the_room() -> None:
    room = Filled()
    held = room.fill("a")
    assert len(held) == USER_STATEMENTS_RUNNING_MAX < STATEMENTS_RUNNING_MAX // 2
    with pytest.raises(Refused, match=f"{USER_STATEMENTS_RUNNING_MAX} statements of a are running or waiting$"):
        room.check("a", 0, NOTHING)
    room.check("b", 0, NOTHING)
    room.leave(held[0])
    room.check("a", 0, NOTHING)


def test_after_many_users_who_take_all_they_get_another_user_is_let_in() -> None:
    room = Filled()
    held = [len(room.fill(user)) for user in "abcdefghij"]
    assert held[:7] == [USER_STATEMENTS_RUNNING_MAX] * 7
    assert held == sorted(held, reverse=True)
    assert sum(held) < STATEMENTS_RUNNING_MAX
    room.check("k", 0, NOTHING)


def test_the_same_holds_for_memory() -> None:
    room = Filled()
    held = [len(room.fill(user, MEBIBYTE)) for user in "abc"]
    assert held[0] * MEBIBYTE == USER_STATEMENTS_RUNNING_BYTES_MAX
    assert sum(held) * MEBIBYTE < STATEMENTS_RUNNING_BYTES_MAX
    room.check("d", MEBIBYTE, NOTHING)
    with pytest.raises(Refused, match="24 statements of a are running or waiting, and there is no memory for one of 9"):
        room.check("a", 9, NOTHING)


def test_without_users_all_the_room_is_for_all() -> None:
    room = Filled()
    assert len(room.fill(None)) == STATEMENTS_RUNNING_MAX
    with pytest.raises(Refused, match=f"^{STATEMENTS_RUNNING_MAX} statements are running or waiting$"):
        room.check(None, 0, NOTHING)
    assert len(Filled().fill(None, MEBIBYTE)) * MEBIBYTE == STATEMENTS_RUNNING_BYTES_MAX


def test_what_has_left_is_not_counted() -> None:
    room = Filled()
    for statement in room.fill("a", MEBIBYTE):
        room.leave(statement)
        room.leave(statement)
    assert len(room.fill("a", MEBIBYTE)) * MEBIBYTE == USER_STATEMENTS_RUNNING_BYTES_MAX


def test_only_statements_that_entered_are_counted() -> None:
    room = Filled()
    for _ in range(2 * USER_STATEMENTS_RUNNING_MAX):
        room.check("a", MEBIBYTE, NOTHING)
    room.leave(StatementId("f" * 32))
    assert len(room.fill("a")) == USER_STATEMENTS_RUNNING_MAX


def test_a_user_has_few_statements_that_wait_for_all_views() -> None:
    room = Filled()
    table = TableName(database="d", table="t")
    used = claims(DropTable(table=table, if_exists=True, cascade=True))
    held = room.fill("a", used=used)
    assert len(held) == USER_CASCADES_MAX
    with pytest.raises(Refused, match=f"^{USER_CASCADES_MAX} statements of a with CASCADE are running or waiting$"):
        room.check("a", 0, used)
    room.check("a", 0, claims(DropTable(table=table, if_exists=True, cascade=False)))
    room.check("a", 0, {VIEWS: Claim.SHARED})
    room.check("b", 0, used)
    room.leave(held[0])
    room.check("a", 0, used)
    assert len(room.fill(None, used=used)) > USER_CASCADES_MAX, "where there are no users"
