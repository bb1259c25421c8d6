"""Plans of databases and tables: what they write, what goes with what is dropped, and what is too much at once."""

import msgspec
import pytest

from leasehold.core import ddl
from leasehold.core.catalog.plan import put
from leasehold.core.replicas.dropped import cleaned, cleaning
from leasehold.core.replicas.leftovers import leftovers
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import (
    Comparison,
    DatabaseRecord,
    DeleteRecord,
    DroppedRecord,
    GrantRecord,
    HiddenDatabase,
    HiddenTable,
    HiddenView,
    ReplacedRecord,
    Right,
    SegmentRecord,
    UseState,
)
from leasehold.core.words.statements import AlterDatabase, ColumnDefinition, CreateTable, DropView, Literal, TableName
from leasehold.core.words.types import Plain
from leasehold.errors import AlreadyExists, NotFound, Refused
from leasehold.limits.metastorage import TRANSACTION_BYTES_MAX, TRANSACTION_OPERATIONS_MAX
from leasehold.limits.statements import CASCADE_BYTES_MAX, CASCADE_OBJECTS_MAX, CASCADE_RECORDS_MAX, PROPERTIES_MAX
from tests.unit.core.catalog_words import (
    create_database,
    create_table,
    drop_database,
    drop_table,
    hex_128,
    rename_table,
)
from tests.unit.core.ddl_words import BOTH, T, began, field, finished, ground, run, table, view, written


def refused(base, statement, error, code, **context):
    """That it is refused so, with a hint, and that nothing was changed by it."""
    with pytest.raises(error) as caught:
        ddl.begin(base.request(statement, **context), base.catalog)
    assert caught.value.code == code
    assert caught.value.hint
    assert base.catalog == base.restored()
    return caught.value


def nothing_to_do(base, statement):
    return ddl.begin(base.request(statement), base.catalog) == ddl.Begun(changes=(), procedure=None)


def with_view(base, *needs, number=50, **how):
    """A view with a number that no statement gives out here."""
    base.put(keys.view(number), view(number, *needs, **how))
    return base


# ---------------------------------------------------------------- databases


def test_a_database_with_all_it_can_have():
    statement = create_database("Db", comment="of trips", properties={"owner": "me"})
    record = DatabaseRecord(id=1, name="Db", state=UseState.IN_USE, comment="of trips", properties={"owner": "me"})
    assert began(ground(), statement) == ({keys.database(1): record}, 1)


def test_properties_of_a_database():
    base = ground(create_database(properties={"a": "1", "b": "2"}))
    changes = began(base, AlterDatabase(name="DB", properties={"a": None, "b": "3", "c": "4"}))
    record = DatabaseRecord(id=1, name="db", state=UseState.IN_USE, properties={"b": "3", "c": "4"})
    assert changes == ({keys.database(1): record}, 0)


def test_properties_of_a_database_that_are_so_already():
    base = ground(create_database(properties={"a": "1"}))
    assert nothing_to_do(base, AlterDatabase(name="db", properties={"a": "1"}))
    assert nothing_to_do(base, AlterDatabase(name="db", properties={"b": None}, if_exists=True))
    refused(base, AlterDatabase(name="db", properties={"b": None}), NotFound, "NOT_FOUND")
    refused(base, AlterDatabase(name="none", properties={"b": None}, if_exists=True), NotFound, "NOT_FOUND")
    many = {f"k{number}": "" for number in range(PROPERTIES_MAX)}
    refused(base, AlterDatabase(name="db", properties=many), Refused, "BAD_PROPERTY")


def test_a_description_has_a_bound():
    base = ground(create_database())
    refused(base, create_database("e", comment="x" * 2**20), Refused, "TOO_LARGE")
    refused(base, create_table(comment="x" * 2**20), Refused, "TOO_LARGE")
    refused(base, AlterDatabase(name="db", properties={"a": "x" * 2**20}), Refused, "TOO_LARGE")


# ---------------------------------------------------------------- tables


