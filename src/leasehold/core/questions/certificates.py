"""Until when certificates hold, as people see it."""

from collections.abc import Mapping
from typing import Final

from leasehold.core.words.literals import render_instant
from leasehold.limits.certificates import CERTIFICATE_ENDING_DAYS

_DAY_S: Final = 86_400


def shown_end(ends_s: int | None) -> str | None:
    """Of a certificate that ends at this time, in seconds since 1970 UTC; None without one."""
    return render_instant(ends_s * 1_000_000) if ends_s else None


def ending(ends_s: Mapping[str, int], now_s: int) -> tuple[str, ...]:
    """A sentence about each certificate, by its owner, that ends within CERTIFICATE_ENDING_DAYS or has ended."""
    return tuple(
        f"the certificate of {owner} {_when(one_s - now_s)}, at {shown_end(one_s)}: run `leasehold ca renew`"
        for owner, one_s in sorted(ends_s.items())
        if one_s and one_s - now_s < CERTIFICATE_ENDING_DAYS * _DAY_S
    )


def _when(left_s: int) -> str:
    if left_s <= 0:
        return "has ended"
    days = left_s // _DAY_S
    return f"ends in {days} day{'' if days == 1 else 's'}" if days else "ends within a day"
