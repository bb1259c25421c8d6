"""Statements as procedures: what their first transaction writes, and that a refusal writes nothing."""

import msgspec
import pytest

from leasehold.core import ddl
from leasehold.core.catalog.catalog import live_fields
from leasehold.core.words import keys
from leasehold.core.words.records import (
    BucketRecord,
    DatabaseRecord,
    HiddenColumn,
    HiddenDatabase,
    HiddenTable,
    TransactionRecord,
    TransactionState,
    UseState,
)
from leasehold.core.words.statements import TableName
from leasehold.errors import AlreadyExists, NotFound, Refused
from leasehold.limits.statements import COLUMNS_MAX, STATEMENT_TEXT_BYTES_KEPT
from tests.unit.core.catalog_words import (
    Ground,
    add,
    create_database,
    create_table,
    drop_column,
    drop_database,
    drop_table,
    node,
    receipt,
    rename,
)
from tests.unit.core.ddl_words import BOTH, T, began, field, ground, run, table

# ---------------------------------------------------------------- the first transaction, statement by statement


def test_create_database():
    record = DatabaseRecord(id=1, name="Db", state=UseState.IN_USE)
    assert began(ground(), create_database("Db")) == ({keys.database(1): record}, 1)


def test_drop_database():
    hidden = DatabaseRecord(id=1, name="db", state=UseState.PRE_DELETE)
    changes = began(ground(create_database()), drop_database("DB"), HiddenDatabase(database=1))
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
    assert began(ground(create_database()), statement) == ({keys.table(2): record, **buckets}, 1)


@pytest.mark.parametrize(("nodes", "replication"), [((1,), 1), ((1, 2), 2), ((1, 2, 3), 2)])
def test_the_default_replication_is_what_a_small_cluster_can_give(nodes, replication):
    base = Ground(nodes=nodes)
    run(base, create_database())
    run(base, create_table())
    assert base.catalog.table(T).replication == replication


def test_add_columns():
    changed = table(schema_version=2, fields=(field(1, "a"), field(2, "b"), field(3, "c"), field(4, "d")), next_field=5)
    changes = began(ground(create_database(), create_table()), add("c", "d"))
    assert changes == ({keys.table(2): changed}, 0)


def test_rename_column():
    changed = table(schema_version=2, fields=(field(1, "z"), field(2, "b")))
    changes = began(ground(create_database(), create_table()), rename("A", "z"))
    assert changes == ({keys.table(2): changed}, 0)


def test_rename_column_to_another_case_of_its_name():
    base = ground(create_database(), create_table(), rename("a", "A"))
    assert [one.name for one in base.catalog.table(T).fields] == ["A", "b"]


def test_drop_column():
    changed = table(schema_version=2, fields=(field(1, "a"), field(2, "b", UseState.PRE_DELETE)))
    changes = began(ground(create_database(), create_table()), drop_column("B"), HiddenColumn(table=2, field=2))
    assert changes == ({keys.table(2): changed}, 0)


def test_drop_table():
    hidden = table(state=UseState.PRE_DELETE)
    changes = began(ground(create_database(), create_table()), drop_table("T"), HiddenTable(table=2))
    assert changes == ({keys.table(2): hidden}, 0)


def test_a_long_text_is_kept_in_part():
    base = ground()
    request = msgspec.structs.replace(base.request(create_database()), text="x" * (STATEMENT_TEXT_BYTES_KEPT + 1))
    begun = ddl.begin(request, base.catalog)
    assert begun.procedure.text == "x" * STATEMENT_TEXT_BYTES_KEPT


# ---------------------------------------------------------------- nothing to do, and refusals


@pytest.mark.parametrize(
    ("before", "statement"),
    [
        ([create_database()], create_database("DB", if_not_exists=True)),
        ([], drop_database(if_exists=True)),
        ([create_database(), create_table()], create_table("T", if_not_exists=True)),
        ([create_database()], drop_table(if_exists=True)),
        ([], drop_table(if_exists=True)),
        (BOTH, drop_column("none", if_exists=True)),
    ],
)
def test_if_exists_and_if_not_exists_have_nothing_to_do(before, statement):
    base = ground(*before)
    assert ddl.begin(base.request(statement), base.catalog) == ddl.Begun(changes=(), procedure=None)


@pytest.mark.parametrize(
    ("statement", "hides"),
    [
        (create_database("e", if_not_exists=True), ()),
        (create_table("u", if_not_exists=True), ()),
        (drop_table(if_exists=True), (HiddenTable(table=2),)),
        (drop_column("b", if_exists=True), (HiddenColumn(table=2, field=2),)),
    ],
)
def test_if_exists_and_if_not_exists_do_what_is_to_do(statement, hides):
    changes, _ = began(ground(*BOTH), statement, *hides)
    assert changes


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
        ddl.begin(base.request(statement), catalog)
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


def test_a_definition_under_the_id_of_a_write_transaction_changes_nothing():
    base = ground(create_database(), create_table())
    request = base.request(drop_table())
    written = TransactionRecord(
        id=request.id, order=1, table=2, schema_version=1, state=TransactionState.COMMITTED, rows=1
    )
    base.put(keys.transaction(request.id), written)
    with pytest.raises(Refused) as caught:
        ddl.begin(request, base.catalog)
    assert caught.value.code == "STATEMENT_ID_USED"


# ---------------------------------------------------------------- what people are told besides


def test_a_table_with_replicas_on_nodes_that_do_not_serve_says_so():
    base = ground(create_database())
    statement = base.begin(create_table(replication=3), serving=(1, 3)).statement
    (note,) = base.catalog.statements[statement].notes
    assert note == f"2 of 3 replicas are on nodes that serve; the others are on {base.catalog.nodes[2].name}"


def test_a_table_with_all_replicas_on_nodes_that_serve_has_no_note():
    base = ground(create_database())
    statement = base.begin(create_table(replication=2), serving=(1, 3)).statement
    assert base.catalog.statements[statement].notes == ()


def test_a_statement_counts_the_leaders_that_took_it_up():
    base = ground(create_database())
    statement = base.begin(create_table()).statement
    record = ddl.ended(base.catalog.statements[statement], receipt(base.catalog.revision), 5)
    assert ddl.leader_changes(record) == 0, "it does not know under which term it began"
    under_2 = msgspec.structs.replace(record, term=2, barriers=(msgspec.structs.replace(record.barriers[0], term=4),))
    assert ddl.leader_changes(under_2) == 2
    assert ddl.leader_changes(msgspec.structs.replace(under_2, barriers=())) == 0