def test_defaults_and_comments_of_a_new_table():
    ones = (
        ColumnDefinition(name="a", type=Plain("INT"), default=Literal("number", "+07"), comment="first"),
        ColumnDefinition(name="b", type=Plain("STRING"), nullable=False, default=Literal("null", "")),
    )
    changes, _ = began(ground(create_database()), CreateTable(name=T, columns=ones, comment="of trips"))
    fields = (field(1, "a", default="7", comment="first"), field(2, "b", type="STRING", nullable=False))
    assert changes[keys.table(2)] == table(fields=fields, comment="of trips")
    bad = msgspec.structs.replace(ones[0], default=Literal("string", "x"))
    refused(ground(create_database()), CreateTable(name=T, columns=(bad,)), Refused, "BAD_VALUE")


def test_a_table_can_not_have_the_name_of_a_view():
    base = with_view(ground(create_database()), name="T")
    refused(base, create_table(), AlreadyExists, "ALREADY_EXISTS")
    refused(base, create_table(if_not_exists=True), AlreadyExists, "ALREADY_EXISTS")
    refused(base, drop_table(if_exists=True), NotFound, "IS_VIEW")


def test_a_view_that_may_come_back_keeps_its_name():
    """CASCADE hides views elsewhere, whose names no claim of the statement has."""
    base = ground(*BOTH, create_database("e"))
    with_view(base, (2, (1,)), database=3, name="t")
    base.begin(drop_table(cascade=True))
    refused(base, create_table("t", database="e"), AlreadyExists, "ALREADY_EXISTS")
    run(base, create_table("u", database="e"))
    refused(base, rename_table("u", "t", database="e"), AlreadyExists, "ALREADY_EXISTS")


def test_rename_table():
    assert began(ground(*BOTH), rename_table("T", "U")) == ({keys.table(2): table(name="U")}, 0)
    assert began(ground(*BOTH), rename_table("t", "T")) == ({keys.table(2): table(name="T")}, 0)
    base = ground(*BOTH, rename_table("t", "u"))
    assert base.catalog.find_table(T) is None
    assert base.catalog.table(TableName("db", "u")).id == 2
    run(base, create_table())
    assert base.catalog.table(T).id == 3


def test_rename_table_refused_or_not_needed():
    base = ground(*BOTH, create_table("u"), create_database("e"))
    assert nothing_to_do(base, rename_table("T", "t"))
    assert nothing_to_do(base, rename_table("none", "x", if_exists=True))
    refused(base, rename_table("none", "x"), NotFound, "NOT_FOUND")
    refused(base, rename_table("t", "U"), AlreadyExists, "ALREADY_EXISTS")
    elsewhere = msgspec.structs.replace(rename_table("t", "x"), to=TableName("e", "x"))
    refused(base, elsewhere, Refused, "OTHER_DATABASE")
    with_view(base, (2, (1,)))
    assert "db.v50" in refused(base, rename_table("t", "x"), Refused, "VIEW_NEEDS_IT").text


# ---------------------------------------------------------------- all that belongs to a table


def segment(number, bucket=0, holders=(3,)):
    return SegmentRecord(
        id=f"{hex_128(1)}-{hex_128(number)}",
        table=2,
        bucket=bucket,
        schema_version=1,
        rows=1,
        size_bytes=1,
        sha256=bytes(32),
        statistics=(),
        holders=holders,
    )


def test_with_a_table_goes_all_that_was_kept_of_it():
    base = ground(create_database(), create_table(replication=1))
    where = (Comparison(field=1, operator="=", value="1"),)
    base.put(keys.delete(2, 4), DeleteRecord(table=2, number=4, state=UseState.IN_USE, where=where))
    base.put(keys.grant(2, 7), GrantRecord(object=2, principal=7, rights=(Right.SELECT,)))
    base.put(keys.grant(1, 7), GrantRecord(object=1, principal=7, rights=(Right.SELECT,)))
    one = segment(1)
    base.put(keys.segment(2, 0, one.id), one)
    base.put(keys.replaced(2, 0, one.id), ReplacedRecord(segment=one))
    procedure = base.begin(drop_table())
    assert written(ddl.finish(procedure, base.catalog)) == {
        keys.table(2): None,
        keys.delete(2, 4): None,
        keys.grant(2, 7): None,
        keys.bucket(2, 0): None,
        keys.dropped(2): DroppedRecord(table=2, name="db.t", pending=(1,)),
        keys.procedure(procedure.number): finished(procedure),
    }
    base.commit(ddl.finish(procedure, base.catalog))
    left = [key for key in leftovers(base.catalog) if key != keys.grant(1, 7)]
    assert left == [keys.replaced(2, 0, one.id), keys.segment(2, 0, one.id)], "which goes behind it"


