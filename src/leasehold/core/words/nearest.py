"""The name that somebody who mistyped one may have meant.

Anybody may mistype a name, as often as there is time, so a look at all names has to cost little: of many names only
those are compared letter by letter that have most pairs of letters in common with it.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from heapq import nlargest
from itertools import islice
from typing import Final

from leasehold.limits.statements import NEAREST_CHARACTERS_MAX, NEAREST_COMPARED_MAX, NEAREST_NAMES_MAX

_SHOWN: Final = 3


def nearest(name: str, names: Iterable[str]) -> str:
    """`did you mean a, b?`, empty where no name is near; of the first NEAREST_NAMES_MAX names, in any case, by the
    first NEAREST_CHARACTERS_MAX characters."""
    asked = _begin(name)
    pairs = {asked[place : place + 2] for place in range(len(asked) - 1)}
    known = {_begin(one): one for one in islice(names, NEAREST_NAMES_MAX)}
    alike = nlargest(
        NEAREST_COMPARED_MAX, known, key=lambda one: sum(one.count(pair) for pair in pairs) / len(one or "x")
    )
    found = get_close_matches(asked, alike, n=_SHOWN)
    return f"did you mean {' or '.join(known[one] for one in found)}?" if found else ""


def _begin(name: str) -> str:
    return name[:NEAREST_CHARACTERS_MAX].lower()
