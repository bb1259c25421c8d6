"""Questions that wait for the turn of their user are decided by the rights of the moment in which they are answered."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec
import pytest

from leasehold.coordinator.user_turns import UserTurns
from leasehold.core.access import fair_queue
from leasehold.core.access.fair_queue import busy
from leasehold.core.words.messages import (
    AskTable,
    AskView,
    ClientRequest,
    Execute,
    Filter,
    Message,
    PlanChanges,
    PlanQuery,
    PlanScan,
    ScanPlan,
    ViewFacts,
)
from leasehold.core.words.records import PrincipalRecord
from leasehold.errors import (
    BadStatement,
    Forbidden,
    Indefinite,
    LeaseholdError,
    NotFound,
    NotLeader,
    Unauthenticated,
)
from leasehold.ids import Revision, StatementId
from leasehold.limits.statements import INLINE_EFFORT_MAX
from leasehold.testing.threads import NoThreads
from tests.sim.coordinator_words import ask, followers, the_leader
from tests.sim.test_users import Users, simulate

T = TypeVar("T")
COLUMNS = ", ".join(f"c{number} INT" for number in range(INLINE_EFFORT_MAX + 1))
PUBLIC, SECRET = "db.pub", "db.payroll"
VIEW, SECRET_VIEW, NARROW = "db.shown", "db.hidden", "db.narrow"
WHERE = (Filter(column="c0", operator="IS NOT NULL"),)


class Turns:
    """The turns of the user `u` come once they are `open`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = asyncio.Event()
        self.waiting = asyncio.Semaphore(0)
        run = UserTurns.run

        async def late(
            turns: UserTurns, user: PrincipalRecord | None, work: Callable[[], Coroutine[Any, Any, T]], **more: Any
        ) -> T:
            if user is not None and user.name == "u" and not self.open.is_set():
                self.waiting.release()
                await self.open.wait()
            return await run(turns, user, work, **more)

        monkeypatch.setattr(UserTurns, "run", late)


def questions(revision: Revision) -> dict[str, ClientRequest]:
    return {
        "scan": PlanScan(cluster_id=None, name=PUBLIC, columns=None, where=WHERE),
        "changes": PlanChanges(cluster_id=None, name=PUBLIC, columns=None, since=revision),
        "query": PlanQuery(cluster_id=None, names=(PUBLIC,)),
        "past": PlanScan(cluster_id=None, name=PUBLIC, columns=None, as_of=revision),
        "table": AskTable(cluster_id=None, name=PUBLIC),
        "view": AskView(cluster_id=None, name=VIEW),
        "query of a view": PlanQuery(cluster_id=None, names=(VIEW,)),
        "describe": Execute(cluster_id=None, statement=StatementId("d" * 32), text=f"DESCRIBE {PUBLIC}"),
    }


async def tables(users: Users) -> Revision:
    """A revision at which both tables are there, and two wide views and a narrow one of a table of one column."""
    for name in (PUBLIC, SECRET):
        await users.sql(f"CREATE TABLE {name} ({COLUMNS})", "root")
    await users.sql(f"GRANT SELECT ON TABLE {PUBLIC} TO u", "root")
    wide = ", ".join(f"a AS c{number}" for number in range(INLINE_EFFORT_MAX + 1))
    for view, shown in ((VIEW, wide), (SECRET_VIEW, wide), (NARROW, "a")):
        await users.sql(f"CREATE VIEW {view} AS SELECT {shown} FROM db.t", "root")
    for on in (f"VIEW {VIEW}", f"VIEW {NARROW}", "TABLE db.t"):
        await users.sql(f"GRANT SELECT ON {on} TO u", "root")
    leader = the_leader(users.cluster).leader
    assert leader is not None
    return leader.catalog.revision


async def swap(users: Users) -> None:
    """The name of the public table passes to the secret one."""
    await users.sql(f"ALTER TABLE {PUBLIC} RENAME TO db.old", "root")
    await users.sql(f"ALTER TABLE {SECRET} RENAME TO {PUBLIC}", "root")


async def swap_views(users: Users) -> None:
    """The name of the view that the user may read passes to the secret one."""
    await users.sql(f"ALTER VIEW {VIEW} RENAME TO db.old", "root")
    await users.sql(f"ALTER VIEW {SECRET_VIEW} RENAME TO {VIEW}", "root")


