"""Statements as procedures: what each transaction writes, that a refusal writes nothing, that each step repeats."""

import msgspec
import pytest

from leasehold.core import ddl, keys
from leasehold.core.catalog import live_fields
from leasehold.core.codec import decode_record
from leasehold.core.operations import Change
from leasehold.core.queueing import Claim
from leasehold.core.records import (
    BucketRecord,
    CountersRecord,
    DatabaseRecord,
    DroppedRecord,
    Field,
    HorizonRecord,
    Outcome,
    ProcedureRecord,
    Record,
    StatementRecord,
    Step,
    TableRecord,
    UseState,
)
from leasehold.core.statements import TableName
from leasehold.errors import AlreadyExists, NotFound, Refused
from leasehold.limits import COLUMNS_MAX, PURGE_BATCH, STATEMENT_TEXT_KEPT, STATEMENTS_KEPT
from tests.unit.core.catalog_words import (
    Ground,
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

T = TableName("db", "t")


def written(changes):
    """Every change of a transaction by its key, decoded."""
    assert len({change.key for change in changes}) == len(changes)
    return {change.key: None if change.value is None else decode_record(Record, change.value) for change in changes}


def ground(*statements):
    """A cluster of three nodes on which these statements have run to their end."""
    base = Ground()
    for statement in statements:
        run(base, statement)
    return base


def run(base, statement):
    procedure = base.begin(statement)
    if procedure is not None:
        base.commit(ddl.finish(procedure, base.catalog)) if procedure.kind == "destructive" else None
        close(base, procedure)
    return procedure


def close(base, procedure):
    return base.commit(ddl.close(procedure, base.catalog, barrier=receipt(base.catalog.revision), elapsed_ns=5))


def began(base, statement, kind, target, field=None):
    """What the first transaction of any statement writes besides its own change."""
    counters = base.catalog.counters
    number = counters.next_procedure
    request = base.request(statement)
    begun = ddl.begin(request, base.catalog, (1, 2, 3))
    procedure = ProcedureRecord(
        number=number,
        statement=request.id,
        text=request.text,
        step=Step.PUBLISHED if kind == "additive" else Step.PRE_STATE,
        kind=kind,
        target=target,
        field=field,
    )
    assert begun.procedure == procedure
    changes = written(begun.changes)
    assert changes.pop(keys.procedure(number)) == procedure
    assert changes.pop(keys.statement(request.id)) == StatementRecord(
        id=request.id,
        order=number,
        text=request.text,
        outcome=Outcome.RUNNING,
        revision=None,
        elapsed_ns=0,
        bound_ns=4_000,
        barriers=(),
        pending=(),
    )
    after = changes.pop(keys.COUNTERS)
    assert after == msgspec.structs.replace(counters, next_procedure=number + 1, next_object=after.next_object)
    return changes, after.next_object - counters.next_object


def field(number, name, state=UseState.IN_USE):
    return Field(id=number, name=name, type="INT", nullable=True, state=state)


def table(**fields):
    whole = TableRecord(
        id=2,
        database=1,
        name="t",
        state=UseState.IN_USE,
        schema_version=1,
        fields=(field(1, "a"), field(2, "b")),
        next_field=3,
        cluster_by=None,
        buckets=1,
        replication=2,
        ttl_ns=None,
        time_column=None,
        properties={},
    )
    return msgspec.structs.replace(whole, **fields)


# ---------------------------------------------------------------- the first transaction, statement by statement


def test_create_database():
    record = DatabaseRecord(id=1, name="Db", state=UseState.IN_USE)
    assert began(ground(), create_database("Db"), "additive", 1) == ({keys.database(1): record}, 1)


def test_drop_database():
    hidden = DatabaseRecord(id=1, name="db", state=UseState.PRE_DELETE)
    changes = began(ground(create_database()), drop_database("DB"), "destructive", 1)
    assert changes == ({keys.database(1): hidden}, 0)


def test_create_table_with_all_it_can_have():
    statement = create_table(
        cluster_by="B",
        buckets=2,
        replication=3,
        ttl_ns=60,
        time_column="a",
        properties={"owner": "me"},
    )
    record = table(buckets=2, replication=3, cluster_by=2, ttl_ns=60, time_column=1, properties={"owner": "me"})
    buckets = {
        keys.bucket(2, 0): BucketRecord(table=2, bucket=0, replicas=(1, 2, 3), in_sync=(1, 2, 3)),
        keys.bucket(2, 1): BucketRecord(table=2, bucket=1, replicas=(2, 3, 1), in_sync=(2, 3, 1)),
    }
    assert began(ground(create_database()), statement, "additive", 2) == ({keys.table(2): record, **buckets}, 1)


@pytest.mark.parametrize(("nodes", "replication"), [((1,), 1), ((1, 2), 2), ((1, 2, 3), 2)])
def test_the_default_replication_is_what_a_small_cluster_can_give(nodes, replication):
    base = Ground(nodes=nodes)
    run(base, create_database())
    run(base, create_table())
    assert base.catalog.table(T).replication == replication


def test_add_columns():
    changed = table(schema_version=2, fields=(field(1, "a"), field(2, "b"), field(3, "c"), field(4, "d")), next_field=5)
    changes = began(ground(create_database(), create_table()), add("c", "d"), "additive", 2)
    assert changes == ({keys.table(2): changed}, 0)


def test_rename_column():
    changed = table(schema_version=2, fields=(field(1, "z"), field(2, "b")))
    changes = began(ground(create_database(), create_table()), rename("A", "z"), "additive", 2)
    assert changes == ({keys.table(2): changed}, 0)


def test_rename_column_to_another_case_of_its_name():
    base = ground(create_database(), create_table(), rename("a", "A"))
    assert [one.name for one in base.catalog.table(T).fields] == ["A", "b"]


def test_drop_column():
    changed = table(schema_version=2, fields=(field(1, "a"), field(2, "b", UseState.PRE_DELETE)))
    changes = began(ground(create_database(), create_table()), drop_column("B"), "destructive", 2, 2)
    assert changes == ({keys.table(2): changed}, 0)


def test_drop_table():
    hidden = table(state=UseState.PRE_DELETE)
    changes = began(ground(create_database(), create_table()), drop_table("T"), "destructive", 2)
    assert changes == ({keys.table(2): hidden}, 0)


def test_a_long_text_is_kept_in_part():
    base = ground()
    request = msgspec.structs.replace(base.request(create_database()), text="x" * (STATEMENT_TEXT_KEPT + 1))
    begun = ddl.begin(request, base.catalog, ())
    assert begun.procedure.text == "x" * STATEMENT_TEXT_KEPT


# ---------------------------------------------------------------- nothing to do, and refusals


@pytest.mark.parametrize(
    ("before", "statement"),
    [
        ([create_database()], create_database("DB", if_not_exists=True)),
        ([], drop_database(if_exists=True)),
        ([create_database(), create_table()], create_table("T", if_not_exists=True)),
        ([create_database()], drop_table(if_exists=True)),
        ([], drop_table(if_exists=True)),
    ],
)
def test_if_exists_and_if_not_exists_have_nothing_to_do(before, statement):
    base = ground(*before)
    assert ddl.begin(base.request(statement), base.catalog, (1, 2, 3)) == ddl.Begun(changes=(), procedure=None)


@pytest.mark.parametrize(
    ("statement", "kind", "target"),
    [
        (create_database("e", if_not_exists=True), "additive", 3),
        (create_table("u", if_not_exists=True), "additive", 3),
        (drop_table(if_exists=True), "destructive", 2),
    ],
)
def test_if_exists_and_if_not_exists_do_what_is_to_do(statement, kind, target):
    changes, _ = began(ground(create_database(), create_table()), statement, kind, target)
    assert changes


BOTH = [create_database(), create_table()]


@pytest.mark.parametrize(
    ("before", "statement", "error", "code"),
    [
        ([create_database()], create_database("DB"), AlreadyExists, "ALREADY_EXISTS"),
        ([], drop_database(), NotFound, "NOT_FOUND"),
        (BOTH, drop_database(), Refused, "NOT_EMPTY"),
        (BOTH, create_table("T"), AlreadyExists, "ALREADY_EXISTS"),
        ([], create_table(), NotFound, "NOT_FOUND"),
        ([], create_table(if_not_exists=True), NotFound, "NOT_FOUND"),
        ([create_database()], create_table(replication=4), Refused, "TOO_FEW_NODES"),
        ([create_database()], drop_table(), NotFound, "NOT_FOUND"),
        ([], drop_table(), NotFound, "NOT_FOUND"),
        (BOTH, add("x", table="none"), NotFound, "NOT_FOUND"),
        (BOTH, add("x", "A"), AlreadyExists, "ALREADY_EXISTS"),
        (BOTH, add(*(f"x{number}" for number in range(COLUMNS_MAX - 1))), Refused, "TOO_MANY_COLUMNS"),
        (BOTH, rename("none", "x"), NotFound, "NOT_FOUND"),
        (BOTH, rename("a", "B"), AlreadyExists, "ALREADY_EXISTS"),
        (BOTH, drop_column("none"), NotFound, "NOT_FOUND"),
        ([create_database(), create_table("t", "a")], drop_column("a"), Refused, "LAST_COLUMN"),
        ([create_database(), create_table(cluster_by="a", buckets=2)], drop_column("a"), Refused, "COLUMN_IN_USE"),
        ([create_database(), create_table(time_column="b", ttl_ns=9)], drop_column("b"), Refused, "COLUMN_IN_USE"),
    ],
)
def test_a_refusal_changes_nothing_and_says_what_to_do(before, statement, error, code):
    base = ground(*before)
    catalog = base.catalog
    with pytest.raises(error) as caught:
        ddl.begin(base.request(statement), catalog, (1, 2, 3))
    assert caught.value.code == code
    assert caught.value.hint
    assert catalog == base.restored()


def test_nodes_that_never_joined_or_were_removed_hold_no_buckets():
    base = Ground(nodes=(1, 2))
    base.put(keys.node(2), node(2, removed=True))
    base.put(keys.node(3), node(3, incarnation=0))
    run(base, create_database())
    with pytest.raises(Refused, match="the cluster has 1"):
        base.begin(create_table(replication=2))


# ---------------------------------------------------------------- hidden from the pre-state on


def test_what_is_about_to_go_is_hidden_and_refused():
    base = ground(*BOTH, create_table("u"))
    base.begin(drop_table())
    catalog = base.catalog
    assert catalog.find_table(T) is None
    with pytest.raises(NotFound):
        base.begin(add("x"))
    with pytest.raises(Refused, match="holds 2 tables"):
        base.begin(drop_database())
    base.begin(drop_column("b", table="u"))
    hidden = base.catalog.table(TableName("db", "u"))
    assert [one.name for one in live_fields(hidden)] == ["a"]
    with pytest.raises(NotFound):
        base.begin(rename("b", "c", table="u"))
    with pytest.raises(Refused, match="only column"):
        base.begin(drop_column("a", table="u"))


def test_a_database_about_to_go_hides_nothing_else():
    base = ground(create_database(), create_database("other"))
    base.begin(drop_database())
    assert base.catalog.find_database("db") is None
    assert base.catalog.find_database("other") is not None
    with pytest.raises(NotFound):
        base.begin(create_table())


# ---------------------------------------------------------------- the point of no return


def finished(procedure):
    return msgspec.structs.replace(procedure, step=Step.FINISHED)


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
            ddl.put(keys.table(2), table()),
            ddl.put(keys.database(3), msgspec.structs.replace(catalog.databases[3], state=UseState.IN_USE)),
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
        if standing.kind == "destructive":
            commit_if_any(often, ddl.finish(resumed, often.catalog))
            assert ddl.finish(often.catalog.procedures[procedure.number], often.catalog) == ()
    for _ in range(repeats):
        commit_if_any(often, ddl.close(resumed, often.catalog, barrier=receipt(often.catalog.revision), elapsed_ns=5))
        if resumed.kind == "destructive":
            assert ddl.finish(resumed, often.catalog) == (), "closed: it was not rolled back"
    assert often.items == once.items


def commit_if_any(base, changes):
    if changes:
        base.commit(changes)


def test_finished_statements_are_forgotten_in_batches_the_oldest_first():
    base = ground()
    procedure = base.begin(create_database())
    record = base.catalog.statements[procedure.statement]
    others = STATEMENTS_KEPT + PURGE_BATCH - 1
    old = [
        msgspec.structs.replace(record, id=hex_128(10_000 + number), order=-number, outcome=Outcome.COMMITTED)
        for number in range(others)
    ]
    running = msgspec.structs.replace(record, id=hex_128(9), order=-others, outcome=Outcome.RUNNING)
    catalog = base.catalog.changed(ddl.put(keys.statement(one.id), one) for one in old)
    assert len(written(ddl.close(procedure, catalog, barrier=receipt(2), elapsed_ns=1))) == 2, "not one too many yet"
    catalog = catalog.changed((ddl.put(keys.statement(running.id), running),))
    changes = written(ddl.close(procedure, catalog, barrier=receipt(2), elapsed_ns=1))
    forgotten = {key for key, record in changes.items() if record is None} - {keys.procedure(procedure.number)}
    assert forgotten == {keys.statement(one.id) for one in old[-PURGE_BATCH:]}, "and none that still runs"
    assert changes[keys.statement(procedure.statement)].outcome is Outcome.COMMITTED


# ---------------------------------------------------------------- cleaning up


def test_each_node_is_struck_off_once():
    base = ground(create_database(), create_table(replication=2), drop_table())
    assert base.catalog.dropped[2].pending == (1, 2)
    assert ddl.cleaned(base.catalog, 2, 3) == ()
    assert ddl.cleaned(base.catalog, 9, 1) == ()
    left = DroppedRecord(table=2, name="db.t", pending=(2,))
    assert written(ddl.cleaned(base.catalog, 2, 1)) == {keys.dropped(2): left}
    base.put(keys.dropped(2), left)
    assert ddl.cleaned(base.catalog, 2, 1) == ()
    assert ddl.cleaned(base.catalog, 2, 2) == (Change(keys.dropped(2), None),)


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


# ---------------------------------------------------------------- claims


@pytest.mark.parametrize("statement", [create_database("DB"), drop_database("db")])
def test_a_database_is_claimed_alone(statement):
    assert ddl.claims(statement) == {"database db": Claim.EXCLUSIVE}


@pytest.mark.parametrize(
    "statement", [create_table("T"), drop_table(), add("x"), rename("a", "b"), drop_column("a", database="DB")]
)
def test_a_table_is_claimed_alone_and_its_database_with_others(statement):
    assert ddl.claims(statement) == {"database db": Claim.SHARED, "table db.t": Claim.EXCLUSIVE}
