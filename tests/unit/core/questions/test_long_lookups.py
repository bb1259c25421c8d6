"""Which look-ups take turns: those that name many views, columns, buckets and segments, or look for a similar name."""

import pytest

from leasehold.core.catalog.plan import put
from leasehold.core.questions import long_lookups
from leasehold.core.questions.long_lookups import takes_long
from leasehold.core.words import keys
from leasehold.core.words.messages import AskReceipts, AskTable, AskView, PlanQuery, PlanScan
from leasehold.core.words.records import Need, UseState, ViewColumn, ViewRecord
from leasehold.limits.statements import INLINE_EFFORT_MAX, QUERY_TABLES_MAX
from leasehold.sql.parse import parse
from tests.unit.core.catalog_words import segment
from tests.unit.core.ddl_words import ground

TABLE, TOP = 2, 1_000
VIEW_OF_TOP = AskView(cluster_id=None, name="db.top")
SELECT_OF_TOP = PlanQuery(cluster_id=None, names=("db.top",))
SCAN_OF_TABLE = PlanScan(cluster_id=None, name="db.t", columns=None)
HALF = INLINE_EFFORT_MAX // 2


@pytest.fixture(scope="module")
def catalog():
    return ground(*map(parse, ("CREATE DATABASE db", "CREATE TABLE db.t (a INT)"))).catalog


def view(number, name, *needs, columns=1):
    shown = tuple(ViewColumn(name=f"c{one}", type="INT") for one in range(columns))
    record = ViewRecord(id=number, database=1, name=name, state=UseState.IN_USE, body="", columns=shown, needs=needs)
    return put(keys.view(number), record)


def over(catalog, views, *, columns=1, fields=(1,)):
    """With the view db.top, which reads so many views of so many columns each."""
    below = [view(100 + one, f"v{one}", Need(object=TABLE, fields=fields), columns=columns) for one in range(views)]
    top = view(TOP, "top", *(Need(object=100 + one, fields=()) for one in range(views)))
    return catalog.changed([*below, top])


@pytest.mark.parametrize("request_", [VIEW_OF_TOP, SELECT_OF_TOP], ids=["view", "query"])
def test_a_view_counts_with_all_views_that_it_is_read_through_and_their_columns(catalog, request_):
    assert not takes_long(request_, over(catalog, 2))
    assert takes_long(request_, over(catalog, INLINE_EFFORT_MAX)), "many views"
    assert takes_long(request_, over(catalog, 2, columns=HALF)), "many columns that they show"
    assert takes_long(request_, over(catalog, 2, fields=tuple(range(1, HALF + 1)))), "many columns that they read"
    assert not takes_long(request_, over(catalog, 2, columns=HALF // 2))


def test_a_wide_table_below_a_view_counts(catalog):
    wide = ", ".join(f"c{number} INT" for number in range(INLINE_EFFORT_MAX))
    base = ground(*map(parse, ("CREATE DATABASE db", f"CREATE TABLE db.t ({wide})"))).catalog
    for request in (VIEW_OF_TOP, SELECT_OF_TOP):
        assert takes_long(request, over(base, 1))


def test_the_facts_of_a_view_name_no_buckets_of_its_tables(catalog):
    text = f"CREATE TABLE db.t (a INT) CLUSTERED BY (a) INTO {INLINE_EFFORT_MAX} BUCKETS"
    base = over(ground(*map(parse, ("CREATE DATABASE db", text))).catalog, 1)
    assert not takes_long(VIEW_OF_TOP, base)
    assert takes_long(SELECT_OF_TOP, base)


def test_the_facts_of_a_table_name_no_segments(catalog):
    """An append asks for them twice. With seven users' statements at the thread, the next append took 4.7 s."""
    for request, is_long in ((AskTable(cluster_id=None, name="db.t"), False), (SCAN_OF_TABLE, True)):
        assert not takes_long(request, catalog)
        rows = [
            put(keys.segment(TABLE, 0, one.id), one)
            for one in (segment(TABLE, number) for number in range(INLINE_EFFORT_MAX))
        ]
        assert takes_long(request, catalog.changed(rows)) is is_long
    wide = ground(
        *map(
            parse,
            ("CREATE DATABASE db", f"CREATE TABLE db.t (a INT) CLUSTERED BY (a) INTO {INLINE_EFFORT_MAX} BUCKETS"),
        )
    )
    assert takes_long(AskTable(cluster_id=None, name="db.t"), wide.catalog)


def test_what_reads_many_views_is_found_out_at_a_few_of_them(catalog, monkeypatch):
    """It is found out in the loop that it must not hold up."""
    looked_at, walked = [], long_lookups.walked

    def counted(*given):
        for one in walked(*given):
            looked_at.append(one)
            yield one

    monkeypatch.setattr(long_lookups, "walked", counted)
    for request in (VIEW_OF_TOP, SELECT_OF_TOP):
        looked_at.clear()
        assert takes_long(request, over(catalog, 5 * INLINE_EFFORT_MAX))
        assert len(looked_at) <= INLINE_EFFORT_MAX


def test_a_name_that_nothing_has_is_compared_with_many_in_a_query_only(catalog):
    many = over(catalog, INLINE_EFFORT_MAX)
    query = PlanQuery(cluster_id=None, names=("db.t", "db.unknown"))
    assert takes_long(query, many)
    assert not takes_long(query, catalog)
    assert not takes_long(PlanQuery(cluster_id=None, names=("db.t", "none.t")), many), "of databases there is one"
    assert not takes_long(PlanQuery(cluster_id=None, names=("db.t",)), many)
    beyond = PlanQuery(cluster_id=None, names=(*["db.t"] * QUERY_TABLES_MAX, "db.unknown"))
    assert not takes_long(beyond, many), "so many names are refused unseen"
    for request in (
        AskView(cluster_id=None, name="db.unknown"),
        AskTable(cluster_id=None, name="db.unknown"),
        PlanScan(cluster_id=None, name="db.unknown", columns=None),
        AskReceipts(after=0, limit=1),
    ):
        assert not takes_long(request, many)


def test_views_that_read_each_other_in_many_ways_count_once(catalog):
    """Each of 16 views reads the one before it twice: 65,536 ways lead to the first."""
    rows = [view(100, "v0", Need(object=TABLE, fields=(1,)))]
    for number in range(1, 16):
        below = Need(object=99 + number, fields=())
        rows.append(view(100 + number, f"v{number}", below, below))
    assert not takes_long(AskView(cluster_id=None, name="db.v15"), catalog.changed(rows))