async def revoke_view(users: Users) -> None:
    await users.sql(f"REVOKE SELECT ON VIEW {VIEW} FROM u", "root")


async def drop_user(users: Users) -> None:
    await users.sql("DROP USER u", "root")


async def revoke(users: Users) -> None:
    await users.sql(f"REVOKE SELECT ON TABLE {PUBLIC} FROM u", "root")


async def hide(users: Users) -> None:
    await users.sql(f"ALTER TABLE {PUBLIC} RENAME TO db.old", "root")


def asked_before(
    monkeypatch: pytest.MonkeyPatch,
    which: str,
    happens: Callable[[Users], Awaitable[None]],
    expected: type[LeaseholdError],
    *,
    at_follower: bool = False,
) -> None:
    async def scenario(users: Users, group: asyncio.TaskGroup) -> None:
        revision = await tables(users)
        turns = Turns(monkeypatch)
        request = questions(revision)[which]
        cluster = users.cluster
        asked = followers(cluster)[0] if at_follower else the_leader(cluster)
        request = msgspec.structs.replace(request, login=users.tokens["u"])
        waiting = group.create_task(refused(ask(cluster, asked, request)))
        await turns.waiting.acquire()
        await happens(users)
        turns.open.set()
        assert type(await waiting) is expected

    simulate(scenario, coordinators=3 if at_follower else 1)


async def refused(answer: Awaitable[Message]) -> Message | LeaseholdError:
    try:
        return await answer
    except LeaseholdError as error:
        return error


