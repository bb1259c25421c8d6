"""In a store that is nearly full: what grows is refused, what makes room or keeps the cluster going is not."""

from typing import get_args

import pytest

from leasehold.coordinator.data.transactions import WriteTransactions
from leasehold.coordinator.user_turns import UserTurns
from leasehold.core.words.messages import AbortTransaction, OpenTransaction
from leasehold.core.words.records import Outcome, TransactionState
from leasehold.core.words.statements import CreateDatabase, CreateTable, CreateView, Definition, DropTable, Growing
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.testing.threads import NoThreads
from leasehold.wire.entropy import SystemEntropy
from tests.unit.coordinator.office import asked
from tests.unit.coordinator.statement_cases import ROLE, T, U, V, column
from tests.unit.coordinator.statements.procedure_words import ADD, DROP, begin, office_test, refusal

GROWING = (
    CreateDatabase(name="other"),
    CreateTable(name=U, columns=(column("a"),)),
    CreateView(view=V, body="SELECT a FROM db.t", reads=(T,)),
    ROLE,
    ADD,
)


def test_what_creates_or_adds_something_grows():
    kinds = {one.__name__ for one in get_args(Growing)}
    assert kinds == {one.__name__ for one in get_args(Definition) if one.__name__.startswith(("Create", "Add"))}


@pytest.mark.parametrize("statement", GROWING, ids=lambda one: type(one).__name__)
def test_what_grows_is_refused_until_there_is_room(statement):
    async def work(office):
        office.storage.is_nearly_full = True
        error = await refusal(office.execute(asked(5, statement)))
        assert error.code is ErrorCode.STORE_NEARLY_FULL
        assert "retention_bytes" in error.hint
        with pytest.raises(Refused) as told:
            await office.outcome(asked(5, statement).id)
        assert told.value.code is ErrorCode.STORE_NEARLY_FULL
        with pytest.raises(Refused) as explained:
            await office.procedures.explain(asked(6, statement))
        assert explained.value.code is ErrorCode.STORE_NEARLY_FULL
        office.storage.is_nearly_full = False
        running = begin(office, 7, statement)
        await office.number(asked(7, statement).id)
        office.renew()
        assert (await running).outcome is Outcome.COMMITTED

    office_test(work)


def test_a_drop_makes_room():
    async def work(office):
        office.storage.is_nearly_full = True
        running = begin(office, 5, DROP)
        await office.number(asked(5, DROP).id)
        office.renew()
        assert (await running).outcome is Outcome.COMMITTED
        assert office.catalog.find_table(DropTable(table=T).table) is None

    office_test(work)


def test_a_new_write_is_refused_and_one_that_is_open_goes_on():
    async def work(office):
        table = office.catalog.find_table(T)
        turns = UserTurns(NoThreads(), office.clock.now_ns)
        transactions = WriteTransactions(office.writer, office.leasing, office.clock, SystemEntropy(), turns, lambda: 0)

        def opening(number):
            return OpenTransaction(
                cluster_id="c" * 32, transaction=f"{number:032x}", table=table.id, schema_version=table.schema_version
            )

        await transactions.open(opening(1))
        office.storage.is_nearly_full = True
        with pytest.raises(Refused) as refused:
            await transactions.open(opening(2))
        assert refused.value.code is ErrorCode.STORE_NEARLY_FULL
        assert (await transactions.open(opening(1))).state is TransactionState.OPEN
        aborted = await transactions.abort(AbortTransaction(cluster_id="c" * 32, transaction=opening(1).transaction))
        assert aborted.state is TransactionState.ABORTED
        office.storage.is_nearly_full = False
        assert (await transactions.open(opening(2))).state is TransactionState.OPEN

    office_test(work)
