"""Every kind of statement about databases, tables and columns, with an error and a repeat at each of its steps."""

import msgspec
import pytest

from leasehold.core import ddl
from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.records import HorizonRecord, Outcome, UseState
from leasehold.core.words.statements import AlterDatabase, Comment, Literal, OnDatabase, OnTable, OnView, TableName
from leasehold.errors import Refused
from tests.unit.core.catalog_words import (
    add,
    alter,
    create_database,
    create_table,
    drop_column,
    drop_database,
    drop_table,
    move,
    receipt,
    rename,
    rename_table,
    set_default,
    widen,
)
from tests.unit.core.ddl_words import ground, view

SEVEN = Literal("number", "7")
ADDITIVE = {
    "create database": (create_database("x"), "ALREADY_EXISTS"),
    "alter database": (AlterDatabase(name="db", properties={"k": "v"}), None),
    "create table": (create_table("x"), "ALREADY_EXISTS"),
    "rename table": (rename_table("u", "x"), "NOT_FOUND"),
    "rename table to another case": (rename_table("u", "U"), None),
    "set properties": (alter(k="v"), None),
    "lengthen the ttl": (alter(ttl_ns=10_000), None),
    "take the ttl away": (alter(ttl_ns=0, if_exists=True), None),
    "comment on a database": (Comment(on=OnDatabase(name="db"), text="x"), None),
    "comment on a table": (Comment(on=OnTable(table=TableName("db", "t")), text="x"), None),
    "comment on a column": (Comment(on=OnTable(table=TableName("db", "t")), text="x", column="a"), None),
    "comment on a view": (Comment(on=OnView(view=TableName("e", "v")), text="x"), None),
    "add a column": (add("x"), "ALREADY_EXISTS"),
    "rename a column": (rename("c", "x"), "NOT_FOUND"),
    "move a column": (move("c"), None),
    "widen a column": (widen("a", "BIGINT"), None),
    "set a default": (set_default("a", SEVEN), None),
}
DESTRUCTIVE = {
    "drop an empty database": (drop_database("empty"), "NOT_FOUND"),
    "drop a database with all": (drop_database(cascade=True), "NOT_FOUND"),
    "drop a table": (drop_table("u"), "NOT_FOUND"),
    "drop a table and its view": (drop_table(cascade=True), "NOT_FOUND"),
    "drop a column": (drop_column("c"), "NOT_FOUND"),
    "drop a column and its view": (drop_column("b", cascade=True), "NOT_FOUND"),
    "shorten the ttl": (alter(ttl_ns=1_000, k="v"), None),
    "the first ttl": (alter("u", ttl_ns=1_000), None),
}
STATEMENTS = {**ADDITIVE, **DESTRUCTIVE}
WALL_US = 10**15


def full():
    """Something of everything: view e.v reads column b of db.t, and w reads v; db.u has no TTL yet."""
    base = ground(
        create_database(),
        create_table("t", *"abcd", time_column="d", ttl_ns=5_000),
        create_table("u", "a", "b", time_column="b"),
        create_database("e"),
        create_database("empty"),
    )
    base.put(keys.horizon(2), HorizonRecord(table=2, horizon_us=9))
    base.put(keys.view(50), view(50, (2, (2,)), name="v", database=4))
    base.put(keys.view(51), view(51, (50, ()), name="w", database=4))
    return base


def begun(statement):
    base = full()
    return base, base.begin(statement, wall_us=WALL_US)


def commit(base, changes):
    """What a leader does with a step: it writes what there is to write."""
    if changes:
        base.commit(changes)


def close(base, procedure):
    barrier = receipt(base.catalog.revision)
    commit(base, ddl.close(procedure, base.catalog, barrier=barrier, elapsed_ns=5))


def objects(base):
    """All that is not of statements, with the numbers that only rise left out."""
    catalog = base.catalog
    tables = {
        number: msgspec.structs.replace(one, schema_version=0, deletes=0, deleted=0)
        for number, one in catalog.tables.items()
    }
    horizons = {number: msgspec.structs.replace(one, since=0) for number, one in catalog.horizons.items()}
    others = (catalog.databases, catalog.views, catalog.buckets, catalog.dropped, catalog.grants)
    return tables, horizons, *map(dict, others)


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize("repeats", [1, 2, 3])
def test_each_step_repeated_and_resumed_ends_the_same(name, repeats):
    """An error between any two steps is a leader that resumes: it does the step again on what it finds."""
    statement, _ = STATEMENTS[name]
    once, procedure = begun(statement)
    if procedure.hides:
        commit(once, ddl.finish(procedure, once.catalog))
    close(once, procedure)
    often, resumed = begun(statement)
    assert resumed == procedure
    for _ in range(repeats):
        standing = often.catalog.procedures[procedure.number]
        if standing.hides:
            commit(often, ddl.finish(standing, often.catalog))
            assert ddl.finish(resumed, often.catalog) == ()
    for _ in range(repeats):
        close(often, resumed)
        if resumed.hides:
            assert ddl.finish(resumed, often.catalog) == (), "closed: it was not rolled back"
    assert often.catalog.statements[resumed.statement].outcome is Outcome.COMMITTED
    # How often a step was repeated is told by the revisions alone, which the receipt names.
    assert objects(often) == objects(once)
    assert often.catalog == often.restored()


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_that_has_been_run_already(name):
    """Run again, it has nothing to do, or is refused: what it does is done once."""
    statement, code = STATEMENTS[name]
    base, procedure = begun(statement)
    if procedure.hides:
        commit(base, ddl.finish(procedure, base.catalog))
    close(base, procedure)
    request = base.request(statement, wall_us=WALL_US)
    if code is None:
        assert ddl.begin(request, base.catalog).procedure is None
        return
    with pytest.raises(Refused) as caught:
        ddl.begin(request, base.catalog)
    assert caught.value.code == code
    assert base.catalog == base.restored()