@pytest.mark.parametrize("which", ["scan", "changes", "query", "past", "table", "view", "describe"])
def test_who_was_dropped_meanwhile_gets_no_answer(monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    asked_before(monkeypatch, which, drop_user, Unauthenticated)


@pytest.mark.parametrize("which", ["scan", "changes", "query", "table", "view", "describe"])
def test_who_was_dropped_meanwhile_gets_no_answer_of_a_follower(monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    asked_before(monkeypatch, which, drop_user, Unauthenticated, at_follower=True)


@pytest.mark.parametrize("which", ["scan", "changes", "query", "past", "table"])
@pytest.mark.parametrize("happens", [revoke, swap])
def test_a_right_that_is_gone_meanwhile_does_not_count(
    monkeypatch: pytest.MonkeyPatch, which: str, happens: Callable[[Users], Awaitable[None]]
) -> None:
    asked_before(monkeypatch, which, happens, Forbidden)


@pytest.mark.parametrize("which", ["scan", "changes", "query", "table"])
@pytest.mark.parametrize("happens", [revoke, swap])
def test_a_right_that_is_gone_meanwhile_does_not_count_at_a_follower(
    monkeypatch: pytest.MonkeyPatch, which: str, happens: Callable[[Users], Awaitable[None]]
) -> None:
    asked_before(monkeypatch, which, happens, Forbidden, at_follower=True)


@pytest.mark.parametrize("at_follower", [False, True])
@pytest.mark.parametrize("which", ["view", "query of a view"])
@pytest.mark.parametrize("happens", [revoke_view, swap_views])
def test_a_right_on_a_view_that_is_gone_meanwhile_does_not_count(
    monkeypatch: pytest.MonkeyPatch, which: str, happens: Callable[[Users], Awaitable[None]], at_follower: bool
) -> None:
    asked_before(monkeypatch, which, happens, Forbidden, at_follower=at_follower)


@pytest.mark.parametrize("at_follower", [False, True])
def test_a_wide_view_waits_for_the_same_user_and_holds_up_no_other_one(
    monkeypatch: pytest.MonkeyPatch, at_follower: bool
) -> None:
    """16 views over 90 views of 1,000 columns each, asked for by one user, let another user wait for 4 s."""
    allowed, computing = asyncio.Semaphore(0), list[object]()

    async def slow(_threads: NoThreads, compute: Callable[[], T]) -> T:
        computing.append(compute)
        await allowed.acquire()
        return compute()

    async def scenario(users: Users, group: asyncio.TaskGroup) -> None:
        await tables(users)
        cluster = users.cluster
        asked = followers(cluster)[0] if at_follower else the_leader(cluster)

        def view(name: str, user: str) -> Awaitable[Message]:
            return ask(cluster, asked, AskView(cluster_id=None, name=name, login=users.tokens[user]))

        monkeypatch.setattr(NoThreads, "run", slow)
        waiting = [group.create_task(refused(view(VIEW, "u"))) for _ in range(3)]
        for _ in range(3):
            assert isinstance(await view(NARROW, "root"), ViewFacts)
        assert len(computing) == 1, "one at a time"
        assert not any(one.done() for one in waiting)
        other = group.create_task(refused(view(VIEW, "root")))
        for _ in range(3):
            assert isinstance(await view(NARROW, "root"), ViewFacts)
        for _ in range(3):
            allowed.release()
        await asyncio.wait([other], timeout=10)
        assert other.done(), "users take turns"
        assert not all(one.done() for one in waiting)
        allowed.release()
        for told in (await other, *await asyncio.gather(*waiting)):
            assert isinstance(told, ViewFacts)
            assert len(told.views[-1].columns) == INLINE_EFFORT_MAX + 1
        assert len(computing) == 4

    simulate(scenario, coordinators=3 if at_follower else 1)


@pytest.mark.parametrize("statement", ["", "d" * 31, "D" * 32, "d" * 63_000])
def test_a_question_has_a_statement_id_like_every_statement(statement: str) -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        for text in ("DESCRIBE db.t", "SHOW TABLES", "CREATE DATABASE other"):
            asked = Execute(cluster_id=None, statement=StatementId(statement), text=text, login=users.tokens["root"])
            for one in users.cluster.coordinators:
                told = await refused(ask(users.cluster, one, asked))
                assert isinstance(told, BadStatement | NotLeader)
                assert isinstance(told, BadStatement) or (text.startswith("CREATE") and one.leader is None)

    simulate(scenario, coordinators=3)


@pytest.mark.parametrize("which", ["scan", "past", "table"])
def test_a_name_is_looked_up_when_it_is_answered(monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    asked_before(monkeypatch, which, hide, NotFound)


@pytest.mark.parametrize("may_both", [False, True])
def test_a_past_is_of_the_table_that_had_the_name_when_it_was_checked(
    monkeypatch: pytest.MonkeyPatch, may_both: bool
) -> None:
    """The name passes to another table while the leader reads the past of the first one."""

    async def scenario(users: Users, group: asyncio.TaskGroup) -> None:
        revision = await tables(users)
        if may_both:
            await users.sql(f"GRANT SELECT ON TABLE {SECRET} TO u", "root")
        leader = the_leader(users.cluster).leader
        assert leader is not None
        plans = leader._plans
        read, reading, go_on = plans._read, asyncio.Event(), asyncio.Event()

        async def slow(*asked: Any) -> Any:
            reading.set()
            await go_on.wait()
            return await read(*asked)

        monkeypatch.setattr(plans, "_read", slow)
        request = PlanScan(cluster_id=None, name=PUBLIC, columns=None, as_of=revision, login=users.tokens["u"])
        waiting = group.create_task(refused(ask(users.cluster, the_leader(users.cluster), request)))
        await reading.wait()
        await swap(users)
        go_on.set()
        told = await waiting
        if not may_both:
            assert type(told) is Forbidden
            return
        assert isinstance(told, Indefinite), told
        assert told.code == "BUSY"
        plan = await users.ask(PlanScan(cluster_id=None, name=PUBLIC, columns=None, as_of=revision), ScanPlan, "u")
        assert len(plan.fields) == INLINE_EFFORT_MAX + 1

    simulate(scenario)


def test_a_client_asks_again_if_too_many_plans_of_its_user_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_queue, "TURNS_WAITING_PER_USER_MAX", 2)
    refusals = list[Indefinite]()

    def noted() -> Indefinite:
        refusals.append(busy())
        return refusals[-1]

    async def slow(_threads: NoThreads, compute: Callable[[], T]) -> T:
        await asyncio.sleep(0.1)
        return compute()

    monkeypatch.setattr(fair_queue, "busy", noted)

    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        request = questions(await tables(users))["scan"]
        monkeypatch.setattr(NoThreads, "run", slow)
        plans = await asyncio.gather(*(users.ask(request, ScanPlan, "u") for _ in range(10)))
        assert all(isinstance(one, ScanPlan) for one in plans)
        assert refusals

    simulate(scenario)
