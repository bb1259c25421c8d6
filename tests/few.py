"""How much `make test` tries of what has no natural end; `make soak` tries all of it."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

ALL = "all"
"""The profile of Hypothesis with every example, as in `pytest --hypothesis-profile=all`."""
FEW = "few"
_FEWER = 4


def register_profiles() -> None:
    """Registers both. A property that names no count draws as many examples as Hypothesis does, or a part of them."""
    slow = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}  # a machine may be, and fails no test
    settings.register_profile(ALL, **slow)
    settings.register_profile(FEW, max_examples=settings.get_profile(ALL).max_examples // _FEWER, **slow)
    settings.load_profile(FEW)


def examples(count: int) -> int:
    """How many examples to draw where all are `count`."""
    return count if settings.get_current_profile_name() == ALL else count // _FEWER


def few(count: int, cases: Iterable[Any]) -> list[Any]:
    """Parameters of a test: the first `count` cases, and the others as `long`."""
    return [one if place < count else pytest.param(one, marks=pytest.mark.long) for place, one in enumerate(cases)]
