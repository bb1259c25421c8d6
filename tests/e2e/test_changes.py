"""The changes of a table with real processes: rows of one revision and the changes since make the rows of a later."""

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from leasehold.client.cluster import Cluster
from leasehold.errors import NotFound, Refused
from leasehold.ids import Revision
from tests.e2e.cluster import RunningCluster
from tests.few import few

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster.start(tmp_path_factory.mktemp("changes") / "cluster", nodes=2) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: RunningCluster) -> Iterator[Cluster]:
    """A connection, and a database `db` that goes after the test."""
    with running.connect() as connection:
        connection.sql("CREATE DATABASE db")
        connection.sql("CREATE TABLE db.t (k BIGINT, v STRING) CLUSTERED BY (k) INTO 2 BUCKETS")
        yield connection
        connection.sql("DROP DATABASE db CASCADE")


def batch(*keys: int, text: str = "a") -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "v": [f"{text}{one}" for one in keys]})


def counted(rows: list[dict[str, object]]) -> Counter[str]:
    return Counter(str({name: value for name, value in row.items() if not name.startswith("_")}) for row in rows)


def changed(cluster: Cluster, since: Revision, until: Revision | None = None) -> Counter[str]:
    rows = cluster.table("db.t").changes(since, until).read_all().to_pylist()
    found = counted([one for one in rows if one["_change"] == "insert"])
    found.subtract(counted([one for one in rows if one["_change"] == "delete"]))
    return found


@pytest.mark.parametrize("seed", few(2, range(20)))
def test_the_rows_before_and_the_changes_since_make_the_rows_of_now(cluster: Cluster, seed: int) -> None:
    drawn, table = random.Random(seed), cluster.table("db.t")
    looks: list[tuple[Revision, Counter[str]]] = []
    for step in range(10):
        keys = [drawn.randrange(20) for _ in range(drawn.randrange(1, 6))]
        match drawn.choice(["append", "replace", "replace some", "rewrite", "nothing"]):
            case "append":
                revision = table.append(batch(*keys, text=f"{step} ")).revision
            case "replace":
                revision = table.overwrite(batch(*keys)).revision
            case "replace some":
                revision = table.overwrite(batch(*keys, text="b"), by="k").revision
            case "rewrite":
                cluster.compact("db.t")
                revision = cluster.facts("db.t").revision
            case _:
                revision = cluster.facts("db.t").revision
        looks.append((revision, counted(table.scan().read_all().to_pylist())))
    for place, (since, before) in enumerate(looks):
        for until, after in looks[place:]:
            found = Counter(before)
            found.update(changed(cluster, since, until))
            assert found == after, (since, until)
    assert changed(cluster, looks[0][0]) == changed(cluster, looks[0][0], looks[-1][0])


def test_each_row_says_in_which_commit_it_came_or_went(cluster: Cluster) -> None:
    table = cluster.table("db.t")
    since = cluster.facts("db.t").revision
    first = table.append(batch(1, 2, 3)).revision
    second = table.overwrite(batch(2, text="new "), where="k = 2").revision
    rows = table.changes(since).read_all().to_pylist()
    times = {one["_revision"]: one["_committed_at"] for one in rows}
    assert {one["_committed_at"] for one in rows} == set(times.values())
    for revision, time in times.items():
        assert sorted(table.scan(as_of=time).read_all().column("k").to_pylist()) == sorted(
            table.scan(as_of=revision).read_all().column("k").to_pylist()
        )
    assert sorted((one["k"], one["_change"], one["_revision"]) for one in rows[:3]) == [
        (k, "insert", first) for k in (1, 2, 3)
    ]
    assert sorted((one["v"], one["_change"], one["_revision"]) for one in rows[3:]) == [
        ("a2", "delete", second),
        ("new 2", "insert", second),
    ]
    assert table.changes(second).read_all().num_rows == 0


