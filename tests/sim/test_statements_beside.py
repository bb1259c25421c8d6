"""Statements are parsed and views resolved beside all else: plans and other statements do not wait for that."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from leasehold.core.words.messages import Execute, Filter, PlanScan, Receipt, Rows, ScanPlan
from leasehold.core.words.records import Outcome
from leasehold.errors import Forbidden, LeaseholdError, NotFound
from leasehold.ids import StatementId
from leasehold.testing.threads import NoThreads
from tests.sim.coordinator_words import the_leader
from tests.sim.test_users import Users, simulate

T = TypeVar("T")
SCAN = PlanScan(cluster_id=None, name="db.t", columns=None, where=(Filter(column="a", operator="IS NOT NULL"),))
CREATE = "CREATE VIEW db.v AS SELECT * FROM db.t"


class Held(NoThreads):
    """The thread for statements, which tells what it has computed once it is allowed to."""

    def __init__(self, users: Users) -> None:
        self.allowed = asyncio.Semaphore(0)
        self.asked = asyncio.Semaphore(0)
        self.computed = 0
        leader = the_leader(users.cluster).leader
        assert leader is not None
        leader._execution._turns.long.threads = self  # type: ignore[misc]

    async def run(self, compute: Callable[[], T]) -> T:
        computed = await super().run(compute)
        self.computed += 1
        self.asked.release()
        await self.allowed.acquire()
        return computed


def test_plans_wait_for_no_statement() -> None:
    async def scenario(users: Users, group: asyncio.TaskGroup) -> None:
        held = Held(users)
        explained = group.create_task(users.sql(f"EXPLAIN {CREATE}", "root"))
        for _ in ("it is parsed", "it is resolved", "it is planned"):
            await held.asked.acquire()
            await users.ask(SCAN, ScanPlan, "root")
            assert not explained.done()
            held.allowed.release()
        assert isinstance(await explained, Rows)

    simulate(scenario)


def created_while_its_table_changes(text: str) -> None:
    """The table gets the column b while the view is resolved."""

    async def scenario(users: Users, group: asyncio.TaskGroup) -> None:
        held = Held(users)
        created = group.create_task(users.sql(text, "root"))
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


def test_a_view_is_resolved_while_what_it_reads_may_change() -> None:
    created_while_its_table_changes(CREATE)


def test_a_view_is_refused_by_what_is_there_when_its_turn_has_come() -> None:
    """What it reads is made by a statement that came before."""
    created_while_its_table_changes("CREATE VIEW db.v AS SELECT a, b FROM db.t")


def test_a_view_is_decided_by_the_rights_that_hold_when_its_turn_has_come() -> None:
    async def scenario(users: Users, group: asyncio.TaskGroup) -> None:
        await users.sql("GRANT CREATE, SELECT ON DATABASE db TO u", "root")
        held = Held(users)
        created = group.create_task(users.refused(users.sql(CREATE, "u"), Forbidden))
        await held.asked.acquire()
        held.allowed.release()
        await held.asked.acquire()  # it is parsed, and looked at
        await users.sql("REVOKE SELECT ON DATABASE db FROM u", "root")
        held.allowed.release()
        assert "SELECT" in (await created).text
        await users.refused(users.sql("DESCRIBE db.v", "root"), NotFound)

    simulate(scenario)


def test_a_view_is_resolved_once_if_nothing_has_changed() -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        held = Held(users)
        for _ in ("it is parsed", "it is resolved"):
            held.allowed.release()
        await users.sql(CREATE, "root")
        assert held.computed == 2

    simulate(scenario)


@pytest.mark.parametrize(("text", "user"), [("SELECT b FROM db.t", "root"), ("SELECT a FROM db.t", "u")])
def test_a_view_that_is_refused_stays_refused_under_its_id(text: str, user: str) -> None:
    """A late copy of the request must not run."""

    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        await users.sql("GRANT INSERT ON TABLE db.t TO u", "root")
        asked = Execute(cluster_id=None, statement=StatementId("d" * 32), text=f"CREATE VIEW db.v AS {text}")
        first = await users.refused(users.ask(asked, Receipt, user), LeaseholdError)
        await users.sql("ALTER TABLE db.t ADD COLUMN b INT", "root")
        await users.sql("GRANT CREATE, SELECT ON DATABASE db TO u", "root")
        again = await users.refused(users.ask(asked, Receipt, user), LeaseholdError)
        assert (again.code, again.text) == (first.code, first.text)

    simulate(scenario)
