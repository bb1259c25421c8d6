"""The event by which a machine hears of time."""

import msgspec


class TimePassed(msgspec.Struct, frozen=True, kw_only=True):
    """The deadline that the machine asked for may have come."""
