"""Which of the tests that take long `make test` runs: a quarter of them, so that it takes less than ten minutes on two
cores.

The text in LEASEHOLD_SHARE chooses it. `make test` gives the commit, so a commit always has the same quarter, and a few
commits have all. Without it all tests run: by `make test-all`, and by hand. A file is in one share as a whole: its
tests may tell one story.
"""

import os
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

VARIABLE: Final = "LEASEHOLD_SHARE"
SHARES: Final = 4
SHARED: Final = tuple(Path(__file__).parent / one for one in ("attacks", "e2e", "netns", "sim"))
"""Folders with tests of processes, of Spark, and of whole simulated clusters."""


def chosen() -> int | None:
    """Which share is run, from 1 on; None for all."""
    text = os.environ.get(VARIABLE, "")
    return 1 + zlib.crc32(text.encode()) % SHARES if text else None


def described() -> str:
    """For people."""
    share = chosen()
    if share is None:
        return ""
    return f"share {share} of {SHARES} of the tests that take long; `make test-all` runs all of them\n"


@cache
def shares() -> Mapping[Path, int]:
    """Of each file of SHARED: those of a folder go to the shares in turn."""
    return {
        file: 1 + number % SHARES for folder in SHARED for number, file in enumerate(sorted(folder.rglob("test_*.py")))
    }


def left_out(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests of other shares."""
    share = chosen()
    return [one for one in items if share is not None and shares().get(one.path, share) != share]
