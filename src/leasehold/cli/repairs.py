"""How far the copies of a cluster are, from SHOW REPAIRS: in a line, and as JSON."""

from typing import Any

from leasehold.client.coordinators import Coordinators
from leasehold.core.questions.repairs import COPIES
from leasehold.core.words.durations import render_duration
from leasehold.core.words.messages import Rows
from leasehold.limits.units import SECOND_NS

Repairs = list[dict[str, Any]]
"""The rows of SHOW REPAIRS."""


def ask_repairs(cluster: Coordinators) -> Repairs:
    answer = cluster.sql("SHOW REPAIRS")
    assert isinstance(answer, Rows), "SHOW answers rows"
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def copies_left(repairs: Repairs) -> str:
    """What is left to copy, how fast that goes, and how long it takes as of now; empty if nothing is copied."""
    copying = [one for one in repairs if one["work"] == COPIES]
    if not copying:
        return ""
    rates = [one["bytes_per_s"] or 0 for one in copying]
    line = f"{sum(one['bytes'] for one in copying) / 2**20:.1f} MiB to copy"
    if all(rates):
        seconds = max(one["seconds_left"] for one in copying)
        line += f" at {sum(rates) / 2**20:.1f} MiB/s, about {render_duration(seconds * SECOND_NS)} left"
    return line
