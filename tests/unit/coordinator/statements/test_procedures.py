"""Statements under one leader: their timeouts, EXPLAIN, SHOW PROCEDURES, and what they share."""

import asyncio

import pytest

from leasehold.core.words.messages import RenewalRefused
from leasehold.core.words.records import Outcome, SettledHow
from leasehold.core.words.statements import (
    CreateDatabase,
    CreateTable,
    CreateUser,
    CreateView,
    DropColumn,
    DropDatabase,
    DropTable,
    DropView,
    TableName,
)
from leasehold.errors import NotFound
from leasehold.limits.units import SECOND_NS
from leasehold.testing.requests import RequestFate
from tests.unit.coordinator.office import asked, simulated, term
from tests.unit.coordinator.statement_cases import DATABASE, TABLE, T, column
from tests.unit.coordinator.statements.procedure_words import ADD, DROP, MORE, begin, office_test, refusal


def test_R12_a_statement_that_is_asked_again_while_it_waits_for_its_turn_happens_once():
    """Nothing durable tells of it yet."""

    async def work(office):
        before = office.catalog.counters.next_procedure
        first = begin(office, 5, ADD)
        waiting = begin(office, 6, MORE)
        await asyncio.sleep(0.5)
        assert office.catalog.counters.next_procedure == before + 1, "the one before it waits for the node"
        again = begin(office, 6, MORE)
        receipts = [await one for one in (first, waiting, again)]
        assert {one.outcome for one in receipts} == {Outcome.COMMITTED}
        assert receipts[1] == receipts[2]
        assert office.catalog.counters.next_procedure == before + 2

    office_test(work)


def test_an_additive_statement_whose_timeout_comes_first_says_who_is_pending():
    async def work(office):
        began_ns = office.clock.now_ns()
        receipt = await office.execute(asked(5, ADD, timeout_ns=SECOND_NS))
        assert receipt.outcome is Outcome.COMMITTED_PENDING
        assert receipt.pending == (1,)
        assert SECOND_NS <= office.clock.now_ns() - began_ns < 2 * SECOND_NS
        assert not office.catalog.procedures, "its end is durable before it is told"
        assert office.catalog.statements[receipt.statement_id].outcome is Outcome.COMMITTED_PENDING
        assert await office.outcome(receipt.statement_id) == receipt

    office_test(work)


