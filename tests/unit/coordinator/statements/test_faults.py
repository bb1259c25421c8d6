"""A fault of this program while it looks at a statement ends that statement, and not the leader."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from types import ModuleType
from typing import NoReturn

import pytest

from leasehold.coordinator.runtime import Coordinator
from leasehold.coordinator.statements import execution, procedures
from leasehold.coordinator.statements import preparation as preparing
from leasehold.core.ddl import procedure
from leasehold.core.words.messages import Execute, Message, Receipt, Rows
from leasehold.core.words.records import Outcome
from leasehold.errors import Refused
from leasehold.ids import StatementId
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from tests.scenarios.bad_words import until
from tests.unit.coordinator.office import coordinator_over

VIEW = "CREATE VIEW d.v AS SELECT 1 AS a"


def fail(*_args: object) -> NoReturn:
    raise AssertionError("not foreseen")


def under_a_leader(work: Callable[[Coordinator], Awaitable[None]]) -> None:
    """Runs `work` under one leader, over database d; raises what ended that leader."""

    async def main(_random: Random) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        storage = MemoryMetaStorage(MemoryStore())
        coordinator = await coordinator_over(storage, SimulatedClock(loop))
        running = asyncio.ensure_future(coordinator.run())
        await until(lambda: coordinator.leader)
        await run(coordinator, 1_000, "CREATE DATABASE d")
        try:
            await work(coordinator)
        finally:
            running.cancel()
            await asyncio.wait([running])
        assert running.cancelled()

    run_virtual(main, 1)


async def run(coordinator: Coordinator, number: int, text: str) -> Message:
    """The end of one statement."""
    answer: Message | None = None
    async for message in coordinator.stream(
        Execute(cluster_id=None, statement=StatementId(f"{number:032x}"), text=text)
    ):
        answer = message
    assert answer is not None
    return answer


async def refused(coordinator: Coordinator, number: int, text: str) -> Refused:
    with pytest.raises(Refused) as caught:
        await run(coordinator, number, text)
    return caught.value


@pytest.mark.parametrize(
    ("module", "name", "text"),
    [
        (execution, "parse", "DROP DATABASE d"),
        (execution, "parse", VIEW),
        (procedures, "check_statement", "DROP DATABASE d"),
        (procedures, "claims", "DROP DATABASE d"),
        (execution, "prepare", VIEW),
        (preparing, "resolve", f"EXPLAIN {VIEW}"),
        (procedure, "plan", "DROP DATABASE d"),
        (procedure, "plan", "EXPLAIN DROP DATABASE d"),
        (procedures, "explained", "EXPLAIN DROP DATABASE d"),
        (execution, "history", "SHOW HISTORY"),
    ],
    ids=lambda one: one.__name__.rpartition(".")[2] if isinstance(one, ModuleType) else one,
)
def test_what_was_not_foreseen_ends_the_statement_alone(
    module: ModuleType, name: str, text: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(coordinator: Coordinator) -> None:
        leading = coordinator.leader
        with monkeypatch.context() as patch:
            patch.setattr(module, name, fail)
            error = await refused(coordinator, 1, text)
        assert error.code == "INTERNAL"
        assert "AssertionError" in error.text
        assert [record.exc_info is not None for record in caplog.records if record.levelname == "ERROR"] == [True]
        assert coordinator.leader is leading
        # Nothing of it was written, and its objects are free.
        after = await run(coordinator, 2, VIEW)
        assert isinstance(after, Receipt)
        assert after.outcome is Outcome.COMMITTED
        shown = await run(coordinator, 3, "SHOW VIEWS")
        assert isinstance(shown, Rows)
        assert len(shown.rows) == 1

    under_a_leader(work)


def test_a_statement_that_was_refused_so_stays_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(coordinator: Coordinator) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(procedure, "plan", fail)
            await refused(coordinator, 1, VIEW)
        assert (await refused(coordinator, 1, VIEW)).code == "INTERNAL"

    under_a_leader(work)
