"""What a merge says of keys that several of its rows have."""

import datetime as dt
from decimal import Decimal

from leasehold.client.merge import ambiguous


def test_keys_are_shown_as_people_write_them():
    keys = {"s": "JFK", "d": dt.date(2026, 11, 27), "n": 7, "x": Decimal("1.50"), "b": b"\0"}
    shown = "s = 'JFK', d = 2026-11-27, n = 7, x = 1.50, b = b'\\x00'"
    assert ambiguous(keys).text == f"several rows to merge have the same keys: {shown}"
