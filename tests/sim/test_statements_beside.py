"""Statements are parsed and looked at beside all else: plans and other statements do not wait for that."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from leasehold.core.words.messages import Filter, PlanScan, Receipt, Rows, ScanPlan
from leasehold.core.words.records import Outcome
from leasehold.testing.threads import NoThreads
from tests.sim.coordinator_words import the_leader
from tests.sim.test_users import Users, simulate

T = TypeVar("T")
SCAN = PlanScan(cluster_id=None, name="db.t", columns=None, where=(Filter(column="a", operator="IS NOT NULL"),))
CREATE = "CREATE VIEW db.v AS SELECT * FROM db.t"


class Held(NoThreads):
    """The thread for statements, which computes what it is allowed to."""

    def __init__(self, users: Users) -> None:
        self.allowed = asyncio.Semaphore(0)
        self.asked = asyncio.Semaphore(0)
        leader = the_leader(users.cluster).leader
        assert leader is not None
        leader._execution._turns.long.threads = self  # type: ignore[misc]

    async def run(self, compute: Callable[[], T]) -> T:
        self.asked.release()
        await self.allowed.acquire()
        return await super().run(compute)


def test_plans_wait_for_no_statement() -> None:
    async def scenario(users: Users, group: asyncio.TaskGroup) -> None:
        held = Held(users)
        explained = group.create_task(users.sql(f"EXPLAIN {CREATE}", "root"))
        for _ in ("it is parsed", "it is looked at", "it is planned"):
            await held.asked.acquire()
            await users.ask(SCAN, ScanPlan, "root")
            assert not explained.done()
            held.allowed.release()
        assert isinstance(await explained, Rows)

    simulate(scenario)


def test_a_view_is_looked_at_while_what_it_reads_may_change() -> None:
    async def scenario(users: Users, group: asyncio.TaskGroup) -> None:
        held = Held(users)
        created = group.create_task(users.sql(CREATE, "root"))
        await held.asked.acquire()
        held.allowed.release()
        await held.asked.acquire()  # it is parsed, and looked at
        await users.sql("ALTER TABLE db.t ADD COLUMN b INT", "root")
        for _ in ("it is looked at", "and again, since the table has changed"):
            held.allowed.release()
        receipt = await created
        assert isinstance(receipt, Receipt)
        assert receipt.outcome is Outcome.COMMITTED
        shown = await users.sql("DESCRIBE db.v", "root")
        assert isinstance(shown, Rows)
        assert [row[0] for row in shown.rows] == ["a", "b"]

    simulate(scenario)


def test_a_view_is_looked_at_once_if_nothing_has_changed() -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        held = Held(users)
        for _ in ("it is parsed", "it is looked at"):
            held.allowed.release()
        await users.sql(CREATE, "root")
        assert held.asked._value == 2

    simulate(scenario)
