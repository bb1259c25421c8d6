"""Figures and how they are shown: medians, spreads and ratios, never a single best run."""

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import psutil
from rich.console import Console
from rich.table import Table


class Figure(msgspec.Struct, kw_only=True):
    """One line of the report; `aim` says what we want and `holds` whether this run met it."""

    what: str
    value: str
    peer: str = ""
    ratio: str = ""
    aim: str = ""
    holds: bool | None = None


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


def machine() -> str:
    """What these figures were measured on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = psutil.virtual_memory().total / 2**30
    load = os.getloadavg()[0]
    return (
        f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} "
        f"{platform.release()}, Python {platform.python_version()}; load at the end {load:.1f}"
    )


def show(title: str, figures: Sequence[Figure], results: Path | None) -> None:
    table = Table(title=title, title_justify="left", caption=machine(), caption_justify="left")
    for column in ("what", "measured: median (5 % to 95 %)", "peer", "ratio", "aim", "met"):
        table.add_column(column)
    for one in figures:
        met = "" if one.holds is None else ("yes" if one.holds else "no")
        table.add_row(one.what, one.value, one.peer, one.ratio, one.aim, met)
    Console(file=sys.stdout, width=150).print(table)
    if results is not None:
        results.mkdir(parents=True, exist_ok=True)
        name = title.split(":", maxsplit=1)[0].lower().replace(" ", "-")
        (results / f"{name}.json").write_text(json.dumps([msgspec.to_builtins(one) for one in figures], indent=1))
