"""Figures and the tables that hold them: medians, spreads and ratios, never a single best run."""

import time
from collections.abc import Callable, Sequence

import msgspec


class Figure(msgspec.Struct, kw_only=True):
    """One line of the report; `aim` says what we want and `holds` whether this run met it."""

    what: str
    value: str
    peer: str = ""
    ratio: str = ""
    aim: str = ""
    holds: bool | None = None


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Figures under one title."""

    title: str
    figures: list[Figure]


def quantile(samples: Sequence[float], share: float) -> float:
    """The sample at `share` of the way through, of a sorted copy."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median(samples: Sequence[float]) -> float:
    return quantile(samples, 0.5)


def spread(samples: Sequence[float], unit: str, digits: int = 2) -> str:
    """Median, with the middle nine tenths of the samples behind it."""
    low, mid, high = (quantile(samples, share) for share in (0.05, 0.5, 0.95))
    return f"{mid:.{digits}f} {unit} ({low:.{digits}f} to {high:.{digits}f})"


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Pair by pair, so that a machine whose speed drifts does not matter."""
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def timed_ms(work: Callable[[], object]) -> float:
    began = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - began) / 1e6