@pytest.mark.parametrize("name", DESTRUCTIVE)
@pytest.mark.parametrize("repeats", [1, 2])
def test_what_is_rolled_back_is_as_it_was(name, repeats):
    base, procedure = begun(DESTRUCTIVE[name][0])
    for _ in range(repeats):
        commit(base, ddl.roll_back(procedure, base.catalog, elapsed_ns=7, pending=(2,)))
    assert objects(base) == objects(full())
    record = base.catalog.statements[procedure.statement]
    assert (record.outcome, record.elapsed_ns, record.pending) == (Outcome.ROLLED_BACK, 7, (2,))
    assert record.dropped == (), "what it did not drop is not its to clean"
    assert procedure.number not in base.catalog.procedures
    close(base, procedure)
    with pytest.raises(Refused) as caught:
        ddl.finish(procedure, base.catalog)
    assert caught.value.code == "ROLLED_BACK"
    assert base.catalog.statements[procedure.statement] == record
    assert base.catalog == base.restored()


@pytest.mark.parametrize("name", DESTRUCTIVE)
def test_what_is_rolled_back_can_be_run_again(name):
    statement, _ = DESTRUCTIVE[name]
    base, procedure = begun(statement)
    commit(base, ddl.roll_back(procedure, base.catalog, elapsed_ns=7))
    again = base.begin(statement, wall_us=WALL_US)
    assert again.hides == procedure.hides
    commit(base, ddl.finish(again, base.catalog))
    close(base, again)
    once, alone = begun(statement)
    commit(once, ddl.finish(alone, once.catalog))
    assert objects(base) == objects(once)


@pytest.mark.parametrize("name", DESTRUCTIVE)
@pytest.mark.parametrize("closed", [False, True])
def test_past_the_point_of_no_return_nothing_is_rolled_back(name, closed):
    base, procedure = begun(DESTRUCTIVE[name][0])
    commit(base, ddl.finish(procedure, base.catalog))
    if closed:
        close(base, procedure)
    with pytest.raises(Refused) as caught:
        ddl.roll_back(procedure, base.catalog, elapsed_ns=7)
    assert caught.value.code == "PAST_RETURN"
    assert caught.value.hint


@pytest.mark.parametrize("name", ADDITIVE)
def test_an_additive_statement_is_not_rolled_back_but_left_pending(name):
    statement, _ = ADDITIVE[name]
    base, procedure = begun(statement)
    with pytest.raises(Refused) as caught:
        ddl.roll_back(procedure, base.catalog, elapsed_ns=7)
    assert caught.value.code == "PAST_RETURN"
    after = objects(base)
    assert after != objects(full())
    revision = base.catalog.revision
    for _ in range(2):
        commit(base, ddl.leave_pending(procedure, base.catalog, revision=revision, elapsed_ns=7, pending=(2, 3)))
    record = base.catalog.statements[procedure.statement]
    assert (record.outcome, record.revision, record.pending) == (Outcome.COMMITTED_PENDING, revision, (2, 3))
    assert procedure.number not in base.catalog.procedures
    close(base, procedure)
    assert base.catalog.statements[procedure.statement] == record, "told once, it stays"
    assert objects(base) == after
    assert base.catalog == base.restored()


@pytest.mark.parametrize("name", DESTRUCTIVE)
def test_a_destructive_statement_is_never_left_pending(name):
    base, procedure = begun(DESTRUCTIVE[name][0])
    with pytest.raises(AssertionError, match="rolled back instead"):
        ddl.leave_pending(procedure, base.catalog, revision=base.catalog.revision, elapsed_ns=7, pending=())


@pytest.mark.parametrize("name", DESTRUCTIVE)
def test_the_point_of_no_return_compares_the_pre_state(name):
    """INV-DROP-1: what is in use again is not deleted."""
    base, procedure = begun(DESTRUCTIVE[name][0])
    before = full()
    in_use = [put(key, record) for key, record in all_objects(before)]
    with pytest.raises(AssertionError, match="INV-DROP-1"):
        ddl.finish(procedure, base.catalog.changed(in_use))


def all_objects(base):
    catalog = base.catalog
    for number, one in catalog.databases.items():
        yield keys.database(number), one
    for number, one in catalog.tables.items():
        yield keys.table(number), one
        yield keys.horizon(number), catalog.horizons.get(number, HorizonRecord(table=number, horizon_us=9))
    for number, one in catalog.views.items():
        yield keys.view(number), one


@pytest.mark.parametrize("name", DESTRUCTIVE)
def test_what_is_hidden_is_found_by_nobody(name):
    base, procedure = begun(DESTRUCTIVE[name][0])
    catalog = base.catalog
    hidden = [
        one.name
        for records in (catalog.databases, catalog.tables, catalog.views)
        for one in records.values()
        if one.state is UseState.PRE_DELETE
    ]
    for one in hidden:
        assert catalog.find_database(one) is None
        for database in ("db", "e"):
            assert catalog.find_table(TableName(database, one)) is None
            assert catalog.find_view(TableName(database, one)) is None
    expiring = [one.hidden_us for one in catalog.horizons.values() if one.hidden_us is not None]
    fields = [one for two in catalog.tables.values() for one in two.fields if one.state is UseState.PRE_DELETE]
    assert len(hidden) + len(expiring) + len(fields) == len(procedure.hides)
