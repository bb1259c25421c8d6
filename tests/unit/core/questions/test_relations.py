"""SHOW and DESCRIBE of databases, tables and views."""

import msgspec
import pytest

from leasehold.core.catalog.plan import put
from leasehold.core.questions import relations
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.statements import (
    Describe,
    DescribeDatabase,
    ShowBuckets,
    ShowDatabases,
    ShowProperties,
    ShowTables,
    ShowViews,
    TableName,
)
from leasehold.errors import NotFound
from tests.unit.core.catalog_words import node
from tests.unit.core.questions.shop import CATALOG, ORDERS, RECENT, rows


def test_databases_in_use():
    assert relations.databases(ShowDatabases(), CATALOG).rows == (("empty", ""), ("shop", "what we sell"))


def test_a_database_with_its_properties():
    assert relations.database(DescribeDatabase(name="SHOP"), CATALOG).rows == (
        ("name", "shop"),
        ("comment", "what we sell"),
        ("owner", "ann"),
    )
    with pytest.raises(NotFound):
        relations.database(DescribeDatabase(name="old"), CATALOG)


def test_tables_with_their_rows_and_none_that_is_hidden():
    (orders,) = rows(relations.tables(ShowTables(), CATALOG))
    size = {"database": "shop", "table": "Orders", "buckets": 2, "replication": 2, "rows": 18, "bytes": 3}
    assert orders.items() >= size.items()
    assert rows(relations.tables(ShowTables(database="Shop"), CATALOG)) == [orders]
    assert relations.tables(ShowTables(database="empty"), CATALOG).rows == ()
    with pytest.raises(NotFound):
        relations.tables(ShowTables(database="old"), CATALOG)


def test_the_copies_of_a_table_are_counted_by_bucket():
    both = [put(keys.node(number), node(number, removed=number == 3)) for number in (1, 2, 3)]

    def counted(first, second):
        """The holders of the only segment of bucket 0, and of the two of bucket 1."""
        changes = [*both]
        for bucket, holders in ((0, first), (1, second)):
            record = CATALOG.buckets[10, bucket]
            present = tuple(one for one in record.replicas if one in holders)
            changes.append(put(keys.bucket(10, bucket), msgspec.structs.replace(record, in_sync=present)))
            held = (
                msgspec.structs.replace(one, holders=holders) for one in CATALOG.segments.get((10, bucket)).values()
            )
            changes.extend(put(keys.segment(10, bucket, one.id), one) for one in held)
        (found,) = rows(relations.tables(ShowTables(), CATALOG.changed(changes)))
        return tuple(list(found.values())[6:11])

    assert counted((1, 2), (1, 2)) == (2, 0, 0, 0, 0)
    assert counted((1, 2), (1, 3)) == (1, 1, 0, 2, 2), "a removed node holds nothing"
    assert counted((), (2,)) == (0, 1, 1, 3, 3)


def test_views_with_what_they_read():
    assert rows(relations.views(ShowViews(), CATALOG)) == [
        {"database": "shop", "view": "both", "reads": "shop.Orders, shop.recent", "comment": ""},
        {"database": "shop", "view": "recent", "reads": "shop.Orders", "comment": "of today"},
    ]
    assert relations.views(ShowViews(database="empty"), CATALOG).rows == ()


def test_properties_of_a_table_and_of_a_view():
    assert relations.properties(ShowProperties(table=ORDERS), CATALOG).rows == (
        ("comment", "all of them"),
        ("replication", "2"),
        ("team", "web"),
        ("time_column", "at"),
        ("ttl", "1d"),
    )
    assert dict(relations.properties(ShowProperties(table=RECENT), CATALOG).rows)["select"].startswith("SELECT")
    with pytest.raises(NotFound):
        relations.properties(ShowProperties(table=TableName("shop", "going")), CATALOG)


def test_buckets_with_their_nodes_and_what_they_hold():
    nodes = {1: node(1, name="node-1"), 2: node(2, name="node-2"), 3: node(3, name="gone", removed=True)}
    catalog = CATALOG.changed(put(keys.node(number), record) for number, record in nodes.items())
    assert rows(relations.buckets(ShowBuckets(table=ORDERS), catalog)) == [
        {"bucket": 0, "replicas": "node-1, node-2", "in_sync": "node-1", "copies": 1}
        | {"segments": 1, "rows": 5, "bytes": 1},
        {"bucket": 1, "replicas": "node-2, node-1", "in_sync": "node-1", "copies": 1}
        | {"segments": 2, "rows": 13, "bytes": 2},
    ]
    for name in (RECENT, TableName("shop", "going")):
        with pytest.raises(NotFound):
            relations.buckets(ShowBuckets(table=name), catalog)


@pytest.mark.parametrize(("holders", "copies"), [((1, 2), 2), ((1, 3), 1), ((), 0)])
def test_the_copies_of_a_bucket_are_those_of_its_least_copied_segment(holders, copies):
    nodes = [put(keys.node(number), node(number, removed=number == 3)) for number in (1, 2, 3)]
    (_, two), *_ = CATALOG.segments.get((10, 1)).items()
    more = put(keys.segment(10, 0, two.id), msgspec.structs.replace(two, bucket=0, holders=holders))
    first = CATALOG.segments.get((10, 0)).values()
    both = [put(keys.segment(10, 0, one.id), msgspec.structs.replace(one, holders=(1, 2))) for one in first]
    found = relations.buckets(ShowBuckets(table=ORDERS), CATALOG.changed([*nodes, *both, more]))
    assert rows(found)[0]["copies"] == copies


def test_the_copies_of_an_empty_bucket_are_the_nodes_that_are_in_sync():
    empty = Change(keys.segment(10, 0, next(iter(CATALOG.segments.get((10, 0))))), None)
    assert rows(relations.buckets(ShowBuckets(table=ORDERS), CATALOG.changed([empty])))[0]["copies"] == 1


def test_columns_of_a_table_and_of_a_view():
    described = rows(relations.columns(Describe(table=ORDERS), CATALOG))
    assert [one["column"] for one in described] == ["id", "at", "state"]
    assert described[0]["note"] == "clustered into 2 buckets"
    assert described[0]["comment"] == "of the order"
    assert not described[0]["nullable"]
    assert described[1]["note"] == "rows expire after 1d"
    assert [one["default"] for one in described] == [None, None, "'new'"]
    assert relations.columns(Describe(table=RECENT), CATALOG).rows == (("x", "INT"), ("y", ""))
