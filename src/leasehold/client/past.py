"""Which past a read asks for: a revision, or the newest one that was committed by a time."""

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from leasehold.errors import BadSettings
from leasehold.ids import Revision

AsOf: TypeAlias = int | datetime

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXAMPLE = "2026-06-15T12:30:00Z"


def revision_and_time_us(as_of: object) -> tuple[Revision | None, int | None]:
    """What the request for a plan says: at most one of them. Raises `BadSettings` for a time without a time zone, and
    for what is neither a number nor a time."""
    if as_of is None:
        return None, None
    if isinstance(as_of, datetime):
        return None, (_zoned(as_of, f"as_of={as_of!r}") - _EPOCH) // timedelta(microseconds=1)
    if isinstance(as_of, int) and not isinstance(as_of, bool):
        return Revision(as_of), None
    raise BadSettings(
        f"as_of is {as_of!r}, which is neither a revision nor a datetime",
        hint=f'for a time write as_of=datetime.fromisoformat("{_EXAMPLE}")',
    )


def read_time(text: str, what: str) -> datetime:
    """A time in ISO 8601 with its zone; `what` names the setting that it is the value of. Raises `BadSettings`."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadSettings(f"{what} is {text!r}, which is no time", hint=f"write it as {_EXAMPLE}") from error
    return _zoned(found, f"{what} {text!r}")


def _zoned(time: datetime, shown: str) -> datetime:
    """Raises `BadSettings` for a time without a zone: whose it is would be guesswork."""
    if time.utcoffset() is None:
        raise BadSettings(f"{shown} has no time zone", hint=f"write it as {_EXAMPLE}, or with an offset such as +02:00")
    return time
