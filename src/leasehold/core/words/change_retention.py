"""`change_retention`, a property of tables: for how long changes can be read (`core/data/changes.py`)."""

from collections.abc import Mapping
from typing import Final

from leasehold.core.words.durations import parse_duration, render_duration
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.upkeep import CHANGE_RETENTION_NS_MAX, REPLACED_KEPT_NS

CHANGE_RETENTION: Final = "change_retention"


def parse_retention(text: str) -> int:
    """The nanoseconds that a value of the property says. Raises `Refused` with code BAD_PROPERTY."""
    try:
        found_ns = parse_duration(text)
    except Refused:
        found_ns = 0
    if REPLACED_KEPT_NS <= found_ns <= CHANGE_RETENTION_NS_MAX:
        return found_ns
    least, most = render_duration(REPLACED_KEPT_NS), render_duration(CHANGE_RETENTION_NS_MAX)
    raise Refused(
        f"{CHANGE_RETENTION!r} is {text[:40]!r}",
        code=ErrorCode.BAD_PROPERTY,
        hint=f"write a duration from {least} to {most}",
    )


def retention_ns(properties: Mapping[str, str]) -> int:
    """How long segments that were replaced are kept, by the properties of their table."""
    text = properties.get(CHANGE_RETENTION)
    if text is None:
        return REPLACED_KEPT_NS
    try:
        return parse_retention(text)
    except Refused:  # of an older version, where the word meant nothing
        return REPLACED_KEPT_NS
