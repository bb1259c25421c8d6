"""Rows of every type with their extremes, for a table of the tests of the connector."""

import datetime as dt
from decimal import Decimal

from pyspark.sql import Row

EVERY_TYPE = """
    id BIGINT NOT NULL, yes BOOLEAN, tiny TINYINT, small SMALLINT, number INT, single FLOAT, real DOUBLE,
    tag STRING, raw BINARY, day DATE, at TIMESTAMP, price DECIMAL(10,2), wide DECIMAL(38,18)
"""
UTC = dt.UTC


def rows() -> list[Row]:
    full = [
        (0, True, -128, -32768, -(2**31), 1.5, 0.1, "ä 漢 🙂", b"\x00\xff", dt.date(1, 1, 1)),
        (1, False, 127, 32767, 2**31 - 1, float("inf"), -0.0, "", b"", dt.date(9999, 12, 31)),
        (2, True, 0, 0, 0, -3.25, 1e-300, "x" * 5_000, b"y" * 5_000, dt.date(1970, 1, 1)),
    ]
    instants = [
        (dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), Decimal("-99999999.99"), Decimal("1e-18")),
        (
            dt.datetime(2026, 7, 1, 12, 30, 0, 123_456, UTC),
            Decimal("0.01"),
            Decimal("-99999999999999999999.999999999999999999"),
        ),
        (dt.datetime(9999, 12, 31, 0, 0, 0, 0, UTC), Decimal("0.00"), Decimal("0E-18")),
    ]
    known = [Row(*left, *right) for left, right in zip(full, instants, strict=True)]
    return known + [Row(number, *([None] * 12)) for number in range(3, 40)]
