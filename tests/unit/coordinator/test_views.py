"""A view as the leader tells clients about it."""

import pytest

from leasehold.coordinator.views import view_facts
from leasehold.core.statements import TableName
from leasehold.errors import NotFound
from leasehold.sql.parse import parse
from leasehold.sql.views import resolve
from tests.unit.core.ddl_words import ground, run


@pytest.fixture(scope="module")
def catalog():
    base = ground(*map(parse, ("CREATE DATABASE db", "CREATE TABLE db.T (a INT, b INT)", "CREATE TABLE db.u (c INT)")))
    for text in (
        "CREATE VIEW db.low AS SELECT b FROM db.t",
        "CREATE VIEW db.count AS SELECT count(*) AS n FROM db.u",
        "CREATE VIEW db.aside AS SELECT c FROM db.u",
        "CREATE VIEW db.Top AS SELECT x.b, y.b AS again, n FROM db.low x JOIN db.low y USING (b) CROSS JOIN db.count",
    ):
        statement = parse(text)
        run(base, statement, view=resolve(statement, base.catalog))
    return base.catalog


def test_each_view_can_be_made_from_those_before_it_and_the_tables(catalog):
    facts = view_facts(TableName("db", "top"), catalog)
    assert [view.name for view in facts.views] == ["db.low", "db.count", "db.Top"]
    assert [column.name for column in facts.views[-1].columns] == ["b", "again", "n"]
    assert facts.revision == catalog.revision


def test_tables_are_named_with_the_columns_that_are_read(catalog):
    facts = view_facts(TableName("db", "top"), catalog)
    # Only the rows of u are counted: a column stands for them.
    assert [(table.name, table.columns) for table in facts.tables] == [("db.T", ("b",)), ("db.u", ("c",))]


def test_what_is_no_view_is_not_found(catalog):
    for name, code in (("none", "NOT_FOUND"), ("t", "IS_TABLE")):
        with pytest.raises(NotFound) as caught:
            view_facts(TableName("db", name), catalog)
        assert caught.value.code == code
