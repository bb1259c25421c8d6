"""Plans of properties, TTLs and comments: they change no schema, and a shorter TTL hides rows before it takes them."""

import msgspec
import pytest

from leasehold.core import ddl
from leasehold.core.catalog.plan import Context, put
from leasehold.core.ddl.plans import plan
from leasehold.core.ddl.plans.properties import NO_HORIZON_US
from leasehold.core.words import keys
from leasehold.core.words.records import ExpiredRows, HorizonRecord
from leasehold.core.words.statements import Comment, OnDatabase, OnTable, OnView, TableName
from leasehold.errors import NotFound, Refused
from leasehold.limits.statements import PROPERTIES_MAX
from tests.unit.core.catalog_words import alter, create_database, create_table
from tests.unit.core.ddl.test_plans_objects import nothing_to_do, refused, with_view
from tests.unit.core.ddl_words import BOTH, T, began, field, finished, ground, run, table, view, written

HOUR_NS, WALL_US = 3_600 * 10**9, 10**15
HOUR_US = HOUR_NS // 1_000


def timed(ttl_ns=None, horizon_us=None, **properties):
    """A table whose rows may expire."""
    base = ground(create_database(), create_table(time_column="a", ttl_ns=ttl_ns, properties=properties))
    if horizon_us is not None:
        base.put(keys.horizon(2), HorizonRecord(table=2, horizon_us=horizon_us))
    return base


# ---------------------------------------------------------------- properties


def test_properties():
    base = ground(create_database(), create_table(properties={"a": "1", "b": "2"}))
    changes = began(base, alter(a=None, b="3", c="4"))
    assert changes == ({keys.table(2): table(properties={"b": "3", "c": "4"})}, 0)


def test_properties_refused_or_so_already():
    base = ground(create_database(), create_table(properties={"a": "1"}))
    assert nothing_to_do(base, alter(a="1"))
    assert nothing_to_do(base, alter(b=None, if_exists=True))
    refused(base, alter(b=None), NotFound, "NOT_FOUND")
    refused(base, alter("none", a="1"), NotFound, "NOT_FOUND")
    refused(base, alter(**{f"k{number}": "" for number in range(PROPERTIES_MAX)}), Refused, "BAD_PROPERTY")
    run(base, alter(a=None, **{f"k{number}": "" for number in range(PROPERTIES_MAX)}))


# ---------------------------------------------------------------- replication


def test_more_replicas_are_wanted_at_once_and_the_statement_says_how_to_look():
    base = ground(create_database(), create_table(replication=1))
    planned = plan(alter(replication=3, a="1"), base.catalog, Context())
    assert planned is not None
    assert planned.changes == (put(keys.table(2), table(replication=3, properties={"a": "1"})),)
    assert "SHOW BUCKETS OF db.t" in planned.notes[0]
    assert nothing_to_do(base, alter(replication=1))


def test_fewer_replicas_are_wanted_at_once_also_where_nodes_are_leaving():
    base = ground(create_database(), create_table(replication=3))
    planned = plan(alter(replication=2), base.catalog, Context(leaving=frozenset({1, 2})))
    assert planned is not None
    assert planned.changes == (put(keys.table(2), table(replication=2)),)
    assert planned.notes == ("copies are taken away from now on; SHOW BUCKETS OF db.t shows how many there are",)


def test_replicas_that_no_table_can_have():
    base = ground(create_database(), create_table(replication=2, time_column="a"))
    refused(base, alter(replication=4), Refused, "TOO_FEW_NODES")
    refused(base, alter(replication=3), Refused, "TOO_FEW_NODES", leaving=frozenset({2}))
    refused(base, alter(replication=3, ttl_ns=5), Refused, "BAD_PROPERTY")
    run(base, alter(replication=3))


# ---------------------------------------------------------------- min_in_sync


def test_a_table_has_a_min_in_sync_of_its_own_until_that_is_taken_away():
    base = ground(create_database(), create_table(replication=3, min_in_sync=3))
    assert base.catalog.table(T).min_in_sync == 3
    run(base, alter(min_in_sync=1))
    assert base.catalog.table(T).min_in_sync == 1
    assert nothing_to_do(base, alter(min_in_sync=1))
    run(base, alter(min_in_sync=0))
    assert base.catalog.table(T).min_in_sync == 0
    refused(base, alter(min_in_sync=0), NotFound, "NOT_FOUND")
    assert nothing_to_do(base, alter(min_in_sync=0, if_exists=True))


def test_no_more_holders_are_needed_than_there_are_replicas():
    base = ground(create_database(), create_table(replication=2, min_in_sync=2, time_column="a"))
    refused(base, alter(min_in_sync=3), Refused, "BAD_PROPERTY")
    with pytest.raises(Refused, match="no write could be committed") as caught:
        plan(alter(replication=1), base.catalog, Context())
    assert "TBLPROPERTIES ('replication' = '1', 'min_in_sync' = '1')" in caught.value.hint
    refused(base, alter(min_in_sync=1, ttl_ns=5), Refused, "BAD_PROPERTY")
    run(base, alter(replication=3, min_in_sync=3))
    run(base, alter(replication=1, min_in_sync=1))
    refused(base, create_table("u", replication=1, min_in_sync=2), Refused, "BAD_PROPERTY")


# ---------------------------------------------------------------- TTL


