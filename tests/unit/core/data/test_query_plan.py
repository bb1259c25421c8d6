"""Plans of SELECTs: all tables at one revision, those below views too."""

import pytest

from leasehold.core.data.scan_plan import PlanLimits, plan_query
from leasehold.core.words.messages import PlanQuery
from leasehold.errors import Refused
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.statements import QUERY_TABLES_MAX
from leasehold.sql.parse import parse
from leasehold.sql.views import resolve
from tests.unit.core.ddl_words import ground, run


@pytest.fixture(scope="module")
def catalog():
    base = ground(
        *map(
            parse,
            (
                "CREATE DATABASE db",
                "CREATE TABLE db.T (a INT, b INT) CLUSTERED BY (a) INTO 2 BUCKETS",
                "CREATE TABLE db.u (c INT, d INT)",
                "CREATE TABLE db.weather (e INT)",
            ),
        )
    )
    for text in (
        "CREATE VIEW db.low AS SELECT b FROM db.t",
        "CREATE VIEW db.Top AS SELECT low.b, c FROM db.low JOIN db.u ON low.b = u.c",
    ):
        statement = parse(text)
        run(base, statement, view=resolve(statement, base.catalog))
    return base.catalog


def planned(catalog, *names, **limits):
    return plan_query(PlanQuery(cluster_id=None, names=names), catalog, PlanLimits(**limits))


def test_all_tables_are_planned_whole_and_at_one_revision(catalog):
    made = planned(catalog, "DB.u", "db.t", "db.U")
    assert [one.facts.name for one in made.plans] == ["db.T", "db.u"]
    assert [[field.name for field in one.fields] for one in made.plans] == [["a", "b"], ["c", "d"]]
    assert {one.facts.revision for one in made.plans} == {made.revision}
    assert made.views == made.needed == ()


def test_views_come_with_all_that_they_read(catalog):
    made = planned(catalog, "db.top", "db.weather")
    assert [one.name for one in made.views] == ["db.low", "db.Top"]
    assert [one.facts.name for one in made.plans] == ["db.T", "db.u", "db.weather"]
    assert [(one.name, one.columns) for one in made.needed] == [("db.T", ("b",)), ("db.u", ("c",))]
    through = tuple(one.view for one in made.views)
    assert {one.through for one in made.plans} == {through}, "a view that is dropped ends the whole"


def test_a_table_may_be_named_beside_a_view_that_reads_it(catalog):
    made = planned(catalog, "db.t", "db.low")
    assert [one.facts.name for one in made.plans] == ["db.T"]
    assert [field.name for field in made.plans[0].fields] == ["a", "b"]


def test_nothing_is_planned_for_a_select_without_tables(catalog):
    assert planned(catalog).plans == ()


def test_so_many_tables_and_no_more(catalog):
    assert QUERY_TABLES_MAX < MESSAGE_BYTES_MAX
    with pytest.raises(Refused) as caught:
        planned(catalog, *["db.t"] * (QUERY_TABLES_MAX + 1))
    assert caught.value.code == "TOO_MANY_TABLES"
    with pytest.raises(Refused) as caught:
        planned(catalog, "db.top", tables_max=1)
    assert caught.value.code == "TOO_MANY_TABLES"


def test_plans_that_do_not_fit_into_one_answer_are_refused(catalog):
    assert planned(catalog, "db.t", bytes_max=1_200).plans
    with pytest.raises(Refused) as caught:
        planned(catalog, "db.t", "db.u", "db.weather", bytes_max=1_200)
    assert caught.value.code in {"TOO_MANY_SEGMENTS", "TOO_MANY_TABLES"}