def test_what_a_statement_dropped_is_told_until_it_is_clean():
    base = ground(create_database(), create_table(replication=1), create_table("u", replication=1))
    procedure = base.begin(drop_database(cascade=True))
    record = base.catalog.statements[procedure.statement]
    assert record.dropped == (2, 3)
    assert cleaning(record, base.catalog) == ()
    base.commit(ddl.finish(procedure, base.catalog))
    assert cleaning(record, base.catalog) == (1, 2)
    base.commit(cleaned(base.catalog, 2, (1,)))
    assert cleaning(record, base.catalog) == (2,)
    base.commit(cleaned(base.catalog, 3, (2,)))
    assert cleaning(record, base.catalog) == ()


# ---------------------------------------------------------------- CASCADE


def chain():
    """Table 2 of database 1, read by view 50 of database 3, read by view 51 of database 1; view 52 reads no table."""
    base = ground(*BOTH, create_database("e"))
    with_view(base, (2, (1,)), database=3)
    with_view(base, (50, ()), number=51)
    return with_view(base, number=52)


def test_what_views_read_stays_without_cascade():
    base = chain()
    error = refused(base, drop_table(), Refused, "VIEW_NEEDS_IT")
    assert "e.v50" in error.text
    assert "CASCADE" in error.hint
    assert "CASCADE" in refused(base, drop_database(), Refused, "NOT_EMPTY").hint


def test_what_another_statement_hides_is_not_hidden_again():
    """EXPLAIN plans while others are under way."""
    base = chain()
    base.begin(DropView(view=TableName("db", "v51")))
    for statement in (drop_table(cascade=True), drop_database(cascade=True)):
        assert "db.v51" in refused(base, statement, Refused, "UNDER_WAY").text


def test_drop_table_cascade():
    base = chain()
    hides = (HiddenView(view=50), HiddenView(view=51), HiddenTable(table=2))
    changes, _ = began(base, drop_table(cascade=True), *hides)
    hidden = UseState.PRE_DELETE
    assert changes == {
        keys.view(50): view(50, (2, (1,)), database=3, state=hidden),
        keys.view(51): view(51, (50, ()), state=hidden),
        keys.table(2): table(state=hidden),
    }
    run(base, drop_table(cascade=True))
    assert set(base.catalog.views) == {52}
    assert set(base.catalog.tables) == set()


def test_drop_database_cascade():
    base = chain()
    base.put(keys.grant(1, 7), GrantRecord(object=1, principal=7, rights=(Right.SELECT,)))
    base.put(keys.grant(51, 7), GrantRecord(object=51, principal=7, rights=(Right.SELECT,)))
    hides = (
        HiddenView(view=50),
        HiddenView(view=51),
        HiddenView(view=52),
        HiddenTable(table=2),
        HiddenDatabase(database=1),
    )
    changes, _ = began(base, drop_database(cascade=True), *hides)
    assert set(changes) == {keys.view(50), keys.view(51), keys.view(52), keys.table(2), keys.database(1)}
    run(base, drop_database(cascade=True))
    catalog = base.catalog
    assert [set(one) for one in (catalog.views, catalog.tables, catalog.databases, catalog.grants)] == [
        set(),
        set(),
        {3},
        set(),
    ]
    assert catalog.dropped[2].name == "db.t", "named while its database was still there"
    assert catalog == base.restored()


def test_drop_database_cascade_without_anything_in_it():
    changes, _ = began(ground(create_database()), drop_database(cascade=True), HiddenDatabase(database=1))
    assert set(changes) == {keys.database(1)}
    assert nothing_to_do(ground(), drop_database(if_exists=True, cascade=True))


