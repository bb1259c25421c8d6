"""Keywords and names are ASCII: what Unicode folds into an ASCII letter is not one. Numbers of any length are read."""

import pytest

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words.statements import fold
from leasehold.errors import LeaseholdError, Refused
from leasehold.sql.parse import parse
from leasehold.sql.views import resolve

DIGITS = "1" * 5_000
"""More than Python makes an integer of."""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("\u017fHOW DATABASES", "BAD_STATEMENT"),
        ("SHOW DATABA\u017fES", "BAD_STATEMENT"),
        ("DROP DATABASE \u0131F EXISTS x", "BAD_IDENTIFIER"),
        ("CREATE TABLE d.t (a \u0131NT)", "BAD_TYPE"),
        ("CREATE TABLE d.t (a INT) CLU\u017fTERED BY (a) INTO 2 BUCKETS", "BAD_STATEMENT"),
        ("CREATE VIEW d.v AS \u017fELECT a FROM d.t", "BAD_STATEMENT"),
        ("CREATE VIEW d.v AS SELECT \u017fUM(a) AS a FROM d.t", "BAD_STATEMENT"),
        ("CREATE VIEW d.v AS SELECT a FROM d.t LIMIT \u0663", "BAD_STATEMENT"),
        ("GRANT \u017fELECT ON CLUSTER TO x", "BAD_STATEMENT"),
    ],
)
def test_a_word_with_letters_outside_ascii_is_no_keyword(text: str, code: str) -> None:
    with pytest.raises(Refused) as caught:
        parse(text)
    assert caught.value.code == code


def test_text_in_quotes_is_any_text() -> None:
    parse("CREATE DATABASE d COMMENT 'größe, \u017f, \u0663'")
    parse("CREATE VIEW d.v AS SELECT a FROM d.t WHERE a = '\u017f' -- \u017f")


def test_names_from_outside_are_not_folded_into_other_names() -> None:
    assert fold("Sales") == fold("sALES")
    assert fold("\u017fales") != fold("sales")
    assert fold("\u212aey") != fold("key"), "the sign of the kelvin"


@pytest.mark.parametrize(
    "text",
    [
        f"CREATE TABLE d.t (a INT) CLUSTERED BY (a) INTO {DIGITS} BUCKETS",
        f"CREATE TABLE d.t (a INT DEFAULT {DIGITS})",
        f"CREATE TABLE d.t (a DECIMAL({DIGITS},2))",
        f"CREATE TABLE d.t (a INT) TBLPROPERTIES ('replication' = {DIGITS})",
        f"CREATE VIEW d.v AS SELECT {DIGITS} AS a",
        f"CREATE VIEW d.v AS SELECT 1 AS a LIMIT {DIGITS}",
        f"CREATE VIEW d.v AS SELECT CAST(1 AS DECIMAL({DIGITS},2)) AS a",
        f"CREATE VIEW d.v AS SELECT 1 AS a WHERE 1 BETWEEN {DIGITS} AND 1e{DIGITS}",
        f"CANCEL PROCEDURE {DIGITS}",
        f"DELETE FROM d.t WHERE a = {DIGITS}",
        f"DELETE FROM d.t WHERE a = DATE '{DIGITS}'",
        f"ALTER CLUSTER SET catch_up_difference = {DIGITS}",
        f"ALTER CLUSTER SET lease_duration = '{DIGITS}s'",
    ],
)
def test_a_number_of_thousands_of_digits_is_read_or_refused(text: str) -> None:
    try:
        statement = parse(text)
        if "VIEW" in text:
            resolve(statement, Catalog())
    except LeaseholdError as error:
        assert error.code != "INTERNAL"
