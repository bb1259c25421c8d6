"""`compact`, a property of tables: with 'auto', nodes join its small segments by themselves."""

from collections.abc import Mapping
from typing import Final

from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused

COMPACT: Final = "compact"
AUTO: Final = "auto"


def check_compact(text: str) -> None:
    """Raises `Refused` with code BAD_PROPERTY for what is no value of the property."""
    if text != AUTO:
        raise Refused(
            f"{COMPACT!r} is {text[:40]!r}",
            code=ErrorCode.BAD_PROPERTY,
            hint=f"write {AUTO!r}, or take the property away: then `leasehold compact` does it",
        )


def is_automatic(properties: Mapping[str, str]) -> bool:
    """Whether the small segments of a table with these properties are joined by themselves."""
    return properties.get(COMPACT) == AUTO
