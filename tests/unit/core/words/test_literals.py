"""Literals: exactly the values of each type, in one spelling, which SQL reads back; against Python's own arithmetic."""

import datetime
import decimal
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.words.literals import civil_from_days, days_from_civil, fit, render
from leasehold.core.words.statements import Literal
from leasehold.errors import Refused

EPOCH = datetime.date(1970, 1, 1)
START = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
LONG = "x" * 1_024


def number(text):
    return Literal("number", text)


def string(text):
    return Literal("string", text)


FITTING = [
    ("BOOLEAN", Literal("boolean", "TRUE"), "true", "TRUE"),
    ("BOOLEAN", Literal("boolean", "false"), "false", "FALSE"),
    ("TINYINT", number("127"), "127", "127"),
    ("TINYINT", number("-128"), "-128", "-128"),
    ("SMALLINT", number("-32768"), "-32768", "-32768"),
    ("INT", number("+007"), "7", "7"),
    ("INT", number("-0"), "0", "0"),
    ("INT", number("2147483647"), "2147483647", "2147483647"),
    ("BIGINT", number("-9223372036854775808"), "-9223372036854775808", "-9223372036854775808"),
    ("DOUBLE", number("1"), "1.0", "1.0"),
    ("DOUBLE", number(".5"), "0.5", "0.5"),
    ("DOUBLE", number("1.e2"), "100.0", "100.0"),
    ("DOUBLE", number("-1E-400"), "-0.0", "-0.0"),
    ("DOUBLE", number("0.1"), "0.1", "0.1"),
    ("FLOAT", number("0.1"), "0.10000000149011612", "0.10000000149011612"),
    ("FLOAT", number("16777217"), "16777216.0", "16777216.0"),
    ("DECIMAL(5,2)", number("1.5"), "1.50", "1.50"),
    ("DECIMAL(5,2)", number("-999.99"), "-999.99", "-999.99"),
    ("DECIMAL(5,2)", number("-0.00"), "0.00", "0.00"),
    ("DECIMAL(5,2)", number("1.500000"), "1.50", "1.50"),
    ("DECIMAL(5,2)", number("0e9999"), "0.00", "0.00"),
    ("DECIMAL(5,0)", number("12e3"), "12000", "12000"),
    ("DECIMAL(38,0)", number("9" * 38), "9" * 38, "9" * 38),
    ("DECIMAL(38,38)", number("-." + "9" * 38), "-0." + "9" * 38, "-0." + "9" * 38),
    ("STRING", string(""), "", "''"),
    ("STRING", string("it's \\ é"), "it's \\ é", "'it\\'s \\\\ é'"),
    ("STRING", string(LONG), LONG, f"'{LONG}'"),
    ("BINARY", Literal("binary", "0aFF"), "0aff", "X'0AFF'"),
    ("BINARY", Literal("binary", ""), "", "X''"),
    ("BINARY", Literal("binary", "00" * 1_024), "00" * 1_024, f"X'{'00' * 1_024}'"),
    ("DATE", Literal("date", "1970-01-01"), "0", "DATE '1970-01-01'"),
    ("DATE", string("2026-01-31"), "20484", "DATE '2026-01-31'"),
    ("DATE", string("2000-02-29"), "11016", "DATE '2000-02-29'"),
    ("DATE", string("0001-01-01"), "-719162", "DATE '0001-01-01'"),
    ("DATE", string("9999-12-31"), "2932896", "DATE '9999-12-31'"),
    ("TIMESTAMP", string("1970-01-01"), "0", "TIMESTAMP '1970-01-01 00:00:00Z'"),
    ("TIMESTAMP", Literal("date", "1970-01-02"), "86400000000", "TIMESTAMP '1970-01-02 00:00:00Z'"),
    ("TIMESTAMP", string("1970-01-01T00:01"), "60000000", "TIMESTAMP '1970-01-01 00:01:00Z'"),
    ("TIMESTAMP", string("2026-01-31T10:00:00Z"), "1769853600000000", "TIMESTAMP '2026-01-31 10:00:00Z'"),
    ("TIMESTAMP", string("2026-01-31 10:00:00 UTC"), "1769853600000000", "TIMESTAMP '2026-01-31 10:00:00Z'"),
    ("TIMESTAMP", string("1970-01-01 01:00:00+01:00"), "0", "TIMESTAMP '1970-01-01 00:00:00Z'"),
    ("TIMESTAMP", string("1969-12-31 18:30:00 -05:30"), "0", "TIMESTAMP '1970-01-01 00:00:00Z'"),
    ("TIMESTAMP", string("1969-12-31 23:59:59.999999"), "-1", "TIMESTAMP '1969-12-31 23:59:59.999999Z'"),
    ("TIMESTAMP", string("1970-01-01 00:00:00.5"), "500000", "TIMESTAMP '1970-01-01 00:00:00.5Z'"),
]


