"""How far the copies of a cluster are, from SHOW REPAIRS: in a line, and as JSON."""

from leasehold.cli.questions import NamedRows, ask
from leasehold.client.coordinators import Coordinators
from leasehold.core.questions.repairs import COPIES
from leasehold.core.words.durations import render_duration
from leasehold.errors import LeaseholdError
from leasehold.limits.processes import REPAIRS_ASKED_NS
from leasehold.limits.units import SECOND_NS


def ask_repairs(cluster: Coordinators) -> NamedRows:
    return ask(cluster, "SHOW REPAIRS")


def repairs_if_told(cluster: Coordinators) -> NamedRows | None:
    """None where this client is not told: the cluster has users and it is none of them, or no answer comes soon."""
    try:
        return ask_repairs(cluster.within(REPAIRS_ASKED_NS / SECOND_NS))
    except LeaseholdError:
        return None


def with_copies_left(words: str, cluster: Coordinators) -> str:
    """A line of progress, with what is left to copy if something is copied."""
    left = copies_left(ask_repairs(cluster))
    return f"{words}, {left}" if left else words


def copies_left(repairs: NamedRows) -> str:
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