@pytest.mark.parametrize(("before", "asked", "after"), [(5, 9, 9), (5, 0, None)])
def test_a_longer_ttl_or_none_changes_at_once(before, asked, after):
    base = timed(before, horizon_us=7)
    changes = began(base, alter(ttl_ns=asked, a="1"))
    assert changes == ({keys.table(2): table(ttl_ns=after, time_column=1, properties={"a": "1"})}, 0)
    run(base, alter(ttl_ns=asked))
    assert base.catalog.horizons[2] == HorizonRecord(table=2, horizon_us=7), "the horizon never goes back"


def test_a_ttl_that_is_so_already():
    assert nothing_to_do(timed(5), alter(ttl_ns=5))
    assert nothing_to_do(timed(), alter(ttl_ns=0, if_exists=True))
    refused(timed(), alter(ttl_ns=0), NotFound, "NOT_FOUND")


def test_a_ttl_needs_a_time_column():
    refused(ground(*BOTH), alter(ttl_ns=5), Refused, "NO_TIME_COLUMN")


@pytest.mark.parametrize(("before", "horizon_us"), [(None, None), (2 * HOUR_NS, None), (2 * HOUR_NS, 7)])
def test_a_shorter_ttl_hides_rows_first_and_takes_them_then(before, horizon_us):
    base = timed(before, horizon_us, a="1", b="2")
    known = NO_HORIZON_US if horizon_us is None else horizon_us
    earliest_us = WALL_US - HOUR_US
    statement = alter(ttl_ns=HOUR_NS, a=None, c="3")
    hidden = ExpiredRows(table=2, ttl_ns=HOUR_NS, properties={"a": None, "c": "3"})
    horizon = HorizonRecord(table=2, horizon_us=known, hidden_us=earliest_us, since=1)
    before_it = table(ttl_ns=before, time_column=1, properties={"a": "1", "b": "2"}, deletes=1)
    changes = began(base, statement, hidden, wall_us=WALL_US)
    assert changes == ({keys.table(2): before_it, keys.horizon(2): horizon}, 0)
    assert horizon.earliest_us == earliest_us
    procedure = base.begin(statement, wall_us=WALL_US)
    after_it = msgspec.structs.replace(
        before_it, ttl_ns=HOUR_NS, properties={"b": "2", "c": "3"}, deleted=base.catalog.revision + 1
    )
    assert written(ddl.finish(procedure, base.catalog)) == {
        keys.table(2): after_it,
        keys.horizon(2): HorizonRecord(table=2, horizon_us=earliest_us, since=1),
        keys.procedure(procedure.number): finished(procedure),
    }
    back = written(ddl.roll_back(procedure, base.catalog, elapsed_ns=1))
    restored = None if horizon_us is None else HorizonRecord(table=2, horizon_us=horizon_us, since=1)
    assert back[keys.horizon(2)] == restored
    assert keys.table(2) not in back


def test_the_horizon_never_goes_back_for_a_clock_that_does():
    base = timed(2 * HOUR_NS, WALL_US)
    run(base, alter(ttl_ns=HOUR_NS), wall_us=WALL_US - 9 * HOUR_US)
    assert base.catalog.horizons[2] == HorizonRecord(table=2, horizon_us=WALL_US, since=1)


def test_what_would_be_too_long_is_refused_before_it_hides_anything():
    base = timed()
    refused(base, alter(ttl_ns=5, a="x" * 2**20), Refused, "TOO_LARGE", wall_us=WALL_US)


# ---------------------------------------------------------------- comments


def test_comments():
    base = with_view(ground(*BOTH), number=50)
    on_view, on_table = OnView(view=TableName("db", "V50")), OnTable(table=T)
    database = msgspec.structs.replace(base.catalog.databases[1], comment="x")
    assert began(base, Comment(on=OnDatabase(name="DB"), text="x")) == ({keys.database(1): database}, 0)
    assert began(base, Comment(on=on_table, text="x")) == ({keys.table(2): table(comment="x")}, 0)
    assert began(base, Comment(on=on_view, text="x")) == ({keys.view(50): view(50, comment="x")}, 0)
    fields = (field(1, "a"), field(2, "b", comment="x"))
    assert began(base, Comment(on=on_table, text="x", column="B")) == ({keys.table(2): table(fields=fields)}, 0)


def test_comments_refused_or_so_already():
    base = with_view(ground(*BOTH), number=50)
    on_table = OnTable(table=T)
    assert nothing_to_do(base, Comment(on=on_table, text=""))
    assert nothing_to_do(base, Comment(on=on_table, text="", column="a"))
    run(base, Comment(on=on_table, text="x", column="a"))
    run(base, Comment(on=on_table, text="", column="a"))
    assert base.catalog.table(T) == table(), "and the version of its schema is the same"
    refused(base, Comment(on=on_table, text="x" * 2**20), Refused, "TOO_LARGE")
    refused(base, Comment(on=on_table, text="x", column="none"), NotFound, "NOT_FOUND")
    refused(base, Comment(on=OnTable(table=TableName("db", "none")), text="x"), NotFound, "NOT_FOUND")
    refused(base, Comment(on=OnTable(table=TableName("db", "v50")), text="x"), NotFound, "IS_VIEW")
    refused(base, Comment(on=OnView(view=T), text="x"), NotFound, "IS_TABLE")
    refused(base, Comment(on=OnDatabase(name="none"), text="x"), NotFound, "NOT_FOUND")
