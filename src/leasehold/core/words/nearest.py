"""The name that somebody who mistyped one may have meant."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Final

from leasehold.limits.statements import IDENTIFIER_CHARACTERS_MAX, NEAREST_NAMES_MAX

_SHOWN: Final = 3


def nearest(name: str, names: Iterable[str]) -> str:
    """`did you mean a, b?`, empty where no name is near; of the first NEAREST_NAMES_MAX names, in any case."""
    known = {one.lower(): one for one in islice(names, NEAREST_NAMES_MAX)}
    found = get_close_matches(name[: 2 * IDENTIFIER_CHARACTERS_MAX].lower(), known, n=_SHOWN)
    return f"did you mean {' or '.join(known[one] for one in found)}?" if found else ""