def test_what_follows_a_pending_statement_waits_for_its_nodes_and_others_do_not():
    async def work(office):
        await office.execute(asked(5, ADD, timeout_ns=SECOND_NS // 2))
        behind = begin(office, 6, MORE)
        await office.sleep(SECOND_NS)
        assert asked(6, MORE).id not in office.catalog.statements, "it must not begin: two versions at most are in use"
        office.renew()
        await office.number(asked(6, MORE).id)
        office.renew()
        assert (await behind).outcome is Outcome.COMMITTED

    office_test(work)


def test_a_destructive_statement_whose_timeout_comes_first_is_rolled_back():
    async def work(office):
        receipt = await office.execute(asked(5, DROP, timeout_ns=SECOND_NS))
        assert (receipt.outcome, receipt.revision, receipt.pending) == (Outcome.ROLLED_BACK, None, (1,))
        assert office.catalog.find_table(T) is not None
        assert not office.catalog.procedures

    office_test(work)


def test_a_rollback_is_told_and_followed_once_no_node_hides_its_object():
    async def work(office):
        dropping = begin(office, 5, DROP, timeout_ns=SECOND_NS // 2)
        await office.sleep(SECOND_NS)
        behind = begin(office, 6, ADD)
        assert office.catalog.find_table(T) is not None, "it is rolled back"
        hidden = office.catalog.revision - 1
        assert isinstance(*office.renew(hidden), RenewalRefused)
        await office.sleep(SECOND_NS // 10)
        assert asked(6, ADD).id not in office.catalog.statements
        assert not dropping.done(), "the node may hide it still"
        office.renew()
        assert (await dropping).outcome is Outcome.ROLLED_BACK
        await office.number(asked(6, ADD).id)
        office.renew()
        assert (await behind).outcome is Outcome.COMMITTED

    office_test(work)


def test_a_timeout_before_its_turn_refuses_a_statement_and_changes_nothing():
    async def work(office):
        first = begin(office, 5, ADD)
        await office.number(asked(5, ADD).id)
        revision = office.catalog.revision
        request = asked(6, MORE, timeout_ns=SECOND_NS)
        for again in (office.execute(request), office.execute(request), office.outcome(request.id)):
            assert (await refusal(again)).code == "TIMED_OUT"
        assert office.catalog.revision == revision
        office.renew()
        assert (await first).outcome is Outcome.COMMITTED

    office_test(work)


def test_a_timeout_while_the_change_before_it_is_settled_refuses_it():
    async def work(office):
        await office.execute(asked(5, ADD, timeout_ns=SECOND_NS // 4))
        error = await refusal(office.execute(asked(6, MORE, timeout_ns=SECOND_NS // 4)))
        assert error.code == "TIMED_OUT"
        assert "n1" in error.text

    office_test(work)


def test_a_timeout_while_the_writer_is_held_up_refuses_it():
    async def work(office):
        held = asyncio.Event()

        async def before(request):
            if request == "txn":
                await held.wait()
            return RequestFate.ANSWERED

        office.storage.before = before
        ahead = begin(office, 5, CreateDatabase(name="x"))
        await office.sleep(SECOND_NS // 100)
        late = begin(office, 6, CreateDatabase(name="y"), timeout_ns=SECOND_NS)
        await office.sleep(2 * SECOND_NS)
        held.set()
        assert (await refusal(late)).code == "TIMED_OUT"
        assert office.catalog.find_database("y") is None
        office.renew()
        await ahead

    office_test(work)


@pytest.mark.parametrize("timeout_ns", [0, -1])
def test_a_timeout_is_more_than_nothing(timeout_ns):
    async def work(office):
        assert (await refusal(office.execute(asked(5, ADD, timeout_ns=timeout_ns)))).code == "BAD_TIMEOUT"

    office_test(work)


# ---------------------------------------------------------------- EXPLAIN and SHOW


def test_explain_tells_whom_it_would_wait_for_and_writes_nothing():
    async def work(office):
        revision = office.catalog.revision
        rows = await office.procedures.explain(asked(5, DROP))
        assert office.catalog.revision == revision == rows.revision
        steps = {step: (what, who, most_ms) for step, what, who, most_ms in rows.rows}
        assert list(steps) == ["hide", "barrier", "point of no return", "bound"]
        assert steps["point of no return"][0] == "removed for good: table db.t"
        assert steps["barrier"][1] == "n1"
        assert 3_000 < steps["barrier"][2] <= 3_600
        assert steps["bound"][2] == 4_000
        await office.silent()
        rows = await office.procedures.explain(asked(5, ADD))
        assert [row[0] for row in rows.rows] == ["change", "barrier", "bound"]
        assert rows.rows[1] == ("barrier", "n1 holds no lease, so it is settled at once", None, 0)

    office_test(work)


def test_explain_tells_what_comes_before_it_and_what_is_not_settled():
    async def work(office):
        adding = begin(office, 5, ADD)
        await office.number(asked(5, ADD).id)
        rows = {row[0]: row for row in (await office.procedures.explain(asked(6, DROP))).rows}
        assert rows["queue"][2] == asked(5, ADD).id
        assert rows["settle"][2] == "n1"
        office.renew()
        await adding

    office_test(work)


def test_explain_of_a_cascade_while_a_view_that_would_go_is_dropped():
    async def work(office):
        view = CreateView(view=TableName("db", "v"), body="SELECT a FROM db.t", reads=(T,))
        office.renew()
        await office.silent()
        await office.execute(asked(5, view))
        office.renew()
        dropping = begin(office, 6, DropView(view=view.view))
        await office.number(asked(6, ADD).id)
        for statement in (DropTable(table=T, cascade=True), DropDatabase(name="db", cascade=True)):
            assert (await refusal(office.procedures.explain(asked(7, statement)))).code == "UNDER_WAY"
        office.renew()
        assert (await dropping).outcome is Outcome.COMMITTED

    office_test(work)


def test_explain_refuses_what_the_statement_would_be_refused_for():
    async def work(office):
        with pytest.raises(NotFound):
            await office.procedures.explain(asked(5, DropColumn(table=TableName("db", "x"), column="a")))
        none = await office.procedures.explain(asked(5, CreateDatabase(name="db", if_not_exists=True)))
        assert [row[0] for row in none.rows] == ["nothing", "bound"]

    office_test(work)


def test_show_procedures_tells_where_each_statement_stands():
    async def work(office):
        await office.execute(asked(4, CreateUser(name="admin", password="p")))
        login = await office.log_in("admin")
        office.renew()
        dropping = begin(office, 5, DROP, login=login)
        behind = begin(office, 6, ADD, login=login)
        number = await office.number(asked(5, DROP).id)
        running, queued = office.procedures.telling(office.catalog, None)().rows
        assert running[:4] == (number, asked(5, DROP).id, "admin", "DropTable")
        assert running[4].startswith("waiting for n1, at most ")
        assert queued == (None, asked(6, ADD).id, "admin", "AddColumns", "queued")
        office.renew()
        assert (await dropping).cleaning == (1,)
        office.renew()
        await refusal(behind)
        await office.silent()
        (cleaning,) = office.procedures.telling(office.catalog, None)().rows
        assert cleaning == (number, asked(5, DROP).id, "admin", "DropTable", "deleting files on 1 nodes: n1")

    office_test(work)


# ---------------------------------------------------------------- what many share


def test_statements_that_come_together_share_a_transaction_and_a_barrier():
    async def work(office):
        barriers = []
        ask = office.leasing.ask
        office.leasing.ask = lambda *words, **fields: barriers.append(ask(*words, **fields)) or barriers[-1]
        before = office.catalog.revision
        many = [
            begin(office, 10 + number, CreateTable(name=TableName("db", f"t{number}"), columns=(column("a"),)))
            for number in range(32)
        ]
        await office.number(asked(41, DATABASE).id)
        assert office.catalog.revision <= before + 2
        office.renew()
        receipts = await asyncio.gather(*many)
        assert {one.settled[0].how for one in receipts} == {SettledHow.APPLIED}
        assert len({one.number for one in barriers if one.number is not None}) <= 3
        await office.silent()
        assert not office.catalog.procedures

    office_test(work)


def test_a_leader_that_ends_does_not_end_what_another_has_to_finish():
    async def main(store, clock):
        async def first(office):
            await office.silent()
            for number, statement in enumerate((DATABASE, TABLE)):
                await office.execute(asked(number, statement))
            await office.silent()
            office.renew()
            task = begin(office, 5, DROP, timeout_ns=60 * SECOND_NS)
            await office.number(asked(5, DROP).id)
            task.cancel()
            return True

        async def second(office):
            await office.sleep(SECOND_NS)
            (row,) = office.procedures.telling(office.catalog, None)().rows
            assert row[4].startswith("waiting for n1")
            receipt = await office.outcome(asked(5, DROP).id)
            assert receipt.outcome is Outcome.COMMITTED
            assert office.catalog.find_table(T) is None
            return True

        assert await term(store, clock, first)
        assert await term(store, clock, second)

    simulated(main)


def test_where_the_time_went_of_a_statement_over_its_bound_is_logged(caplog):
    """Its barrier kept to the bound; what it changed was stored late."""

    async def work(office):
        async def before(request):
            if request == "txn":
                await office.sleep(3 * SECOND_NS)
            return RequestFate.ANSWERED

        office.storage.before = before
        receipt = await office.execute(asked(5, DROP))
        assert receipt.elapsed_ns > receipt.bound_ns
        (said,) = [one.getMessage() for one in caplog.records if "over its bound" in one.getMessage()]
        assert said.endswith(
            "over its bound of 4000 ms: its change was durable after 3000 ms, its barrier had proceeded after 3560 ms"
        )

    office_test(work)
