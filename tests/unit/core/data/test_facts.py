"""Tables and views as the leader tells clients about them."""

import msgspec
import pytest

from leasehold.core.data.facts import parse_name, relation_named, table_facts, view_facts
from leasehold.core.words.statements import TableName
from leasehold.errors import NotFound, Refused
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


def test_R6_facts_of_a_table_say_where_its_buckets_are_and_of_which_generation_they_are(catalog):
    cluster = msgspec.structs.replace(catalog.cluster, generation=7)
    table = catalog.table(TableName("db", "t"))
    bucket = msgspec.structs.replace(catalog.buckets[table.id, 0], replicas=(3, 1), in_sync=(1,))
    later = msgspec.structs.replace(catalog, cluster=cluster, buckets=catalog.buckets.insert((table.id, 0), bucket))
    facts = table_facts(table, later)
    assert (facts.name, facts.generation, facts.revision) == ("db.T", 7, catalog.revision)
    assert [one.replicas for one in facts.buckets] == [(1, 3)], "those that lack nothing come first"
    assert [one.node for one in facts.places] == [1, 3]


@pytest.mark.parametrize("name", ["", "db", "db.", ".t", "db.t.x", "db.t t", "d b.t"])
def test_what_is_no_qualified_name_is_refused(name):
    with pytest.raises(Refused) as caught:
        parse_name(name)
    assert caught.value.code == "BAD_NAME"
    assert parse_name("Db.T") == TableName("Db", "T")


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("db.lov", "no table or view db.lov", "did you mean low?"),
        ("db.tip", "no table or view db.tip", "did you mean Top?"),
        ("dbs.t", "no database dbs", "did you mean db?"),
        ("db.nothing_like_it", "no table or view db.nothing_like_it", "SHOW TABLES IN db"),
    ],
)
def test_what_is_not_there_is_told_with_the_names_like_it(catalog, name, text, hint):
    with pytest.raises(NotFound) as caught:
        relation_named(parse_name(name), catalog)
    assert caught.value.text == text
    assert hint in caught.value.hint
