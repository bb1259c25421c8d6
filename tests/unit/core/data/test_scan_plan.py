"""Plans of tables with many segments."""

import msgspec
import pytest
from rpds import HashTrieMap

from leasehold.core.catalog import catalog as catalog_module
from leasehold.core.catalog.shelf import SEGMENTS, Shelf
from leasehold.core.data.scan_plan import plan_scan
from leasehold.core.questions.long_lookups import takes_long
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import AskTable, Filter, PlanScan
from leasehold.core.words.records import ColumnStatistics, SegmentRecord
from leasehold.core.words.statements import Literal, TableName, fold
from leasehold.errors import LeaseholdError, NotFound, Refused
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.segments import PLANNED_SEGMENT_BYTES_MIN
from leasehold.limits.statements import COLUMNS_MAX, FILTERS_MAX
from leasehold.sql.parse import parse
from leasehold.sql.where import read_where
from tests.unit.core.catalog_words import segment
from tests.unit.core.ddl_words import ground

PLAN = PlanScan(cluster_id=None, name="db.t", columns=None)
FIT = 60_000
UNFIT = 86_000
TOO_MANY = 100_000

assert UNFIT * PLANNED_SEGMENT_BYTES_MIN < MESSAGE_BYTES_MAX < TOO_MANY * PLANNED_SEGMENT_BYTES_MIN


@pytest.fixture(scope="module")
def many():
    """A table's catalog and so many of its segments, with statistics."""
    catalog = ground(*map(parse, ("CREATE DATABASE db", "CREATE TABLE db.t (k BIGINT, v STRING)"))).catalog
    table = catalog.table(TableName("db", "t")).id
    statistics = tuple(
        ColumnStatistics(field=number, nulls=0, minimum="a" * 32, maximum="z" * 32) for number in range(1, 11)
    )
    segments = {}
    for number in range(TOO_MANY):
        name = f"{number:032x}-{number:032x}"
        segments[name] = SegmentRecord(
            id=name,
            table=table,
            bucket=0,
            schema_version=1,
            rows=2**20,
            size_bytes=2**31,
            sha256=b"h" * 32,
            statistics=statistics,
            holders=(1, 2, 3),
        )
    return catalog, (table, 0), segments


def plan(many, count):
    catalog, bucket, segments = many
    some = {name: segments[name] for name in list(segments)[:count]}
    catalog = msgspec.structs.replace(catalog, segments=Shelf(HashTrieMap({bucket: some})))
    return plan_scan(PLAN, catalog)


def test_a_plan_leaves_the_statistics_out_and_names_many_segments(many):
    made = plan(many, FIT)
    assert len(made.segments) == FIT
    assert all(one.statistics == () for one in made.segments)
    assert len(encode(made)) <= MESSAGE_BYTES_MAX


def unread(many):
    """A table of so many segments that none can be planned; a look at one would raise `Corrupt`."""
    catalog, bucket, segments = many
    shelf = Shelf.held(SEGMENTS, {bucket: dict.fromkeys(segments, b"")})
    plan_scan(PLAN, msgspec.structs.replace(catalog, segments=shelf))


@pytest.mark.parametrize("planned", [lambda many: plan(many, UNFIT), unread], ids=["looked at", "counted"])
def test_a_plan_of_too_many_segments_is_refused_with_advice(many, planned):
    with pytest.raises(Refused) as caught:
        planned(many)
    assert caught.value.code == "TOO_MANY_SEGMENTS"
    assert "db.t" in caught.value.text
    assert "larger appends" in caught.value.hint


def test_R6_a_plan_says_of_which_generation_its_facts_are(many):
    catalog, _, _ = many
    catalog = msgspec.structs.replace(catalog, cluster=msgspec.structs.replace(catalog.cluster, generation=7))
    assert plan_scan(PLAN, catalog).facts.generation == 7


# ---------------------------------------------------------------- conditions


def known(number, low, high, nulls=0):
    return ColumnStatistics(field=number, nulls=nulls, minimum=low, maximum=high)