def test_a_view_that_is_being_dropped_is_still_needed():
    """Its DROP may be rolled back: then it reads again what it read."""
    base = chain()
    base.put(keys.view(50), msgspec.structs.replace(base.catalog.views[50], state=UseState.PRE_DELETE))
    refused(base, drop_table(), Refused, "VIEW_NEEDS_IT")
    refused(base, rename_table("t", "x"), Refused, "VIEW_NEEDS_IT")


# ---------------------------------------------------------------- too much at once


def copied(base, tables):
    """With so many tables: copies of db.t."""
    one, changes = base.catalog.tables[2], []
    for number in range(3, tables + 2):
        changes.append(put(keys.table(number), msgspec.structs.replace(one, id=number, name=f"t{number}")))
        for bucket in range(one.buckets):
            placed = msgspec.structs.replace(base.catalog.buckets[2, bucket], table=number)
            changes.append(put(keys.bucket(number, bucket), placed))
    base.commit(changes)
    return base


def test_so_many_objects_go_at_once():
    base = copied(ground(*BOTH), CASCADE_OBJECTS_MAX)
    assert "1001 objects" in refused(base, drop_database(cascade=True), Refused, "TOO_LARGE").text
    run(base, drop_table())
    run(base, drop_database(cascade=True))


def test_so_many_records_go_at_once():
    tables, buckets = 100, CASCADE_RECORDS_MAX // 100
    base = copied(ground(create_database(), create_table(buckets=buckets)), tables)
    base.commit([Change(keys.bucket(2, one), None) for one in range(buckets - 3, buckets)])
    base.put(keys.table(2), msgspec.structs.replace(base.catalog.tables[2], buckets=buckets - 3))
    base.put(keys.delete(2, 4), DeleteRecord(table=2, number=4, state=UseState.IN_USE, where=()))
    base.put(keys.grant(2, 7), GrantRecord(object=2, principal=7, rights=(Right.SELECT,)))
    base.put(keys.grant(1, 7), GrantRecord(object=1, principal=7, rights=(Right.SELECT,)))
    with_view(base, (2, (1,)), number=1_000)
    base.put(keys.grant(1_000, 7), GrantRecord(object=1_000, principal=7, rights=(Right.SELECT,)))
    # A DELETE and three rights beside the buckets: one too many.
    assert f"{CASCADE_RECORDS_MAX + 1} buckets" in refused(base, drop_database(cascade=True), Refused, "TOO_LARGE").text
    base.commit([Change(keys.grant(1_000, 7), None)])
    run(base, drop_database(cascade=True))


def test_descriptions_of_so_many_bytes_are_marked_at_once():
    base = ground(*BOTH)
    size = 100_000
    base.put(keys.table(2), msgspec.structs.replace(base.catalog.tables[2], comment="x" * size))
    copied(base, CASCADE_BYTES_MAX // size + 1)
    refused(base, drop_database(cascade=True), Refused, "TOO_LARGE")
    run(base, drop_table())
    run(base, drop_database(cascade=True))


def test_the_most_that_goes_at_once_fits_one_transaction():
    """Buckets and the names of nodes: all in the transaction of the point of no return."""
    buckets = 20
    tables = CASCADE_RECORDS_MAX // buckets - 1
    base = copied(ground(create_database(), create_table(buckets=buckets, replication=3)), tables)
    begun = ddl.begin(base.request(drop_database(cascade=True)), base.catalog)
    base.catalog = base.catalog.changed(begun.changes)
    going = ddl.finish(begun.procedure, base.catalog)
    assert len({change.key for change in going}) == len(going) < TRANSACTION_OPERATIONS_MAX
    assert sum(len(change.key) + len(change.value or b"") for change in going) < TRANSACTION_BYTES_MAX
    base.catalog = base.catalog.changed(going)
    assert (len(base.catalog.tables), len(base.catalog.buckets), len(base.catalog.dropped)) == (0, 0, tables)
