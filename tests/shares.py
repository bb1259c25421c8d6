"""Which of the tests that take long `make test` runs: a third of them, so that it takes some twelve minutes on two cores.

The text in LEASEHOLD_SHARE chooses it. `make test` gives the commit, so a commit always has the same third, and a few
commits have all. Without it all tests run: by `make test-all`, and by hand.
"""

import os
import zlib
from pathlib import Path
from typing import Final

import pytest

VARIABLE: Final = "LEASEHOLD_SHARE"
SHARES: Final = 3
SHARED: Final = tuple(Path(__file__).parent / one for one in ("attacks", "e2e", "netns", "sim"))
"""Folders with tests of processes, of Spark, and of whole simulated clusters."""


def chosen(text: str) -> int:
    """Which share it is, from 1 on."""
    return 1 + zlib.crc32(text.encode()) % SHARES


def described() -> str:
    """For people."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return ""
    return f"share {chosen(text)} of {SHARES} of the tests that take long; `make test-all` runs all of them\n"


def left_out(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests of other shares."""
    text = os.environ.get(VARIABLE, "")
    return [one for one in items if text and _is_shared(one) and chosen(one.nodeid) != chosen(text)]


def _is_shared(item: pytest.Item) -> bool:
    return any(item.path.is_relative_to(one) for one in SHARED)
