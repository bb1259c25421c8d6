"""How long a command waits for the processes that it has started."""

from collections.abc import Callable
from pathlib import Path

import pytest

from leasehold.errors import Refused, Unreachable
from leasehold.limits.clients import RETRY_PAUSE_NS
from leasehold.limits.processes import START_STALL_NS, START_TELL_NS
from leasehold.limits.units import SECOND_NS
from leasehold.local.patience import ProcessPatience
from leasehold.local.process import Process

HOUR_NS = 3600 * SECOND_NS


class Started(Process):
    """A process that runs, uses CPU time and writes to its log as the test says."""

    def __init__(self, name: str = "node-1") -> None:
        super().__init__(Path("there") / name)
        self.cpu = 0
        self.paused = False
        self.ended = False

    def check_runs(self) -> None:
        if self.ended:
            raise Refused(f"{self.name} ended at once: it left no log", code="DID_NOT_START", hint="")

    def used(self) -> tuple[object, int]:
        return self.cpu, 0

    def is_paused(self) -> bool:
        return self.paused


class Command:
    """Waits on a clock that only its own pauses move."""

    def __init__(self, timeout_ns: int = 100 * HOUR_NS) -> None:
        self.now = 0
        self.told: list[str] = []
        self.patience = ProcessPatience(timeout_ns, self.pause, self.told.append, lambda: self.now)

    def pause(self, duration_ns: int) -> None:
        self.now += duration_ns

    def wait(self, *processes: Process, until_ns: int, meanwhile: Callable[[], None] = lambda: None) -> None:
        while self.now < until_ns:
            meanwhile()
            self.patience.wait("node-1 to listen", processes)

    def gives_up(self, *processes: Process) -> Unreachable:
        with pytest.raises(Unreachable) as raised:
            self.wait(*processes, until_ns=200 * HOUR_NS)
        return raised.value


def test_a_process_that_makes_progress_is_waited_for() -> None:
    command, process = Command(), Started()

    def work_now_and_then() -> None:
        process.cpu = command.now // (START_STALL_NS - RETRY_PAUSE_NS)

    command.wait(process, until_ns=10 * START_STALL_NS, meanwhile=work_now_and_then)


def test_one_that_makes_none_is_given_up_by_name_with_where_to_look() -> None:
    command, stalled, busy = Command(), Started("node-1"), Started("node-2")
    command.wait(stalled, until_ns=START_STALL_NS // 2)
    stalled.cpu = 1
    began = command.now

    def work() -> None:
        busy.cpu += 1

    with pytest.raises(Unreachable) as raised:
        command.wait(stalled, busy, until_ns=HOUR_NS, meanwhile=work)
    assert command.now == began + START_STALL_NS
    assert raised.value.text == f"node-1 has done nothing for {START_STALL_NS // SECOND_NS} s"
    assert raised.value.hint == f"look into {stalled.log}"


def test_one_that_is_paused_is_given_up_with_what_to_type() -> None:
    process = Started()
    process.paused = True
    error = Command().gives_up(process)
    assert error.text == "node-1 is paused"
    assert error.hint == "`leasehold chaos resume node-1`"


def test_one_that_has_ended_is_not_waited_for() -> None:
    process = Started()
    process.ended = True
    with pytest.raises(Refused, match="node-1 ended at once"):
        Command().wait(process, until_ns=HOUR_NS)


def test_a_deadline_ends_the_wait_whatever_the_process_does() -> None:
    command = Command(START_STALL_NS // 2)
    error = command.gives_up(Started())
    assert command.now == START_STALL_NS // 2
    assert error.text == f"gave up waiting for node-1 to listen, {START_STALL_NS // 2 // SECOND_NS} s so far"
    assert error.hint == "`leasehold logs node-1` shows why, --timeout waits longer"


def test_people_are_told_now_and_then_what_is_waited_for() -> None:
    command = Command()
    command.wait(Started(), until_ns=2 * START_TELL_NS + RETRY_PAUSE_NS)
    seconds = [START_TELL_NS // SECOND_NS, 2 * START_TELL_NS // SECOND_NS]
    assert command.told == [f"waiting for node-1 to listen, {one} s so far" for one in seconds]
