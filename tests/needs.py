"""Programs that tests need and a machine may lack."""

import os
from typing import NoReturn

import pytest

NO_SKIPS = "LEASEHOLD_NO_SKIPS"
"""Continuous integration sets it: there, what is missing fails."""


def lacking(what: str) -> NoReturn:
    """Skips the test, or fails it where nothing may be skipped."""
    if os.environ.get(NO_SKIPS):
        pytest.fail(what, pytrace=False)
    pytest.skip(what)
