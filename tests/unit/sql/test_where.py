"""What can be written as `where` of a scan."""

import pytest

from leasehold.core.words.messages import Filter
from leasehold.core.words.statements import Literal
from leasehold.errors import BadStatement, LeaseholdError
from leasehold.limits.statements import FILTERS_MAX
from leasehold.sql.where import read_where


def one(column, operator, *values):
    return Filter(column=column, operator=operator, values=tuple(values))


def number(text):
    return Literal("number", text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a = 1", [one("a", "=", number("1"))]),
        ("a < -1.5 AND b >= 'x'", [one("a", "<", number("-1.5")), one("b", ">=", Literal("string", "x"))]),
        ("day = DATE '2013-06-15'", [one("day", "=", Literal("date", "2013-06-15"))]),
        ("a BETWEEN 1 AND 2", [one("a", ">=", number("1")), one("a", "<=", number("2"))]),
        ("a in (1, 2)", [one("a", "IN", number("1"), number("2"))]),
        ("a = 1 OR A in (2, 3) or a = 4", [one("a", "IN", *map(number, "1234"))]),
        ("(a = 1 OR a = 2) AND b = 3", [one("a", "IN", number("1"), number("2")), one("b", "=", number("3"))]),
        ("b = 3 and (a = 1)", [one("b", "=", number("3")), one("a", "=", number("1"))]),
        ("a IS NULL and b is not null", [one("a", "IS NULL"), one("b", "IS NOT NULL")]),
        ("a LIKE 'JF%'", [one("a", "STARTS WITH", Literal("string", "JF"))]),
        (r"a LIKE '50\\%\\_%'", [one("a", "STARTS WITH", Literal("string", "50%_"))]),
        ("`order` = TRUE", [one("order", "=", Literal("boolean", "true"))]),
        ("`in` IN ('in')", [one("in", "IN", Literal("string", "in"))]),
    ],
)
def test_conditions_joined_by_and(text, found):
    assert read_where(text) == tuple(found)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a = b",
        "a = 1 OR b = 2",
        "a = 1 OR a = 2 AND b = 3",
        "b = 3 AND a = 1 OR a = 2",
        "a = 1 OR a > 2",
        "a = 1 OR a IS NULL",
        "a BETWEEN 1 AND 2 OR a = 3",
        "(a = 1 OR a = 2",
        "a = 1)",
        "((a = 1))",
        "(a = 1) OR a = 2 AND b = 3",
        "()",
        "a = 1 OR",
        "a + 1 = 2",
        "NOT a = 1",
        "a <> 1",
        "upper(a) = 'X'",
        "a IN ()",
        "a IN (SELECT 1)",
        "a IS 1",
        "a LIKE 'JF'",
        "a LIKE '%JF'",
        "a LIKE 'J_F%'",
        r"a LIKE 'J\\'",
        "a = 1; b = 2",
        "a = 1 AND",
    ],
)
def test_anything_else_is_refused_with_what_can_be_written(text):
    with pytest.raises(BadStatement) as caught:
        read_where(text)
    assert "LIKE 'start%'" in caught.value.hint


@pytest.mark.parametrize("text", ["a = NULL", "a IN (1, NULL)", "a.b = 1", "a = 'x' 'y'"])
def test_other_refusals(text):
    with pytest.raises(LeaseholdError):
        read_where(text)


def test_no_more_conditions_are_read_than_a_scan_may_have():
    assert len(read_where(" AND ".join(["a = 1"] * FILTERS_MAX))) == FILTERS_MAX
    with pytest.raises(LeaseholdError) as caught:
        read_where(" AND ".join(["a BETWEEN 1 AND 2"] * FILTERS_MAX + ["not a condition"]))
    assert caught.value.code == "TOO_MANY_CONDITIONS"
