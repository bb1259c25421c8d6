"""The release of an engine, as its members tell it."""

import re
from typing import Final

_RELEASE: Final = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?![\d.])")


def parse_release(version: str) -> tuple[int, int, int] | None:
    """Its numbers, which can be compared; None for what is no release."""
    found = _RELEASE.match(version)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))
