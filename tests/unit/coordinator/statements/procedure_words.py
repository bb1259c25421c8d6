"""Statements that tests of procedures run, and how they begin them and hear of their end."""

from leasehold.core.words.messages import Grant
from leasehold.core.words.records import Outcome
from leasehold.core.words.statements import AddColumns, CreateTable, DropTable
from leasehold.errors import Refused
from tests.unit.coordinator.office import asked, simulated, term
from tests.unit.coordinator.statement_cases import DATABASE, TABLE, T, U, column

ADD = AddColumns(table=T, columns=(column("c"),))
MORE = AddColumns(table=T, columns=(column("d"),))
OTHER = CreateTable(name=U, columns=(column("a"),))
DROP = DropTable(table=T)


def office_test(work):
    """Runs `work(office)` where database and table are there and settled, and the node holds a lease."""

    async def whole(office):
        await opened(office)
        return await work(office) or True

    async def main(store, clock):
        assert await term(store, clock, whole), "the leadership ended"

    simulated(main)


async def opened(office):
    """Database and table are there and settled, and the node holds a lease."""
    await office.silent()
    for number, statement in enumerate((DATABASE, TABLE)):
        assert (await office.execute(asked(number, statement))).outcome is Outcome.COMMITTED
    await office.silent()
    assert isinstance(*office.renew(), Grant)


def begin(office, number, statement, **fields):
    """A statement under way: a task that answers its receipt, or what it was refused for."""
    return office.group.create_task(told(office.execute(asked(number, statement, **fields))))


async def told(answer):
    try:
        return await answer
    except Refused as error:
        return error


async def refusal(answer):
    error = await told(answer)
    assert isinstance(error, Refused)
    return error
