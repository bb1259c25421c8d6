"""The catalog: the same whether it was followed or restored, never changed in place, and sure of its history."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.catalog.apply import COLLECTIONS
from leasehold.core.catalog.catalog import Catalog, Diverged, field_named, live_fields
from leasehold.core.catalog.plan import put
from leasehold.core.data.commit import abort_transaction, commit_transaction, open_transaction
from leasehold.core.data.seals import sealed
from leasehold.core.ddl import close, finish
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.lineage import GENESIS
from leasehold.core.words.messages import CommitTransaction, OpenTransaction, SegmentHolder, StagedSegment
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import DatabaseRecord, HorizonRecord, UseState
from leasehold.core.words.statements import TableName
from leasehold.errors import Corrupt, NotFound, Refused
from leasehold.ids import Revision
from tests.few import examples
from tests.unit.core.catalog_words import (
    Ground,
    add,
    alter,
    create_database,
    create_table,
    drop_column,
    drop_database,
    drop_table,
    hex_128,
    move,
    node,
    receipt,
    rename,
    rename_table,
    widen,
)

NAMES = st.sampled_from(["d1", "D2"])
TABLES = st.sampled_from(["t1", "T2"])
COLUMNS = st.sampled_from(["a", "B", "c"])
TTLS = st.sampled_from([None, 0, 1_000, 2_000])
STATEMENTS = st.one_of(
    st.builds(create_database, NAMES),
    st.builds(drop_database, NAMES),
    st.builds(lambda name, database: create_table(name, database=database, buckets=2, time_column="a"), TABLES, NAMES),
    st.builds(lambda name, database: drop_table(name, database=database), TABLES, NAMES),
    st.builds(lambda one, name, database: add(one, table=name, database=database), COLUMNS, TABLES, NAMES),
    st.builds(
        lambda a, b, name, database: rename(a, b, table=name, database=database), COLUMNS, COLUMNS, TABLES, NAMES
    ),
    st.builds(lambda one, name, database: drop_column(one, table=name, database=database), COLUMNS, TABLES, NAMES),
    st.builds(lambda one, name, database: move(one, table=name, database=database), COLUMNS, TABLES, NAMES),
    st.builds(lambda one, name, database: widen(one, "BIGINT", table=name, database=database), COLUMNS, TABLES, NAMES),
    st.builds(lambda name, to, database: rename_table(name, to, database=database), TABLES, TABLES, NAMES),
    st.builds(lambda ttl_ns, name, database: alter(name, database=database, ttl_ns=ttl_ns, k="v"), TTLS, TABLES, NAMES),
    st.builds(lambda name: drop_database(name, cascade=True), NAMES),
)
DATA = st.sampled_from(["write", "abort", "close", "horizon", "restart"])


def take(ground, action, number):
    """One more valid revision, if the action is valid now."""
    catalog = ground.catalog
    try:
        match action:
            case "write" | "abort":
                write(ground, number, commit=action == "write")
            case "close":
                for one in sorted(catalog.procedures):
                    barrier = receipt(catalog.revision)
                    closed = close(ground.catalog.procedures[one], ground.catalog, barrier=barrier, elapsed_ns=1)
                    ground.commit(closed, skip=number % 3)
            case "horizon":
                for table in sorted(catalog.tables):
                    ground.put(keys.horizon(table), HorizonRecord(table=table, horizon_us=number))
            case "restart":
                ground.put(keys.node(1), node(1, incarnation=number + 2))
            case statement:
                procedure = ground.begin(statement)
                if procedure is not None and procedure.hides:
                    ground.commit(finish(procedure, ground.catalog))
    except Refused:
        assert ground.catalog is catalog, "a refusal changes nothing"


def write(ground, number, *, commit):
    tables = sorted(ground.catalog.tables.values(), key=lambda one: one.id)
    if not tables:
        return
    table = tables[number % len(tables)]
    transaction = hex_128(number + 1)
    asked = OpenTransaction(cluster_id="", transaction=transaction, table=table.id, schema_version=table.schema_version)
    ground.commit(open_transaction(asked, ground.catalog))
    if not commit:
        ground.commit(abort_transaction(transaction, ground.catalog))
        return
    bucket = ground.catalog.buckets[table.id, 0]
    segment = StagedSegment(
        id=f"{transaction}-{hex_128(1)}",
        table=table.id,
        bucket=0,
        schema_version=table.schema_version,
        rows=1,
        size_bytes=1,
        sha256=bytes(32),
        statistics=(),
        holders=(SegmentHolder(node=bucket.replicas[0], incarnation=1),),
    )
    order = ground.catalog.transactions[transaction].order
    holders = tuple(sealed(one, b"key", segment, order) for one in segment.holders)
    segment = msgspec.structs.replace(segment, holders=holders)
    request = CommitTransaction(cluster_id="", transaction=transaction, segments=(segment,))
    live, seal_keys = {1: 1, 2: 1, 3: 1}, {1: b"key", 2: b"key", 3: b"key"}
    ground.commit(commit_transaction(request, ground.catalog, incarnations=live, seal_keys=seal_keys, wall_us=0))


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.one_of(STATEMENTS, DATA), max_size=30))
def test_following_every_revision_ends_where_restoring_the_last_one_does(actions):
    ground = Ground()
    for number, action in enumerate(
        [create_database("d1"), create_table("t1", database="d1", time_column="a"), *actions]
    ):
        take(ground, action, number)
    followed = Catalog()
    for batch in ground.batches:
        followed = followed.applying(batch)
    assert followed == ground.restored() == ground.catalog
    middle = restored_at(ground.batches[: len(ground.batches) // 2])
    for batch in ground.batches[len(ground.batches) // 2 :]:
        middle = middle.applying(batch)
    assert middle == followed, "as a node that restarts does it"
    assert sum(map(len, followed.relation_names.values())) == len(followed.tables), "each table has its name"
    assert sorted(followed.database_names.values()) == sorted(followed.databases)


def restored_at(batches):
    items = {}
    for batch in batches:
        items.update((change.key, change.value) for change in batch.changes)
    lineage = items.get(keys.LINEAGE, GENESIS)
    kept = [Change(key, value) for key, value in sorted(items.items()) if value is not None]
    return Catalog.restored(batches[-1].revision if batches else 0, lineage, kept)


def history():
    """Five revisions that each matter."""
    ground = Ground()
    for statement in (create_database("d"), create_table("t", database="d"), add("x", database="d", table="t")):
        ground.begin(statement)
    ground.put(keys.node(2), node(2, incarnation=2))
    return ground.batches


def follow(batches):
    catalog = Catalog()
    for batch in batches:
        catalog = catalog.applying(batch)
    return catalog


@pytest.mark.parametrize("lost", range(4))
def test_a_lost_revision_is_noticed_at_the_next_one(lost):
    batches = history()
    with pytest.raises(Diverged):
        follow([*batches[:lost], *batches[lost + 1 :]])


@pytest.mark.parametrize("doubled", range(5))
def test_a_doubled_revision_is_noticed(doubled):
    batches = history()
    catalog = follow(batches[: doubled + 1])
    with pytest.raises(AssertionError, match="each once"):
        catalog.applying(batches[doubled])
    with pytest.raises(Diverged):
        catalog.applying(RevisionChanges(catalog.revision + 1, batches[doubled].changes))


@pytest.mark.parametrize("at", range(4))
def test_two_revisions_in_the_wrong_order_are_noticed(at):
    batches = history()
    first, second = batches[at], batches[at + 1]
    swapped = [RevisionChanges(first.revision, second.changes), RevisionChanges(second.revision, first.changes)]
    with pytest.raises(Diverged):
        follow([*batches[:at], *swapped])


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("harm", ["value", "missing", "added", "no lineage", "bare"])
def test_a_changed_revision_is_noticed(at, harm):
    batches = history()
    changes = batches[at].changes
    first = next(one for one in changes if one.key != keys.LINEAGE)
    match harm:
        case "value":
            changed = tuple(Change(one.key, b"?") if one is first else one for one in changes)
        case "missing":
            changed = tuple(one for one in changes if one is not first)
        case "added":
            changed = (*changes, Change(keys.horizon(7), None))
        case "no lineage":
            changed = tuple(one for one in changes if one.key != keys.LINEAGE)
        case "bare":
            changed = ()
    catalog = follow(batches[:at])
    with pytest.raises(Diverged):
        catalog.applying(RevisionChanges(batches[at].revision, changed))


def test_an_older_catalog_never_changes():
    ground = Ground()
    ground.begin(create_database())
    ground.begin(create_table("t", "a"))
    before = ground.catalog
    twin = ground.restored()
    ground.begin(add("b"))
    ground.begin(create_table("u"))
    ground.commit(finish(ground.begin(drop_table()), ground.catalog))
    assert before == twin
    assert [field.name for field in live_fields(before.table(TableName("db", "t")))] == ["a"]
    assert before.find_table(TableName("db", "u")) is None
    assert ground.catalog.find_table(TableName("db", "t")) is None
    draft = before.changed((Change(keys.table(before.table(TableName("db", "t")).id), None),))
    assert draft.revision == before.revision
    assert before == twin
    with pytest.raises(AttributeError):
        before.revision = 9  # frozen
    assert before.changed(()) is before


def test_names_are_found_in_any_case_and_shown_as_written():
    ground = Ground()
    ground.begin(create_database("Nyc"))
    ground.begin(create_table("Weather", "Temp", database="NYC"))
    table = ground.catalog.table(TableName("nYc", "wEATHER"))
    assert str(ground.catalog.table_name(table)) == "Nyc.Weather"
    assert field_named(table, "tEMP").name == "Temp"
    with pytest.raises(NotFound, match="no column wind"):
        field_named(table, "wind")
    with pytest.raises(NotFound, match="no database x"):
        ground.catalog.table(TableName("x", "weather"))
    with pytest.raises(NotFound, match=r"no table nyc\.x"):
        ground.catalog.table(TableName("nyc", "x"))


def test_a_name_that_belongs_to_another_object_by_now_survives_the_end_of_the_old_one():
    ground = Ground()
    old = DatabaseRecord(id=1, name="db", state=UseState.PRE_DELETE)
    new = DatabaseRecord(id=2, name="DB", state=UseState.IN_USE)
    ground.put(keys.database(1), old)
    ground.put(keys.database(2), new)
    ground.commit((Change(keys.database(1), None),))
    assert ground.catalog.find_database("db") == new
    assert ground.catalog == ground.restored()


@pytest.mark.parametrize(
    "change",
    [
        Change(b"c/newthing/1", b""),
        Change(b"c/newthing", None),
        Change(keys.database(1), encode(node(1))),
        Change(keys.database(1), b"\xff"),
    ],
)
def test_what_can_not_be_understood_is_corrupt_and_changes_nothing(change):
    catalog = Ground().catalog
    with pytest.raises(Corrupt):
        catalog.changed((put(keys.node(1), node(1, incarnation=9)), change))
    assert catalog == Ground().catalog


@pytest.mark.parametrize("prefix", sorted(COLLECTIONS))
@pytest.mark.parametrize("rest", [b"00000\xff0001", b"\xff", b"0000000001/00000/\xff"])
def test_a_key_with_a_wrong_bit_is_damage(prefix: bytes, rest: bytes) -> None:
    """A person is then told which place to leave out, instead of reading a traceback."""
    with pytest.raises(Corrupt):
        Catalog.restored(Revision(1), GENESIS, [Change(b"c/%s/%s" % (prefix, rest), b"value")])