@pytest.mark.parametrize(("type_text", "literal", "text", "sql"), FITTING)
def test_what_fits(type_text, literal, text, sql):
    assert fit(literal, type_text, column="c") == text
    assert render(text, type_text) == sql


@pytest.mark.parametrize("type_text", sorted({one[0] for one in FITTING}))
def test_null_fits_every_type(type_text):
    assert fit(Literal("null", ""), type_text, column="c") is None
    assert render(None, type_text) == "NULL"


@pytest.mark.parametrize(
    ("type_text", "literal"),
    [
        ("BOOLEAN", string("true")),
        ("BOOLEAN", number("1")),
        ("TINYINT", number("128")),
        ("SMALLINT", number("-32769")),
        ("INT", number("2147483648")),
        ("INT", number("1.0")),
        ("INT", number("1e2")),
        ("INT", number("٣")),
        ("INT", number("1_0")),
        ("INT", number("")),
        ("INT", string("1")),
        ("INT", Literal("boolean", "true")),
        ("BIGINT", number("9" * 40)),
        ("BIGINT", number("9" * 100_000)),
        ("DOUBLE", number("1e999")),
        ("DOUBLE", number("nan")),
        ("DOUBLE", number("inf")),
        ("DOUBLE", number(".")),
        ("DOUBLE", string("1")),
        ("FLOAT", number("1e39")),
        ("DECIMAL(5,2)", number("1000")),
        ("DECIMAL(5,2)", number("999.995")),
        ("DECIMAL(5,2)", number("0.001")),
        ("DECIMAL(5,2)", number("1e9999")),
        ("DECIMAL(5,2)", number("1e-9999")),
        ("DECIMAL(5,2)", string("1")),
        ("DECIMAL(38,0)", number("1" + "0" * 38)),
        ("DECIMAL(38,38)", number("1")),
        ("STRING", number("1")),
        ("STRING", string(LONG + "x")),
        ("STRING", string("\ud800")),
        ("BINARY", string("00")),
        ("BINARY", Literal("binary", "0")),
        ("BINARY", Literal("binary", "0g")),
        ("BINARY", Literal("binary", "00" * 1_025)),
        ("DATE", string("2026-02-29")),
        ("DATE", string("1900-02-29")),
        ("DATE", string("2026-13-01")),
        ("DATE", string("2026-00-01")),
        ("DATE", string("2026-04-31")),
        ("DATE", string("2026-01-00")),
        ("DATE", string("0000-01-01")),
        ("DATE", string("10000-01-01")),
        ("DATE", string("2026-1-1")),
        ("DATE", string("2026-01-01\n")),
        ("DATE", string("2026-01-31 10:00:00")),
        ("DATE", Literal("timestamp", "2026-01-31")),
        ("DATE", number("1")),
        ("TIMESTAMP", string("2026-01-31 24:00:00")),
        ("TIMESTAMP", string("2026-01-31 10:60:00")),
        ("TIMESTAMP", string("2026-01-31 10:00:60")),
        ("TIMESTAMP", string("2026-01-31 10")),
        ("TIMESTAMP", string("2026-01-31 10:00:00.1234567")),
        ("TIMESTAMP", string("2026-01-31 10:00:00+19:00")),
        ("TIMESTAMP", string("2026-01-31 10:00:00+01:60")),
        ("TIMESTAMP", string("2026-01-31 10:00:00 CET")),
        ("TIMESTAMP", string("2026-02-30 10:00:00")),
        ("TIMESTAMP", string("0001-01-01 00:00:00+00:01")),
        ("TIMESTAMP", string("9999-12-31 23:59:59-00:01")),
        ("TIMESTAMP", number("1")),
    ],
)
def test_what_does_not_fit(type_text, literal):
    with pytest.raises(Refused, match=r"column c|no value") as caught:
        fit(literal, type_text, column="c")
    assert caught.value.code == "BAD_VALUE"
    assert caught.value.hint
    assert len(caught.value.text) < 300


