"""SHOW and DESCRIBE of databases, tables and views."""

import pytest

from leasehold.core.questions import relations
from leasehold.core.words.statements import (
    Describe,
    DescribeDatabase,
    ShowDatabases,
    ShowProperties,
    ShowTables,
    ShowViews,
    TableName,
)
from leasehold.errors import NotFound
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
    orders = ("shop", "Orders", 2, 2, 18)
    assert relations.tables(ShowTables(), CATALOG).rows == (orders,)
    assert relations.tables(ShowTables(database="Shop"), CATALOG).rows == (orders,)
    assert relations.tables(ShowTables(database="empty"), CATALOG).rows == ()
    with pytest.raises(NotFound):
        relations.tables(ShowTables(database="old"), CATALOG)


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


def test_columns_of_a_table_and_of_a_view():
    described = rows(relations.columns(Describe(table=ORDERS), CATALOG))
    assert [one["column"] for one in described] == ["id", "at", "state"]
    assert described[0]["note"] == "clustered into 2 buckets"
    assert described[0]["comment"] == "of the order"
    assert not described[0]["nullable"]
    assert described[1]["note"] == "rows expire after 1d"
    assert [one["default"] for one in described] == [None, None, "'new'"]
    assert relations.columns(Describe(table=RECENT), CATALOG).rows == (("x", "INT"), ("y", ""))
