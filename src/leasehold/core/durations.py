"""Durations as people write them: `30d`, `1h30m`, `500ms`; always an integer of nanoseconds inside."""

import re

from leasehold.errors import Refused
from leasehold.limits import DURATION_CHARACTERS_MAX, DURATION_NS_MAX

_UNITS_NS = {
    "d": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
"""Largest first: the order in which they are written."""

_DURATION = re.compile("".join(f"(?:([0-9]+){unit})?" for unit in _UNITS_NS))
_HINT = "write whole numbers with units, largest first: 30d, 1h30m, 2s, 500ms, 10us, 1ns"


def parse_duration(text: str) -> int:
    """The nanoseconds that `text` says, 0 to `DURATION_NS_MAX`; raises `Refused` with code BAD_DURATION."""
    match = _DURATION.fullmatch(text) if 0 < len(text) <= DURATION_CHARACTERS_MAX else None
    if match is None:
        raise Refused(f"{text[:DURATION_CHARACTERS_MAX]!r} is not a duration", code="BAD_DURATION", hint=_HINT)
    counts = (int(group or 0) for group in match.groups())
    total_ns = sum(count * unit_ns for count, unit_ns in zip(counts, _UNITS_NS.values(), strict=True))
    if total_ns > DURATION_NS_MAX:
        raise Refused(
            f"{text!r} is too long a duration",
            code="BAD_DURATION",
            hint=f"the longest is {render_duration(DURATION_NS_MAX)}",
        )
    return total_ns


def render_duration(duration_ns: int) -> str:
    """The one canonical spelling, the inverse of `parse_duration`: `1h30m`, and `0s` for nothing."""
    assert 0 <= duration_ns <= DURATION_NS_MAX, "durations are bounded where they come in"
    parts: list[str] = []
    rest_ns = duration_ns
    for unit, unit_ns in _UNITS_NS.items():
        count, rest_ns = divmod(rest_ns, unit_ns)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