@pytest.fixture
def days():
    """A table of ten segments, of a hundred keys each; the last one says nothing of itself."""
    statements = "CREATE DATABASE db", "CREATE TABLE db.t (k BIGINT, v STRING, d DATE)"
    catalog = ground(*map(parse, statements)).catalog
    table = catalog.table(TableName("db", "t")).id
    segments = {}
    for number in range(10):
        statistics = (known(1, number * 100, number * 100 + 99), known(2, "a", "b"), known(3, None, None, 100))
        one = segment(table, number, rows=100, statistics=statistics if number < 9 else ())
        segments[one.id] = one
    return msgspec.structs.replace(catalog, segments=Shelf(HashTrieMap({(table, 0): segments})))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("k = 250", [2]),
        ("k IN (250, 799)", [2, 7]),
        ("k < 100", [0]),
        ("k <= 100", [0, 1]),
        ("k > 799 AND k < 900", [8]),
        ("k BETWEEN 150 AND 250", [1, 2]),
        ("k IS NULL", []),
        ("d IS NOT NULL", []),
        ("d IS NULL AND k = 1", [0]),
        ("v LIKE 'c%'", []),
        ("v LIKE 'ab%' AND k >= 850", [8]),
        ("K = 1e2", None),
    ],
)
def test_a_plan_leaves_out_what_can_have_no_such_row_and_says_how_many(days, text, left):
    request = msgspec.structs.replace(PLAN, where=read_where(text))
    if left is None:
        with pytest.raises(Refused) as caught:
            plan_scan(request, days)
        assert caught.value.code == "BAD_VALUE"
        return
    made = plan_scan(request, days)
    assert [int(one.id[:32], 16) for one in made.segments] == [*left, 9]
    assert made.left_out == 9 - len(left)
    assert [one.field.name for one in made.where] == [one.column for one in request.where]


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ((Filter(column="nothing", operator="IS NULL"),), "NOT_FOUND"),
        ((Filter(column="k", operator="="),), "BAD_MESSAGE"),
        ((Filter(column="k", operator="=", values=(Literal("null", ""),)),), "BAD_VALUE"),
        ((Filter(column="k", operator="STARTS WITH", values=(Literal("string", "1"),)),), "BAD_VALUE"),
        ((Filter(column="k", operator="IS NULL"),) * 65, "TOO_MANY_CONDITIONS"),
        ((Filter(column="k", operator="IN", values=(Literal("number", "1"),) * 1_025),), "TOO_MANY_CONDITIONS"),
    ],
)
def test_conditions_that_mean_nothing_are_refused(days, where, code):
    with pytest.raises(LeaseholdError) as caught:
        plan_scan(msgspec.structs.replace(PLAN, where=where), days)
    assert caught.value.code == code


@pytest.mark.parametrize(("columns", "is_long"), [(10, False), (200, True)])
def test_answers_about_a_table_of_many_columns_take_turns(columns, is_long):
    listed = ", ".join(f"c{number} BIGINT" for number in range(columns))
    catalog = ground(*map(parse, ("CREATE DATABASE db", f"CREATE TABLE db.t ({listed})"))).catalog
    for request in (PLAN, AskTable(cluster_id=None, name="db.t")):
        assert takes_long(request, catalog) is is_long


def test_names_of_columns_are_looked_up_in_one_pass_over_the_columns(monkeypatch):
    """A plan of all columns of the widest table took a coordinator 0.9 s."""
    names = tuple(f"c{number}" for number in range(COLUMNS_MAX))
    create = f"CREATE TABLE db.wide ({', '.join(f'{name} INT' for name in names)})"
    catalog = ground(*map(parse, ("CREATE DATABASE db", create))).catalog
    folded = []
    monkeypatch.setattr(catalog_module, "fold", lambda name: folded.append(name) or fold(name))
    where = tuple(Filter(column=name, operator="IS NOT NULL") for name in names[:FILTERS_MAX])
    asked = PlanScan(cluster_id=None, name="db.wide", columns=tuple(map(str.upper, names[::-1])), where=where)
    made = plan_scan(asked, catalog)
    assert [one.name for one in made.fields] == list(names[::-1])
    assert [one.field.name for one in made.where] == list(names[:FILTERS_MAX])
    assert len(folded) < 4 * COLUMNS_MAX
    with pytest.raises(NotFound, match="no column x"):
        plan_scan(msgspec.structs.replace(asked, columns=(*names[1:], "x")), catalog)
