"""Durations as people write them: `30d`, `1h30m`, `30 days`, `INTERVAL 30 DAYS`; an integer of nanoseconds inside."""

import re
from typing import Final

from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.statements import DURATION_CHARACTERS_MAX, DURATION_NS_MAX

_UNITS_NS: Final = {
    "d": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
"""Largest first: the order in which they are written. Upper and lower case differ: in other places M is a month."""
_WEEK_NS: Final = 7 * _UNITS_NS["d"]
_WORDS_NS: Final = {
    "week": _WEEK_NS,
    "day": _UNITS_NS["d"],
    "hour": _UNITS_NS["h"],
    "minute": _UNITS_NS["m"],
    "min": _UNITS_NS["m"],
    "second": _UNITS_NS["s"],
    "sec": _UNITS_NS["s"],
    "millisecond": _UNITS_NS["ms"],
    "microsecond": _UNITS_NS["us"],
    "nanosecond": _UNITS_NS["ns"],
}
"""In any case, with or without an `s` behind."""
_NO_FIXED_LENGTH: Final = frozenset({"month", "quarter", "year"})

_INTERVAL: Final = re.compile(r"interval +", re.IGNORECASE)
_PART: Final = re.compile(r" *([0-9]+) *([A-Za-z]+) *")
_HINT: Final = "write whole numbers with units, largest first: 30d, 1h30m, 2s, 500ms, or '30 days', '1 hour 30 minutes'"


def parse_duration(text: str) -> int:
    """The nanoseconds that `text` says, 0 to `DURATION_NS_MAX`; raises `Refused` with code BAD_DURATION.

    Each unit at most once, the largest first. A day has 24 hours.
    """
    if len(text) > DURATION_CHARACTERS_MAX:
        raise _bad(f"{text[:DURATION_CHARACTERS_MAX]!r} is not a duration", _HINT)
    interval = _INTERVAL.match(text)
    at = interval.end() if interval else 0
    total_ns, last_ns = 0, 2 * _WEEK_NS
    while at < len(text) or last_ns > _WEEK_NS:
        part = _PART.match(text, at)
        unit_ns = None if part is None else _unit_ns(part[2])
        if part is None or unit_ns is None or unit_ns >= last_ns:
            raise _bad(f"{text!r} is not a duration", _HINT)
        total_ns, last_ns, at = total_ns + int(part[1]) * unit_ns, unit_ns, part.end()
    if total_ns > DURATION_NS_MAX:
        raise _bad(f"{text!r} is too long a duration", f"the longest is {render_duration(DURATION_NS_MAX)}")
    return total_ns


def _unit_ns(unit: str) -> int | None:
    """How long a unit is, None if there is none; raises `Refused` for a unit without a fixed length."""
    word = unit.lower().removesuffix("s")
    if word in _NO_FIXED_LENGTH:
        raise _bad(f"a {word} has no fixed length", "write days: 30 days, 365 days")
    return _WEEK_NS if unit == "w" else _UNITS_NS.get(unit) or _WORDS_NS.get(word)


def _bad(text: str, hint: str) -> Refused:
    return Refused(text, code=ErrorCode.BAD_DURATION, hint=hint)


def render_duration(duration_ns: int) -> str:
    """The one canonical spelling, which `parse_duration` reads: `1h30m`, and `0s` for nothing."""
    assert 0 <= duration_ns <= DURATION_NS_MAX, "durations are bounded where they come in"
    parts: list[str] = []
    rest_ns = duration_ns
    for unit, unit_ns in _UNITS_NS.items():
        count, rest_ns = divmod(rest_ns, unit_ns)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
