"""The physical topology of five real processes over UDP."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.wire import cluster_key
from tests.e2e.gossip_processes import MemberProcesses

pytestmark = pytest.mark.processes

COUNT = 5


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[MemberProcesses]:
    key_file = tmp_path / "cluster.key"
    cluster_key.generate(key_file)
    with MemberProcesses(key_file) as all_of_them:
        yield all_of_them


def test_all_see_all_and_one_that_is_killed_is_found_dead(processes: MemberProcesses) -> None:
    members = processes.start_all(COUNT)
    members[2].signal(signal.SIGKILL)
    members[2].process.wait()
    processes.until(lambda: processes.all_see("n3", "DEAD"))
    for one in members:
        if one.runs:
            states = [state for _, name, state in one.history if name == "n3"]
            assert (states[0], states[-1]) == ("ALIVE", "DEAD")
            assert {name for _, name, state in one.history if state == "DEAD"} == {"n3"}


def test_one_that_was_stopped_comes_back_by_refutation_and_blames_nobody(processes: MemberProcesses) -> None:
    members = processes.start_all(COUNT)
    members[3].signal(signal.SIGSTOP)
    processes.until(lambda: all(one.sees("n4") == "DEAD" for one in members if one.name != "n4"))
    members[3].signal(signal.SIGCONT)
    processes.until(lambda: processes.all_see("n4", "ALIVE"))
    assert "DEAD" not in {state for _, _, state in members[3].history}
    assert members[3].runs


def test_one_that_starts_anew_at_another_port_is_the_same_member(processes: MemberProcesses) -> None:
    members = processes.start_all(COUNT)
    former = members[4].address
    members[4].signal(signal.SIGKILL)
    members[4].process.wait()
    again = processes.start("n5", members[0].address)
    assert again.address != former
    others = members[:4]
    processes.until(lambda: all(one.heard["n5"] == ("ALIVE", again.address) for one in others))
    processes.until(lambda: all(again.sees(one.name) == "ALIVE" for one in others))
    assert all(set(one.heard) == {other.name for other in members if other.name != one.name} for one in others)


def test_one_that_is_told_to_end_leaves(processes: MemberProcesses) -> None:
    members = processes.start_all(3)
    members[1].signal(signal.SIGTERM)
    assert members[1].process.wait() == 0
    processes.until(lambda: processes.all_see("n2", "LEFT"))
    for one in (members[0], members[2]):
        assert [state for _, name, state in one.history if name == "n2"] == ["ALIVE", "LEFT"]
