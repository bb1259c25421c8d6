"""Queries of several processes: the first that asks decides what is gone for all of them."""

import asyncio

import msgspec
import pytest

from leasehold.coordinator.data.queries import Queries
from leasehold.core import ddl
from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.messages import AgreeCutoff
from leasehold.core.words.records import QueryRecord
from leasehold.core.words.statements import Condition, DeleteRows, Literal, TableName
from leasehold.errors import LeaseholdError
from leasehold.ids import Revision
from leasehold.limits.queries import QUERIES_MAX, QUERY_KEPT_NS
from tests.unit.coordinator.upkeep.test_housekeeping import TABLE, Clock, Writer
from tests.unit.core.catalog_words import Ground, create_database, create_table
from tests.unit.core.ddl_words import run

DELETE = DeleteRows(
    table=TableName("db", "t"), where=(Condition(column="a", operator="=", value=Literal("number", "1")),)
)
QUERY, OTHER = "1" * 32, "2" * 32


def ask(query=QUERY, table=TABLE):
    return AgreeCutoff(cluster_id="c" * 32, table=table, query=query)


class Leader:
    """One leader after the other on the same catalog."""

    def __init__(self):
        base = Ground()
        run(base, create_database())
        run(base, create_table("t", "a"))
        self.base = base
        self.clock = Clock()
        self.succeed(base.catalog)

    def succeed(self, catalog):
        self.writer = Writer(catalog)
        self.queries = Queries(self.writer, self.clock)

    def agree(self, request):
        return asyncio.run(self.queries.agree(request))

    def begin_delete(self):
        """A DELETE in its pre-state."""
        request = self.base.request(DELETE)
        begun = ddl.begin(request, self.writer.catalog)
        self.writer.write(begun.changes)
        return begun.procedure

    def refused(self, request):
        with pytest.raises(LeaseholdError) as caught:
            self.agree(request)
        return caught.value.code


def gone(cutoff):
    return msgspec.structs.replace(cutoff, revision=Revision(0))


def test_all_tasks_of_a_query_get_the_cutoff_of_the_first():
    leader = Leader()
    first = leader.agree(ask())
    assert first.deletes == 0
    leader.begin_delete()
    again = leader.agree(ask())
    assert gone(again) == gone(first)
    assert again.revision == leader.writer.catalog.revision, "a node that shows it has applied what the cutoff names"
    assert leader.agree(ask(OTHER)).deletes == 1


def test_a_later_leader_gives_the_same_answer():
    leader = Leader()
    first = leader.agree(ask())
    leader.begin_delete()
    leader.succeed(leader.writer.catalog)
    assert gone(leader.agree(ask())) == gone(first)


def test_a_query_is_forgotten_an_hour_after_its_last_question():
    leader = Leader()
    leader.agree(ask())
    leader.agree(ask(OTHER))
    leader.clock.instant_ns += QUERY_KEPT_NS - 1
    leader.agree(ask())
    leader.clock.instant_ns += 1
    asyncio.run(leader.queries.expire())
    assert [one.query for one in leader.writer.catalog.queries.values()] == [QUERY]
    leader.succeed(leader.writer.catalog)
    asyncio.run(leader.queries.expire())
    assert len(leader.writer.catalog.queries) == 1, "a new leader counts anew"
    leader.clock.instant_ns += QUERY_KEPT_NS
    asyncio.run(leader.queries.expire())
    assert not leader.writer.catalog.queries


def test_questions_that_are_refused():
    leader = Leader()
    assert leader.refused(ask(table=77)) == "TABLE_DROPPED"
    assert leader.refused(ask("x")) == "BAD_MESSAGE"
    leader.agree(ask())
    full = [
        put(
            keys.query(TABLE, f"{number:032x}"),
            QueryRecord(table=TABLE, query=f"{number:032x}", deletes=0, undecided=(), earliest_us=None),
        )
        for number in range(QUERIES_MAX)
    ]
    leader.writer.write(full)
    assert leader.refused(ask(OTHER)) == "BUSY"
    assert leader.agree(ask()).deletes == 0, "those that are known go on"
