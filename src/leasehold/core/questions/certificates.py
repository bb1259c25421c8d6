"""Until when certificates hold, as people see it."""

from collections.abc import Mapping
from typing import Final

from leasehold.core.words.literals import render_instant
from leasehold.limits.certificates import CERTIFICATE_ENDING_DAYS

CERTIFICATE_COLUMN: Final = "certificate"
"""In which SHOW NODES and SHOW COORDINATORS say it."""
_DAY_S: Final = 86_400
_ENDING_S: Final = CERTIFICATE_ENDING_DAYS * _DAY_S


def shown_end(ends_s: int | None) -> str | None:
    """Of a certificate that ends at this time, in seconds since 1970 UTC; None without one."""
    return render_instant(ends_s * 1_000_000) if ends_s else None


def is_ending(shown: str | None, now_s: int) -> bool:
    """Whether the certificate whose end is `shown` ends within CERTIFICATE_ENDING_DAYS, or has ended."""
    # Whole seconds are shown so that text sorts as time does.
    return bool(shown) and shown < render_instant((now_s + _ENDING_S) * 1_000_000)


def ending(ends_s: Mapping[str, int], now_s: int) -> tuple[str, ...]:
    """A sentence about each certificate, by its owner, that ends within CERTIFICATE_ENDING_DAYS or has ended."""
    return tuple(
        f"the certificate of {owner} {_when(one_s - now_s)}, at {shown_end(one_s)}: run `leasehold ca renew`"
        for owner, one_s in sorted(ends_s.items())
        if one_s and one_s - now_s < _ENDING_S
    )


def _when(left_s: int) -> str:
    if left_s <= 0:
        return "has ended"
    days = left_s // _DAY_S
    return f"ends in {days} day{'' if days == 1 else 's'}" if days else "ends within a day"