DATES = st.dates()
OFFSETS = st.integers(-18 * 60, 18 * 60)


@given(DATES)
def test_days_are_those_of_the_calendar(date):
    days = (date - EPOCH).days
    assert days_from_civil(date.year, date.month, date.day) == days
    assert civil_from_days(days) == (date.year, date.month, date.day)
    assert fit(string(date.isoformat()), "DATE", column="c") == str(days)


@given(st.datetimes(), OFFSETS)
def test_instants_are_those_of_the_calendar(instant, offset):
    local = instant.replace(tzinfo=datetime.timezone(datetime.timedelta(minutes=offset)))
    expected = (local - START) // datetime.timedelta(microseconds=1)
    first = (datetime.datetime.min.replace(tzinfo=datetime.UTC) - START) // datetime.timedelta(microseconds=1)
    last = (datetime.datetime.max.replace(tzinfo=datetime.UTC) - START) // datetime.timedelta(microseconds=1)
    literal = string(local.isoformat())
    if not first <= expected <= last:
        with pytest.raises(Refused):
            fit(literal, "TIMESTAMP", column="c")
        return
    text = fit(literal, "TIMESTAMP", column="c")
    assert text == str(expected)
    shown = render(text, "TIMESTAMP").removeprefix("TIMESTAMP '").removesuffix("'")
    assert fit(Literal("timestamp", shown), "TIMESTAMP", column="c") == text
    assert datetime.datetime.fromisoformat(shown) == local


@given(st.decimals(allow_nan=False, allow_infinity=False), st.integers(1, 38), st.integers(0, 38))
def test_decimals_are_exact(value, precision, scale):
    scale = min(scale, precision)
    digits = decimal.Context(prec=1_000)
    scaled = digits.scaleb(value, scale) if abs(value.adjusted()) < 500 else None
    fits = scaled is not None and scaled == scaled.to_integral_value() and abs(int(scaled)) < 10**precision
    literal = number(str(value).lower())
    if not fits and value != 0:
        with pytest.raises(Refused):
            fit(literal, f"DECIMAL({precision},{scale})", column="c")
        return
    text = fit(literal, f"DECIMAL({precision},{scale})", column="c")
    assert decimal.Decimal(text) == value
    assert len(text.partition(".")[2]) == scale
    assert fit(number(text), f"DECIMAL({precision},{scale})", column="c") == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_is_kept_exactly_and_a_float_as_it_will_be_stored(value):
    text = fit(number(repr(value)), "DOUBLE", column="c")
    assert float(text) == value
    try:
        (stored,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        with pytest.raises(Refused):
            fit(number(repr(value)), "FLOAT", column="c")
        return
    text = fit(number(repr(value)), "FLOAT", column="c")
    assert float(text) == stored
    assert fit(number(text), "FLOAT", column="c") == text
    assert fit(number(text), "DOUBLE", column="c") == text, "widened, it is the same value"


@given(st.sampled_from(["TINYINT", "SMALLINT", "INT", "BIGINT"]), st.integers(-(2**70), 2**70))
def test_whole_numbers_within_the_range_of_their_type(type_text, value):
    bits = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}[type_text]
    if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        assert fit(number(str(value)), type_text, column="c") == str(value)
    else:
        with pytest.raises(Refused):
            fit(number(str(value)), type_text, column="c")


@given(st.sampled_from(sorted({one[0] for one in FITTING})), st.text(max_size=40))
def test_nonsense_is_refused_and_never_breaks_anything(type_text, text):
    for kind in ("string", "number", "boolean", "date", "timestamp", "binary"):
        try:
            fitted = fit(Literal(kind, text), type_text, column="c")
        except Refused as error:
            assert error.code == "BAD_VALUE"
        else:
            assert render(fitted, type_text)
