"""Views with real processes: made, read in Python, followed, and ended."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from leasehold.client.cluster import Cluster
from leasehold.core.words.messages import Receipt
from leasehold.errors import Refused
from tests.e2e.cluster import RunningCluster

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster.start(tmp_path_factory.mktemp("views") / "cluster", nodes=2) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: RunningCluster, tmp_path: Path) -> Iterator[Cluster]:
    """A connection, and a database `db` with the tables `trips` and `zones` that goes after the test."""
    with running.connect() as connection:
        connection.sql("CREATE DATABASE db")
        connection.sql("CREATE TABLE db.Trips (Zone INT, Fare DECIMAL(10,2)) CLUSTERED BY (Zone) INTO 2 BUCKETS")
        connection.sql("CREATE TABLE db.zones (zone INT, name STRING)")
        fares = pa.array([100, 250, 300, 5], pa.int64()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(10, 2))
        connection.table("db.trips").append(pa.table({"Zone": pa.array([1, 1, 2, 3], pa.int32()), "Fare": fares}))
        connection.table("db.zones").append(pa.table({"zone": pa.array([1, 2], pa.int32()), "name": ["east", "west"]}))
        yield connection
        connection.sql("DROP DATABASE IF EXISTS db CASCADE")


def made(cluster: Cluster, text: str) -> None:
    assert isinstance(cluster.sql(text), Receipt)


def rows(cluster: Cluster, name: str) -> list[tuple[object, ...]]:
    table = cluster.query(name).read_all()
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_a_view_on_tables_and_views_is_read(cluster: Cluster) -> None:
    made(
        cluster, "CREATE VIEW db.named AS SELECT t.zone, name, fare FROM db.trips t JOIN db.zones z ON t.zone = z.zone"
    )
    made(
        cluster,
        "CREATE VIEW db.per_zone (Name, Trips, Sum) AS SELECT name, count(*), sum(zone) FROM db.named GROUP BY name",
    )
    assert rows(cluster, "db.per_zone") == [("east", 2, 2), ("west", 1, 2)]
    assert [column.name for column in cluster.view("db.per_zone").columns] == ["Name", "Trips", "Sum"]
    assert len(rows(cluster, "db.trips")) == 4


def test_columns_that_come_later_are_not_in_a_view_of_a_star(cluster: Cluster) -> None:
    made(cluster, "CREATE VIEW db.v AS SELECT * FROM db.zones")
    made(cluster, "ALTER TABLE db.zones ADD COLUMN more INT")
    assert cluster.query("db.v").schema.names == ["zone", "name"]
    made(cluster, "ALTER TABLE db.zones ALTER COLUMN zone TYPE BIGINT")
    assert rows(cluster, "db.v") == [(1, "east"), (2, "west")]


def test_what_a_view_needs_stays(cluster: Cluster) -> None:
    made(cluster, "CREATE VIEW db.v AS SELECT name FROM db.zones")
    for text in (
        "DROP TABLE db.zones",
        "ALTER TABLE db.zones DROP COLUMN name",
        "ALTER TABLE db.zones RENAME COLUMN name TO other",
        "ALTER TABLE db.zones RENAME TO db.places",
    ):
        with pytest.raises(Refused) as caught:
            cluster.sql(text)
        assert caught.value.code == "VIEW_NEEDS_IT"
        assert "db.v" in caught.value.text
    made(cluster, "DROP TABLE db.zones CASCADE")
    with pytest.raises(Refused):
        cluster.query("db.v")


def test_a_scan_through_a_view_ends_when_the_view_is_dropped(cluster: Cluster) -> None:
    # 64 MB: DuckDB and the scan below it read some 20 MB ahead of who takes the rows.
    made(cluster, "CREATE TABLE db.many (a BIGINT, b BIGINT, c BIGINT, d BIGINT)")
    for start in range(0, 2_000_000, 400_000):
        numbers = pa.array(range(start, start + 400_000), pa.int64())
        cluster.table("db.many").append(pa.table(dict.fromkeys("abcd", numbers)))
    made(cluster, "CREATE VIEW db.v AS SELECT * FROM db.many")
    reader = cluster.view("db.v").scan()
    first = next(iter(reader))
    made(cluster, "DROP VIEW db.v")
    with pytest.raises(Refused) as caught:
        reader.read_all()
    assert caught.value.code == "VIEW_DROPPED"
    assert 0 < first.num_rows < 2_000_000
    assert sum(batch.num_rows for batch in cluster.query("db.many")) == 2_000_000


def test_a_view_of_nothing_that_is_there_is_refused(cluster: Cluster) -> None:
    for text, code in (
        ("CREATE VIEW db.v AS SELECT nope FROM db.zones", "NO_SUCH_COLUMN"),
        ("CREATE VIEW db.v AS SELECT a FROM db.nothing", "NOT_FOUND"),
        ("CREATE VIEW db.zones AS SELECT name FROM db.zones", "ALREADY_EXISTS"),
    ):
        with pytest.raises(Refused) as caught:
            cluster.sql(text)
        assert caught.value.code == code
    with pytest.raises(Refused):
        cluster.query("db.v")
