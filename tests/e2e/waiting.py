"""Waiting for what a real cluster does in its own time."""

import os
from collections.abc import Callable
from pathlib import Path

from leasehold.client.cluster import Cluster
from leasehold.limits.units import SECOND_NS
from leasehold.wire.clock import BoottimeClock, sleep_ns


def wait_until(holds: Callable[[], bool], *, seconds: int = 60) -> None:
    clock = BoottimeClock()
    deadline_ns = clock.now_ns() + seconds * SECOND_NS
    while not holds():
        assert clock.now_ns() < deadline_ns, "what was waited for did not come"
        sleep_ns(20_000_000)


def files_below(directory: Path, ending: str = "") -> list[Path]:
    """Also while some of them are deleted, with their folders."""
    return [Path(folder, name) for folder, _, names in os.walk(directory) for name in names if name.endswith(ending)]


def wait_until_whole(cluster: Cluster) -> None:
    """Until each segment has all its copies: a write on a slow machine leaves nodes out, which fetch theirs later."""
    wait_until(lambda: cluster.status().segments_short == 0)
