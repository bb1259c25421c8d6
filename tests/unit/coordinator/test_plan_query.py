"""Plans of SELECTs: all tables at one revision, those below views too."""

import pytest

from leasehold.coordinator.data import Data, PlanLimits
from leasehold.core.messages import PlanQuery
from leasehold.core.statements import TableName
from leasehold.errors import NotFound, Refused
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.statements import QUERY_TABLES_MAX
from leasehold.sql.parse import parse
from leasehold.sql.views import resolve
from leasehold.wire.clock import BoottimeClock
from tests.unit.core.ddl_words import ground, run


class Writer:
    """What `Data` needs of the writer here."""

    def __init__(self, catalog):
        self.catalog = catalog


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


@pytest.fixture
def data(catalog):
    return Data(Writer(catalog), None, BoottimeClock())


def limited(catalog, **limits):
    return Data(Writer(catalog), None, BoottimeClock(), PlanLimits(**limits))


def planned(data, *names):
    return data.plan_query(PlanQuery(cluster_id=None, names=names))


def test_all_tables_are_planned_whole_and_at_one_revision(data):
    made = planned(data, "DB.u", "db.t", "db.U")
    assert [one.facts.name for one in made.plans] == ["db.T", "db.u"]
    assert [[field.name for field in one.fields] for one in made.plans] == [["a", "b"], ["c", "d"]]
    assert {one.facts.revision for one in made.plans} == {made.revision}
    assert made.views == made.needed == ()


def test_views_come_with_all_that_they_read(data):
    made = planned(data, "db.top", "db.weather")
    assert [one.name for one in made.views] == ["db.low", "db.Top"]
    assert [one.facts.name for one in made.plans] == ["db.T", "db.u", "db.weather"]
    assert [(one.name, one.columns) for one in made.needed] == [("db.T", ("b",)), ("db.u", ("c",))]
    through = tuple(one.view for one in made.views)
    assert {one.through for one in made.plans} == {through}, "a view that is dropped ends the whole"


def test_a_table_may_be_named_beside_a_view_that_reads_it(data):
    made = planned(data, "db.t", "db.low")
    assert [one.facts.name for one in made.plans] == ["db.T"]
    assert [field.name for field in made.plans[0].fields] == ["a", "b"]


def test_nothing_is_planned_for_a_select_without_tables(data):
    assert planned(data).plans == ()


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("db.wether", "no table or view db.wether", "did you mean weather?"),
        ("db.tip", "no table or view db.tip", "did you mean Top?"),
        ("dbs.t", "no database dbs", "did you mean db?"),
        ("db.nothing_like_it", "no table or view db.nothing_like_it", "SHOW TABLES IN db"),
    ],
)
def test_what_is_not_there_is_told_with_the_names_like_it(data, name, text, hint):
    with pytest.raises(NotFound) as caught:
        planned(data, name)
    assert caught.value.text == text
    assert hint in caught.value.hint


def test_so_many_tables_and_no_more(catalog, data):
    assert QUERY_TABLES_MAX < MESSAGE_BYTES_MAX
    with pytest.raises(Refused) as caught:
        planned(data, *["db.t"] * (QUERY_TABLES_MAX + 1))
    assert caught.value.code == "TOO_MANY_TABLES"
    with pytest.raises(Refused) as caught:
        planned(limited(catalog, tables_max=1), "db.top")
    assert caught.value.code == "TOO_MANY_TABLES"


def test_plans_that_do_not_fit_into_one_answer_are_refused(catalog):
    data = limited(catalog, bytes_max=1_200)
    assert planned(data, "db.t").plans
    with pytest.raises(Refused) as caught:
        planned(data, "db.t", "db.u", "db.weather")
    assert caught.value.code in {"TOO_MANY_SEGMENTS", "TOO_MANY_TABLES"}
    assert data.table(str(TableName("db", "t"))).name == "db.T"
