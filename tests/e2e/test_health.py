"""`leasehold health`: what a health check of a container gets from the process in it."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.errors import ExitCode
from leasehold.local.process import Process
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import Ran, leasehold


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster.start(tmp_path_factory.mktemp("health") / "cluster", nodes=1, tls=True) as one:
        yield one


def health(running: RunningCluster, name: str, *words: str) -> Ran:
    return leasehold("health", str(running.directory / name), "--tls", str(running.directory / "tls" / name), *words)


@pytest.mark.parametrize(
    ("name", "process", "state"), [("node-1", "node", "ACTIVE"), ("coordinator", "coordinator", "LEADER")]
)
def test_a_process_says_how_it_is(running: RunningCluster, name: str, process: str, state: str) -> None:
    answer = health(running, name, "-o", "json")
    told = answer.json()
    assert (told["process"], told["state"]) == (process, state)
    assert f": {state}" in health(running, name).out


@pytest.mark.parametrize("name", ["node-1", "coordinator"])
def test_one_that_hangs_is_not_healthy(running: RunningCluster, name: str) -> None:
    process = Process(running.directory / name)
    process.signal(signal.SIGSTOP)
    try:
        answer = health(running, name)
    finally:
        process.signal(signal.SIGCONT)
    assert answer.code == ExitCode.UNREACHABLE, answer.out
    running.wait_until_active()


def test_a_directory_that_nobody_uses_is_no_healthy_process(tmp_path: Path) -> None:
    answer = leasehold("health", str(tmp_path))
    answer.refused(ExitCode.REFUSED, "BAD_DIRECTORY", "no process has listened for")
