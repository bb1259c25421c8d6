"""Clusters of real processes, one per test: faults leave nothing behind for the next. Starting one costs seconds, so
what one node shows is shown with one."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.local import process
from tests.e2e.cluster import RunningCluster
from tests.e2e.node_directories import make_tables
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


@pytest.fixture(scope="session")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster of two nodes with tables, that does not run any more."""
    with RunningCluster.start(tmp_path_factory.mktemp("stopped") / "cluster", nodes=2) as cluster:
        with cluster.connect() as connected:
            make_tables(connected)
        cluster.stop()  # in order: a vault follows the view, and a kill may leave it some revisions behind
        return cluster.directory


@pytest.fixture
def directory(stopped: Path, tmp_path: Path) -> Path:
    """A copy of one of the node directories of `stopped`."""
    return shutil.copytree(stopped / "node-1", tmp_path / "node-1")
