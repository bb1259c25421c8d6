"""What a query may still hand out once a statement of its own client has returned: batches lie in buffers by then."""

from collections.abc import Callable, Iterator, Sequence

import msgspec
import pyarrow as pa
import pytest

from leasehold.client.query import run_query
from leasehold.client.result import QueryResult
from leasehold.client.threads import THREADS
from leasehold.core.data.known import Known
from leasehold.core.words.messages import Cutoff, QueryPlan, ScanPlan
from leasehold.errors import Forbidden, LeaseholdError, NotFound, Refused
from leasehold.ids import ObjectId, Revision
from leasehold.sql.select import read_select
from leasehold.storage.schema import arrow_schema
from tests.unit.client.query_words import MEMORY_BYTES, Tables, plan, planned
from tests.unit.client.test_handed_out import receipt

BATCHES, ROWS = 40, 4_000
VIEW = ("db.v", "SELECT `t`.`a` AS `a` FROM `db`.`t` AS `t`", ("a",))


class World:
    """A table of a cluster, and a client that reads it and changes the catalog."""

    def __init__(self) -> None:
        self.known = Known(THREADS)
        self.revision = Revision(1)
        self.deletes = 0
        self.planned = 0
        self.changed: Callable[[QueryPlan], QueryPlan] = lambda plan: plan
        self.missing = 0
        """Rows that a DELETE took."""

    def plan(self, names: Sequence[str]) -> QueryPlan:
        self.planned += 1
        bare = planned(VIEW) if "db.v" in names else planned()
        cutoff = Cutoff(revision=self.revision, deletes=self.deletes)
        found = tuple(msgspec.structs.replace(one, cutoff=cutoff) for one in bare.plans)
        return self.changed(msgspec.structs.replace(bare, revision=self.revision, plans=found))

    def open(self, asked: ScanPlan) -> pa.RecordBatchReader:
        whole = Tables(batches=BATCHES, rows=ROWS).open(asked)

        def batches() -> Iterator[pa.RecordBatch]:
            left = self.missing
            for batch in whole:
                gone = min(left, batch.num_rows)
                left -= gone
                yield batch.slice(gone)

        return pa.RecordBatchReader.from_batches(arrow_schema(asked.fields), batches())

    def query(self, text: str = "SELECT a FROM db.t") -> QueryResult:
        return run_query(read_select(text, cluster=""), self.plan, self.open, MEMORY_BYTES, known=self.known)

    def returns(self) -> None:
        """A statement of this client returns."""
        self.revision = Revision(self.revision + 1)
        self.known.heard(receipt(self.revision))


def raising(error: LeaseholdError) -> Callable[[QueryPlan], QueryPlan]:
    def fail(_plan: QueryPlan) -> QueryPlan:
        raise error

    return fail


def of_another_table(found: QueryPlan) -> QueryPlan:
    facts = msgspec.structs.replace(plan().facts, table=ObjectId(9))
    return msgspec.structs.replace(found, plans=(msgspec.structs.replace(plan(), facts=facts),))


def without_a_column(found: QueryPlan) -> QueryPlan:
    return msgspec.structs.replace(
        found, plans=tuple(msgspec.structs.replace(one, fields=one.fields[1:]) for one in found.plans)
    )


TAKING: dict[str, tuple[Callable[[QueryPlan], QueryPlan], str, str]] = {
    "DROP TABLE": (raising(NotFound("no table or view db.t")), "SELECT a FROM db.t", "TABLE_DROPPED"),
    "DROP and CREATE TABLE": (of_another_table, "SELECT a FROM db.t", "TABLE_DROPPED"),
    "DROP COLUMN": (without_a_column, "SELECT a FROM db.t", "COLUMN_DROPPED"),
    "REVOKE": (raising(Forbidden("ana may not")), "SELECT a FROM db.t", "FORBIDDEN"),
    "DROP VIEW": (raising(NotFound("no table or view db.v")), "SELECT a FROM db.v", "VIEW_DROPPED"),
    "DROP and CREATE VIEW": (
        lambda found: msgspec.structs.replace(found, views=()),
        "SELECT a FROM db.v",
        "VIEW_DROPPED",
    ),
}


@pytest.mark.parametrize("what", TAKING)
@pytest.mark.parametrize("handed_out", [0, 1])
def test_nothing_is_handed_out_after_it_was_taken_away(what: str, handed_out: int) -> None:
    world = World()
    change, text, code = TAKING[what]
    answer = iter(world.query(text))
    for _ in range(handed_out):
        next(answer)
    world.changed = change
    world.returns()
    with pytest.raises(Refused) as caught:
        next(answer)
    assert caught.value.code == code
    assert next(answer, None) is None, "the query has ended"


def test_a_delete_ends_a_query_that_has_handed_out_rows_and_runs_any_other_again() -> None:
    world = World()
    begun, fresh = iter(world.query()), world.query()
    next(begun)
    world.deletes, world.missing = 1, 10
    world.returns()
    with pytest.raises(Refused) as caught:
        next(begun)
    assert caught.value.code == "ROWS_TAKEN_AWAY"
    assert fresh.read_all()["a"].to_pylist() == list(range(10, BATCHES * ROWS))


def test_what_takes_nothing_away_costs_one_question_and_no_row() -> None:
    world = World()
    answer = world.query()
    rows = next(iter(answer)).num_rows
    world.returns()
    assert rows + sum(batch.num_rows for batch in answer) == BATCHES * ROWS
    assert world.planned == 2
    untouched = World()
    untouched.query().read_all()
    assert untouched.planned == 1, "without a statement nothing is asked"


def test_an_older_word_of_a_coordinator_proves_nothing() -> None:
    world = World()
    answer = iter(world.query())
    next(answer)
    world.changed = lambda found: msgspec.structs.replace(found, revision=Revision(1))
    world.returns()
    with pytest.raises(Refused) as caught:
        next(answer)
    assert caught.value.code == "BEHIND"


def test_a_query_without_rows_ends() -> None:
    world = World()
    assert world.query("SELECT a FROM db.t WHERE a < 0").read_all().num_rows == 0


def test_a_caller_is_told_how_many_rows_were_read() -> None:
    world = World()
    told: list[int] = []
    select = read_select("SELECT count(*) FROM db.t", cluster="")
    run_query(select, world.plan, world.open, MEMORY_BYTES, lambda rows, _of: told.append(rows)).read_all()
    assert told == [ROWS * number for number in range(1, BATCHES + 1)]
