"""Clusters of real processes, one per test: faults leave nothing behind for the next. Starting one costs seconds, so
what one node shows is shown with one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.local import process
from tests.e2e.cluster import RunningCluster
from tests.e2e.template import template


@pytest.fixture(scope="session", autouse=True)
def forked() -> Iterator[None]:
    """The processes of `RunningCluster` are forked from one that has imported their code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "spawn", template().spawn)
        yield


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[RunningCluster]:
    """A new cluster of three nodes."""
    with RunningCluster.start(tmp_path / "cluster") as cluster:
        yield cluster


@pytest.fixture
def single(tmp_path: Path) -> Iterator[RunningCluster]:
    """A new cluster of one node."""
    with RunningCluster.start(tmp_path / "cluster", nodes=1) as cluster:
        yield cluster
