"""The progress of repairs in `status` and `node wait`: shown to those who may see it, and left out for others."""

import json
from collections.abc import Iterator

import pytest
from tests.unit.cli.test_status import STATUS
from tests.unit.cli.test_tables import copying

from leasehold.cli.output import Output
from leasehold.cli.repairs import repairs_if_told
from leasehold.cli.status import show_status
from leasehold.cli.wait import CopiesLeft
from leasehold.client.coordinators import Coordinators
from leasehold.core.questions.repairs import COLUMNS
from leasehold.core.words.messages import Rows
from leasehold.errors import BadSettings, Unauthenticated, Unreachable
from leasehold.ids import Revision
from leasehold.limits.processes import REPAIRS_ASKED_NS
from leasehold.limits.units import SECOND_NS

COPYING = copying("a", 30 << 20, 10 << 20, 3)
ANSWER = Rows(columns=COLUMNS, rows=(tuple(COPYING.values()),), revision=Revision(9))  # pyright: ignore[reportArgumentType]
WORDS = "30.0 MiB to copy at 10.0 MiB/s, about 3s left"


class Answering(Coordinators):
    """Gives one answer after the other, or raises it, to whatever is asked."""

    def __init__(self, *answers: Rows | Exception) -> None:
        self.answers: Iterator[Rows | Exception] = iter(answers)

    def within(self, timeout: float | None) -> "Answering":
        assert timeout == REPAIRS_ASKED_NS / SECOND_NS, "a command does not wait for its progress"
        return self

    def sql(self, *_: object, **__: object) -> Rows:
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize("error", [Unauthenticated("who?"), BadSettings("no password", hint="h"), Unreachable("away")])
def test_who_may_not_see_repairs_is_told_the_rest(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    repairs = repairs_if_told(Answering(error))
    assert repairs is None
    show_status(STATUS, Output.TABLE, (), repairs)
    assert "under way" not in capsys.readouterr().out
    show_status(STATUS, Output.JSON, (), repairs)
    assert json.loads(capsys.readouterr().out)["repairs"] is None


def test_status_shows_what_is_copied(capsys: pytest.CaptureFixture[str]) -> None:
    repairs = repairs_if_told(Answering(ANSWER))
    show_status(STATUS, Output.TABLE, (), repairs)
    assert f"under way: {WORDS}" in capsys.readouterr().out
    show_status(STATUS, Output.JSON, (), repairs)
    assert json.loads(capsys.readouterr().out)["repairs"] == [COPYING]
    show_status(STATUS, Output.TABLE, (), [])
    assert "under way" not in capsys.readouterr().out


def test_a_wait_shows_what_is_copied_and_asks_no_more_where_it_is_not_told() -> None:
    copies = CopiesLeft(Answering(ANSWER, Unauthenticated("who?"), ANSWER))
    assert [copies.words() for _ in range(3)] == [WORDS, "", ""]
