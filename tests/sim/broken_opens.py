"""Histories of local opens that break INV-OPEN-1, made by hand."""

import msgspec

from leasehold.core.words.records import DeleteRecord
from leasehold.testing.local_news import LocallyOpened, SubLeased
from tests.sim.broken_histories import BROKEN, breaks
from tests.sim.record_words import PRE_DELETE, field, table

__all__ = ["BROKEN"]


def held(told, *, until_ns=10, deadline_ns=10, revision=5, returned=5):
    told.oracle.saw(
        SubLeased(node="n1", until_ns=until_ns, deadline_ns=deadline_ns, revision=revision, returned=returned)
    )
    told.step()


def opened(told, *, at_ns=9, fields=(1,), deletes=0):
    told.oracle.saw(
        LocallyOpened(
            node="n1",
            at_ns=at_ns,
            deadline_ns=10,
            granted=1,
            returned=told.revision,
            table=5,
            fields=fields,
            deletes=deletes,
        )
    )
    told.step()


@breaks("INV-OPEN-1")
def a_sub_lease_that_outlasts_the_lease(told):
    held(told)
    held(told, until_ns=11)


@breaks("INV-OPEN-1")
def an_open_on_a_view_before_a_statement_that_had_returned(told):
    held(told, revision=4)


@breaks("INV-OPEN-1")
def a_file_opened_at_the_deadline(told):
    told.commit(table())
    opened(told)
    opened(told, at_ns=10)


@breaks("INV-OPEN-1")
def a_file_opened_after_the_table_was_dropped(told):
    told.commit(table())
    opened(told)
    told.commit(table(state=PRE_DELETE))
    opened(told)


@breaks("INV-OPEN-1")
def a_file_opened_after_a_column_was_dropped(told):
    told.commit(table())
    opened(told, fields=(1, 2))
    told.commit(table(fields=(field(1), field(2, state=PRE_DELETE))))
    opened(told, fields=(1, 2))


@breaks("INV-OPEN-1")
def a_file_opened_after_rows_were_deleted(told):
    told.commit(table())
    opened(told)
    delete = DeleteRecord(table=5, number=1, where=(), state=PRE_DELETE)
    told.commit(msgspec.structs.replace(table(), deletes=1), delete)
    opened(told, deletes=1)
    opened(told)
