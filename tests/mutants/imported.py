"""A pytest plugin, and a check: what is imported is the patched copy and not the code it was made from."""

import os
from pathlib import Path

import leasehold
from tests.mutants.model import PACKAGE


def check() -> None:
    """Raises `RuntimeError` where the wrong package would be tested."""
    expected, found = Path(os.environ[PACKAGE]).resolve(), Path(leasehold.__file__).resolve().parent
    if found != expected:
        raise RuntimeError(f"{found} is imported, the mutant is in {expected}")


check()
