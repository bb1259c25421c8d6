"""The indices of a catalog: always what the records alone say, however they came to be."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import Holding
from leasehold.core.replicas.leftovers import count, leftovers
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record, encode
from leasehold.core.words.operations import Change
from leasehold.core.words.records import (
    BucketRecord,
    GrantRecord,
    Need,
    PrincipalKind,
    PrincipalRecord,
    QueryRecord,
    Record,
    ReplacedRecord,
    Right,
    SegmentRecord,
    TableRecord,
    TokenRecord,
    TransactionRecord,
    TransactionState,
    UseState,
    ViewRecord,
)
from leasehold.core.words.statements import fold
from tests.few import examples

TABLES, VIEWS = st.integers(1, 3), st.integers(4, 5)
BUCKETS = st.integers(0, 2)
SEGMENTS = st.integers(1, 2)
PRINCIPALS = st.integers(7, 8)
NODES = st.lists(st.integers(1, 4), unique=True, min_size=1, max_size=3).map(tuple)


def name(number):
    return f"{number:032x}-{number:032x}"


def table(number, ttl_ns, database=1):
    record = TableRecord(
        id=number,
        database=database,
        name=f"T{number}",
        state=UseState.IN_USE,
        schema_version=1,
        fields=(),
        next_field=1,
        cluster_by=None,
        buckets=3,
        replication=1,
        ttl_ns=ttl_ns,
        time_column=None,
        properties={},
    )
    return Change(keys.table(number), encode(record))


def view(number, name, needs):
    record = ViewRecord(
        id=number,
        database=1,
        name=f"{name}{number}",
        state=UseState.IN_USE,
        body="SELECT 1",
        columns=(),
        needs=tuple(Need(object=one, fields=()) for one in needs),
    )
    return Change(keys.view(number), encode(record))


def bucket(number, which, replicas):
    record = BucketRecord(table=number, bucket=which, replicas=replicas, in_sync=replicas)
    return Change(keys.bucket(number, which), encode(record))


def segment(number, which, one):
    record = SegmentRecord(
        id=name(one),
        table=number,
        bucket=which,
        schema_version=1,
        rows=1,
        size_bytes=1,
        sha256=b"",
        statistics=(),
        holders=(1,),
    )
    return Change(keys.segment(number, which, name(one)), encode(record))


def replaced(number, which, one):
    record = decode_record(Record, segment(number, which, one).value)
    return Change(keys.replaced(number, which, name(one)), encode(ReplacedRecord(segment=record)))


def principal(number):
    record = PrincipalRecord(
        id=number, name=f"p{number}", kind=PrincipalKind.ROLE, state=UseState.IN_USE, password_hash=None, roles=()
    )
    return Change(keys.principal(number), encode(record))


def grant(number, who):
    record = GrantRecord(object=number, principal=who, rights=(Right.SELECT,))
    return Change(keys.grant(number, who), encode(record))


def transaction(number, state, who):
    record = TransactionRecord(
        id=name(number), order=number, table=1, schema_version=1, state=state, rows=0, begun_by=who
    )
    return Change(keys.transaction(record.id), encode(record))


def query(table, number, who):
    record = QueryRecord(table=table, query=name(number), deletes=0, undecided=(), earliest_us=None, begun_by=who)
    return Change(keys.query(table, record.query), encode(record))


def token(number, name):
    record = TokenRecord(hash=bytes([number]), name=f"{name}{number}", user=7, made_us=0, expires_us=None)
    return Change(keys.token(record.hash), encode(record))


CHANGES = st.one_of(
    st.builds(token, SEGMENTS, st.sampled_from("aB")),
    st.builds(lambda number: Change(keys.token(bytes([number])), None), SEGMENTS),
    st.builds(transaction, SEGMENTS, st.sampled_from(TransactionState), st.none() | PRINCIPALS),
    st.builds(lambda number: Change(keys.transaction(name(number)), None), SEGMENTS),
    st.builds(query, TABLES, SEGMENTS, st.none() | PRINCIPALS),
    st.builds(lambda number, one: Change(keys.query(number, name(one)), None), TABLES, SEGMENTS),
    st.builds(table, TABLES, st.none() | st.integers(1, 9), st.integers(1, 2)),
    st.builds(view, VIEWS, st.sampled_from("ab"), st.lists(TABLES | VIEWS, max_size=3)),
    st.builds(lambda number: Change(keys.view(number), None), VIEWS),
    st.builds(bucket, TABLES, BUCKETS, NODES),
    st.builds(segment, TABLES, BUCKETS, SEGMENTS),
    st.builds(lambda number: Change(keys.table(number), None), TABLES),
    st.builds(lambda number, which: Change(keys.bucket(number, which), None), TABLES, BUCKETS),
    st.builds(
        lambda number, which, one: Change(keys.segment(number, which, name(one)), None), TABLES, BUCKETS, SEGMENTS
    ),
    st.builds(replaced, TABLES, BUCKETS, SEGMENTS),
    st.builds(
        lambda number, which, one: Change(keys.replaced(number, which, name(one)), None), TABLES, BUCKETS, SEGMENTS
    ),
    st.builds(principal, PRINCIPALS),
    st.builds(lambda number: Change(keys.principal(number), None), PRINCIPALS),
    st.builds(grant, TABLES, PRINCIPALS),
    st.builds(lambda number, who: Change(keys.grant(number, who), None), TABLES, PRINCIPALS),
)


def as_told_by_the_records(catalog):
    gone = [(one, None) for one in {*catalog.segments, *catalog.replaced} if one[0] not in catalog.tables]
    granted = [(who, (target, None)) for target, names in catalog.grants.items() for who in names]
    return {
        "loads": dict(Counter(node for one in catalog.buckets.values() for node in one.replicas)),
        "expiring": {one.id: one.ttl_ns for one in catalog.tables.values() if one.ttl_ns is not None},
        "leftovers": grouped((table, (bucket, None)) for (table, bucket), _ in gone),
        "rights_of": grouped(granted),
        "token_names": {fold(one.name): key for key, one in catalog.tokens.items()},
        "ownerless": {who: None for who, _ in granted if who not in catalog.principals},
        "relation_names": grouped(
            (one.database, (fold(one.name), one.id)) for one in (*catalog.tables.values(), *catalog.views.values())
        ),
        "open_transactions": grouped(
            (one.begun_by, (one.id, None))
            for one in catalog.transactions.values()
            if one.state is TransactionState.OPEN
        ),
        "queries_of": grouped((one.begun_by, (key, None)) for key, one in catalog.queries.items()),
        "readers": grouped((need.object, (one.id, None)) for one in catalog.views.values() for need in one.needs),
    }


def grouped(pairs):
    found = {}
    for key, (inner, value) in pairs:
        found.setdefault(key, {})[inner] = value
    return found


def indices(catalog):
    flat = {one: dict(getattr(catalog, one).items()) for one in ("loads", "expiring", "ownerless", "token_names")}
    names = ("relation_names", "readers", "leftovers", "rights_of", "open_transactions", "queries_of")
    nested = {one: getattr(catalog, one).items() for one in names}
    return flat | {one: {key: dict(inner.items()) for key, inner in items} for one, items in nested.items()}


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.lists(CHANGES, max_size=4), max_size=15))
def test_they_follow_every_change_and_are_the_same_when_restored(batches):
    catalog, items = Catalog(), {}
    for batch in batches:
        merged = {change.key: change for change in batch}
        catalog = catalog.changed(merged[key] for key in sorted(merged))
        items |= {key: change.value for key, change in merged.items()}
        assert indices(catalog) == as_told_by_the_records(catalog)
    left = [Change(key, value) for key, value in sorted(items.items()) if value is not None]
    assert Catalog.restored(catalog.revision, catalog.lineage, left) == catalog


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(CHANGES, max_size=40), st.integers(1, 5))
def test_read_page_by_page_it_is_the_same_as_changed_key_by_key(changes, size):
    merged = {change.key: change for change in changes if change.value is not None}
    items = [merged[key] for key in sorted(merged)]
    read, changed, held = Catalog(), Catalog(), Holding()
    for start in range(0, len(items), size):
        read = read.changed(held.taking(items[start : start + size]))
    read = read.holding(held.segments, held.replaced)
    for item in items:
        changed = changed.changed([item])
    assert indices(read) == indices(changed)
    assert read == changed


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(CHANGES, max_size=30))
def test_leftovers_are_all_that_belongs_to_nobody_any_more_and_nothing_else(changes):
    catalog = Catalog().changed(changes)
    found = leftovers(catalog)
    assert len(found) == count(catalog)
    after = catalog.changed(Change(key, None) for key in found)
    assert leftovers(after) == []
    for name in ("segments", "replaced"):
        kept = {key: one for key, one in getattr(catalog, name).items() if key[0] in catalog.tables}
        assert dict(getattr(after, name).items()) == kept
    kept = {(target, who) for target, names in catalog.grants.items() for who in names if who in catalog.principals}
    assert {(target, who) for target, names in after.grants.items() for who in names} == kept
