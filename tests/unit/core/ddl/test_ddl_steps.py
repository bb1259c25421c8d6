"""Statements as procedures from their pre-state on: each step compares, repeats and resumes (INV-DROP-1)."""

import msgspec
import pytest

from leasehold.core import ddl
from leasehold.core.catalog.plan import put
from leasehold.core.replicas.dropped import cleaned
from leasehold.core.replicas.leftovers import leftovers
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import (
    CountersRecord,
    DroppedRecord,
    HorizonRecord,
    Outcome,
    SegmentRecord,
    UseState,
)
from leasehold.errors import Refused
from tests.unit.core.catalog_words import (
    add,
    create_database,
    create_table,
    drop_column,
    drop_database,
    drop_table,
    hex_128,
    node,
    receipt,
    rename,
)
from tests.unit.core.ddl_words import BOTH, T, field, finished, ground, run, table, written

# ---------------------------------------------------------------- the point of no return


def test_the_end_of_a_database():
    base = ground(create_database())
    procedure = base.begin(drop_database())
    changes = written(ddl.finish(procedure, base.catalog))
    assert changes == {keys.database(1): None, keys.procedure(procedure.number): finished(procedure)}


def test_the_end_of_a_column():
    base = ground(*BOTH)
    procedure = base.begin(drop_column("b"))
    gone = table(schema_version=2, fields=(field(1, "a"),))
    changes = written(ddl.finish(procedure, base.catalog))
    assert changes == {keys.table(2): gone, keys.procedure(procedure.number): finished(procedure)}


def test_the_end_of_a_table_and_who_has_to_clean_up():
    base = ground(create_database(), create_table(buckets=2, replication=1))
    base.put(keys.horizon(2), HorizonRecord(table=2, horizon_us=9))
    procedure = base.begin(drop_table())
    assert written(ddl.finish(procedure, base.catalog)) == {
        keys.table(2): None,
        keys.horizon(2): None,
        keys.bucket(2, 0): None,
        keys.bucket(2, 1): None,
        keys.dropped(2): DroppedRecord(table=2, name="db.t", pending=(1, 2)),
        keys.procedure(procedure.number): finished(procedure),
    }


@pytest.mark.parametrize("segments", [1, 10])
def test_the_point_of_no_return_is_as_small_for_a_large_table(segments):
    """DROP must not fail for the size of what it drops, nor hold the leader up: the manifest goes behind it."""
    base = ground(create_database(), create_table(buckets=2, replication=1))
    for number in range(segments):
        segment = SegmentRecord(
            id=f"{hex_128(1)}-{hex_128(number)}",
            table=2,
            bucket=number % 2,
            schema_version=1,
            rows=1,
            size_bytes=1,
            sha256=bytes(32),
            statistics=(),
            holders=(1,),
        )
        base.put(keys.segment(2, number % 2, segment.id), segment)
    procedure = base.begin(drop_table())
    assert len(ddl.finish(procedure, base.catalog)) == 5
    base.commit(ddl.finish(procedure, base.catalog))
    assert base.catalog.find_table(T) is None
    assert len(leftovers(base.catalog)) == segments
    base.commit(tuple(Change(key, None) for key in leftovers(base.catalog)))
    assert not base.catalog.segments
    assert leftovers(base.catalog) == []


def test_nodes_that_were_removed_clean_nothing_up():
    base = ground(create_database(), create_table(replication=2))
    base.put(keys.node(1), node(1, removed=True))
    procedure = base.begin(drop_table())
    assert written(ddl.finish(procedure, base.catalog))[keys.dropped(2)].pending == (2,)
    base.put(keys.node(2), node(2, removed=True))
    assert keys.dropped(2) not in written(ddl.finish(procedure, base.catalog))


DESTRUCTIVE = [drop_database("e"), drop_table(), drop_column("b")]


@pytest.mark.parametrize("statement", DESTRUCTIVE)
def test_the_point_of_no_return_compares_the_pre_state(statement):
    """INV-DROP-1: an object that is in use again is not deleted."""
    base = ground(*BOTH, create_database("e"))
    procedure = base.begin(statement)
    catalog = base.catalog
    in_use = catalog.changed(
        (
            put(keys.table(2), table()),
            put(keys.database(3), msgspec.structs.replace(catalog.databases[3], state=UseState.IN_USE)),
        )
    )
    with pytest.raises(AssertionError, match="INV-DROP-1"):
        ddl.finish(procedure, in_use)