def test_a_time_stands_for_the_newest_revision_that_was_committed_by_then(cluster: Cluster) -> None:
    table = cluster.table("db.t")
    table.append(batch(1))
    between = datetime.now(UTC)
    table.append(batch(2))
    assert [one["k"] for one in table.changes(between).read_all().to_pylist()] == [2]
    assert [one["k"] for one in table.changes(0, between).read_all().to_pylist()] == [1]
    assert table.changes(datetime.now(UTC)).read_all().num_rows == 0


def test_only_chosen_columns_are_compared(cluster: Cluster) -> None:
    table = cluster.table("db.t")
    since = table.append(batch(1, 2)).revision
    table.overwrite(batch(1, 2, text="new "))
    assert table.changes(since, columns=["v"]).read_all().num_rows == 4
    assert table.changes(since, columns=["k"]).read_all().num_rows == 0


def test_a_column_that_was_added_has_its_first_value_in_all_rows(cluster: Cluster) -> None:
    since = cluster.table("db.t").append(batch(1, 2)).revision
    cluster.sql("ALTER TABLE db.t ADD COLUMN w INT DEFAULT 7")
    table = cluster.table("db.t")
    table.overwrite(batch(2, text="new "), where="k = 2")
    rows = table.changes(since).read_all().to_pylist()
    assert sorted((one["k"], one["v"], one["w"], one["_change"]) for one in rows) == [
        (2, "a2", 7, "delete"),
        (2, "new 2", 7, "insert"),
    ]


@pytest.mark.parametrize(
    "taking", ["DELETE FROM db.t WHERE k = 1", "ALTER TABLE db.t SET TBLPROPERTIES ('ttl' = '1d')"]
)
def test_what_was_deleted_can_be_read_by_nobody(cluster: Cluster, taking: str) -> None:
    cluster.sql("DROP TABLE db.t")
    cluster.sql("CREATE TABLE db.t (k BIGINT, v STRING, at TIMESTAMP) TBLPROPERTIES ('time_column' = 'at')")
    table = cluster.table("db.t")
    since = table.append(batch(1, 2)).revision
    cluster.sql(taking)
    after = cluster.facts("db.t").revision
    table.append(batch(3))
    with pytest.raises(Refused, match="deleted rows can't be read") as caught:
        table.changes(since)
    assert caught.value.code == "ROWS_TAKEN_AWAY"
    for rows in (table.changes(since, ignore_deletes=True), table.changes(after)):
        assert [(one["k"], one["_change"]) for one in rows.read_all().to_pylist()] == [(3, "insert")]


def test_bad_bounds_are_refused(cluster: Cluster) -> None:
    table = cluster.table("db.t")
    newest = cluster.facts("db.t").revision
    for since, until in ((newest + 1_000, None), (0, newest + 1_000)):
        with pytest.raises(Refused) as caught:
            table.changes(since, until)
        assert caught.value.code == "FUTURE_REVISION"


def test_how_long_changes_are_kept_is_a_property_of_the_table(cluster: Cluster) -> None:
    cluster.sql("ALTER TABLE db.t SET TBLPROPERTIES ('change_retention' = '2d')")
    shown = cluster.sql("SHOW TBLPROPERTIES db.t")
    assert ("change_retention", "2d") in [(row[0], row[1]) for row in shown.rows]
    for text in ("1m", "8d", "x"):
        with pytest.raises(Refused) as caught:
            cluster.sql(f"ALTER TABLE db.t SET TBLPROPERTIES ('change_retention' = '{text}')")
        assert caught.value.code == "BAD_PROPERTY"
    cluster.sql("ALTER TABLE db.t UNSET TBLPROPERTIES ('change_retention')")


def test_changes_are_of_the_table_that_was_looked_up(cluster: Cluster) -> None:
    table = cluster.table("db.t")
    cluster.sql("DROP TABLE db.t")
    cluster.sql("CREATE TABLE db.t (k BIGINT, v STRING)")
    with pytest.raises(NotFound, match="was dropped"):
        table.changes(0)