@pytest.mark.parametrize("statement", DESTRUCTIVE)
def test_a_statement_that_was_rolled_back_never_finishes(statement):
    base = ground(*BOTH, create_database("e"))
    procedure = base.begin(statement)
    rolled_back = base.catalog.changed(
        (Change(keys.procedure(procedure.number), None), Change(keys.statement(procedure.statement), None))
    )
    with pytest.raises(Refused) as caught:
        ddl.finish(procedure, rolled_back)
    assert caught.value.code == "ROLLED_BACK"


# ---------------------------------------------------------------- closing


def test_closing_writes_the_receipt_and_forgets_the_procedure():
    base = ground(create_database())
    procedure = base.begin(create_table())
    running = base.catalog.statements[procedure.statement]
    barrier = receipt(base.catalog.revision, sequence=9)
    changes = written(ddl.close(procedure, base.catalog, barrier=barrier, elapsed_ns=7))
    assert changes == {
        keys.procedure(procedure.number): None,
        keys.statement(procedure.statement): msgspec.structs.replace(
            running, outcome=Outcome.COMMITTED, revision=barrier.revision, elapsed_ns=7, barriers=(barrier,)
        ),
    }


@pytest.mark.parametrize("statement", [create_table("u"), add("x"), rename("a", "x"), *DESTRUCTIVE])
@pytest.mark.parametrize("repeats", [1, 2, 3])
def test_each_step_repeated_and_resumed_ends_the_same(statement, repeats):
    """An error between any two steps is a leader that resumes: it does the step again on what it finds."""
    once, often = ground(*BOTH, create_database("e")), ground(*BOTH, create_database("e"))
    procedure = run(once, statement)
    resumed = often.begin(statement)
    for _ in range(repeats):
        standing = often.catalog.procedures[procedure.number]
        assert standing.statement == procedure.statement
        if standing.hides:
            commit_if_any(often, ddl.finish(resumed, often.catalog))
            assert ddl.finish(often.catalog.procedures[procedure.number], often.catalog) == ()
    for _ in range(repeats):
        commit_if_any(often, ddl.close(resumed, often.catalog, barrier=receipt(often.catalog.revision), elapsed_ns=5))
        if resumed.hides:
            assert ddl.finish(resumed, often.catalog) == (), "closed: it was not rolled back"
    assert often.items == once.items


def commit_if_any(base, changes):
    if changes:
        base.commit(changes)


@pytest.mark.parametrize("end", ["close", "roll back", "leave pending"])
def test_however_a_statement_ends_others_are_forgotten_with_it(end):
    base = ground(create_database(), create_table())
    procedure = base.begin(drop_table() if end == "roll back" else create_table("v"))
    gone = (hex_128(1), hex_128(2))
    ended = {
        "close": lambda: ddl.close(procedure, base.catalog, barrier=receipt(2), elapsed_ns=1, forget=gone),
        "roll back": lambda: ddl.roll_back(procedure, base.catalog, elapsed_ns=1, forget=gone),
        "leave pending": lambda: ddl.leave_pending(
            procedure, base.catalog, revision=2, elapsed_ns=1, pending=(), forget=gone
        ),
    }[end]
    forgotten = {key for key, record in written(ended()).items() if record is None}
    assert forgotten == {keys.procedure(procedure.number), *map(keys.statement, gone)}


# ---------------------------------------------------------------- cleaning up


def test_each_node_is_struck_off_once():
    base = ground(create_database(), create_table(replication=2), drop_table())
    assert base.catalog.dropped[2].pending == (1, 2)
    assert cleaned(base.catalog, 2, (3,)) == ()
    assert cleaned(base.catalog, 9, (1,)) == ()
    left = DroppedRecord(table=2, name="db.t", pending=(2,))
    assert written(cleaned(base.catalog, 2, (1,))) == {keys.dropped(2): left}
    base.put(keys.dropped(2), left)
    assert cleaned(base.catalog, 2, (1,)) == ()
    assert cleaned(base.catalog, 2, (2,)) == (Change(keys.dropped(2), None),)


# ---------------------------------------------------------------- identity of what has a name


def test_a_table_made_again_under_an_old_name_is_another_table():
    base = ground(*BOTH, drop_table(), create_table("t", "z"))
    again = base.catalog.table(T)
    assert (again.id, again.fields) == (3, (field(1, "z"),))
    assert base.catalog.counters == CountersRecord(next_node=4, next_object=4, next_procedure=5, next_transaction=1)


def test_a_database_made_again_under_an_old_name_is_another_database():
    base = ground(create_database(), drop_database(), create_database())
    assert base.catalog.database("db").id == 2


def test_a_column_made_again_under_an_old_name_is_another_column():
    base = ground(*BOTH, drop_column("b"), add("b"))
    again = base.catalog.table(T)
    assert again.fields == (field(1, "a"), field(3, "b"))
    assert (again.schema_version, again.next_field) == (3, 4)
