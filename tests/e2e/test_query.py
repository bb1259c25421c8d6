"""SELECT and INSERT with real processes: rows, forms, rights, one revision for all tables, and how they end."""

import csv
import io
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from leasehold.client.cluster import Cluster, connect
from leasehold.core.words.messages import Rows
from leasehold.errors import Forbidden, NotFound, Refused
from leasehold.ids import StatementId
from leasehold.limits.queries import QUERY_ROWS_SHOWN_MAX
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import command, leasehold

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster.start(tmp_path_factory.mktemp("query") / "cluster", nodes=2) as cluster:
        with cluster.connect() as connection:
            connection.sql("CREATE DATABASE db")
            connection.sql(
                "CREATE TABLE db.Trips (Id BIGINT NOT NULL, Zone INT, Fare DECIMAL(6,2) DEFAULT 1.5, At TIMESTAMP,"
                " Note STRING) CLUSTERED BY (Id) INTO 2 BUCKETS"
            )
            connection.sql("CREATE TABLE db.zones (zone INT, name STRING)")
            connection.sql("CREATE TABLE db.many (n BIGINT)")
            inserted = connection.sql(
                "INSERT INTO db.trips VALUES (1, 1, 2.5, TIMESTAMP '2026-01-31 10:00:00', 'it''s'),"
                " (2, 1, 1, NULL, NULL), (3, 2, -1.25, DATE '2026-02-01', '')"
            )
            assert isinstance(inserted, Rows)
            assert inserted.rows[0][:2] == ("db.Trips", "3")
            connection.sql("INSERT INTO db.zones VALUES (1, 'east'), (2, 'west')")
            connection.sql("CREATE VIEW db.named AS SELECT id, name FROM db.trips t JOIN db.zones z ON t.zone = z.zone")
            connection.table("db.many").append(pa.table({"n": pa.array(range(100_000), pa.int64())}))
        yield cluster


@pytest.fixture
def cluster(running: RunningCluster) -> Iterator[Cluster]:
    with running.connect() as connection:
        yield connection


def shown(running: RunningCluster, text: str, *more: str) -> str:
    ran = leasehold("sql", text, *more, directory=running.directory)
    assert ran.code == 0, ran
    return ran.out


def test_tables_and_views_are_joined_at_one_revision(cluster: Cluster) -> None:
    answer = cluster.query(
        "SELECT name, count(*) AS trips, sum(t.id) FROM db.trips t JOIN db.named n ON t.id = n.id"
        " GROUP BY name ORDER BY 1"
    )
    assert answer.schema.names == ["name", "trips", "SUM(t.id)"]
    assert [tuple(row.values()) for row in answer.read_all().to_pylist()] == [("east", 2, 3), ("west", 1, 3)]


def test_rows_that_are_written_one_after_the_other_are_seen_so(running: RunningCluster, cluster: Cluster) -> None:
    """A writer adds to one table, then to the other. A plan for each table by itself would show the later one alone."""
    cluster.sql("CREATE TABLE db.later (n INT)")
    cluster.sql("CREATE TABLE db.first (n INT)")
    written, stop = threading.Event(), threading.Event()

    def write() -> None:
        with running.connect() as other:
            for number in range(500):
                other.sql(f"INSERT INTO db.first VALUES ({number})")
                other.sql(f"INSERT INTO db.later VALUES ({number})")
                if number == 2:
                    written.set()
                if stop.is_set():
                    return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert written.wait(60)
        for _ in range(5):
            answer = cluster.query("SELECT (SELECT count(*) FROM db.first), (SELECT count(*) FROM db.later)").read_all()
            first, later = (column[0].as_py() for column in answer.columns)
            assert later <= first <= later + 1
    finally:
        stop.set()
        writer.join()
        cluster.sql("DROP TABLE db.first")
        cluster.sql("DROP TABLE db.later")


def test_a_delete_is_seen_at_once_and_by_all_of_a_select(cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE db.going (n BIGINT) CLUSTERED BY (n) INTO 4 BUCKETS")
    cluster.table("db.going").append(pa.table({"n": pa.array(range(1_000), pa.int64())}))
    cluster.sql("DELETE FROM db.going WHERE n >= 900")
    twice = cluster.query("SELECT count(*) FROM db.going x JOIN db.going y ON x.n = y.n").read_all()
    assert twice.column(0).to_pylist() == [900]
    cluster.sql("DROP TABLE db.going")


def test_an_insert_is_checked_and_happens_once(cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE db.taken (a INT NOT NULL, b STRING DEFAULT 'none', c INT)")
    chosen = StatementId("0123456789abcdef0123456789abcdef")
    for _ in range(2):
        answer = cluster.sql("INSERT INTO db.taken (C, a) VALUES (1, 2)", statement_id=chosen)
        assert isinstance(answer, Rows)
        assert answer.rows[0][:2] == ("db.taken", "1")
    assert cluster.query("SELECT a, b, c FROM db.taken").read_all().to_pylist() == [{"a": 2, "b": "none", "c": 1}]
    for text, code in (
        ("INSERT INTO db.taken VALUES (1)", "COLUMN_COUNT"),
        ("INSERT INTO db.taken VALUES (1, 'x', 2), (1, 'x')", "COLUMN_COUNT"),
        ("INSERT INTO db.taken (a, A) VALUES (1, 2)", "DUPLICATE_COLUMN"),
        ("INSERT INTO db.taken (x) VALUES (1)", "NO_SUCH_COLUMN"),
        ("INSERT INTO db.taken (c) VALUES (1)", "ROWS_DO_NOT_FIT"),
        ("INSERT INTO db.taken (a) VALUES (NULL)", "ROWS_DO_NOT_FIT"),
        ("INSERT INTO db.taken (a) VALUES (3000000000)", "BAD_VALUE"),
        ("INSERT INTO db.taken (a) VALUES ('1')", "BAD_VALUE"),
        ("INSERT INTO db.taken SELECT 1, 'x', 2", "BAD_STATEMENT"),
        ("INSERT INTO db.named VALUES (1, 'x')", "IS_VIEW"),
        ("INSERT INTO db.nothing VALUES (1)", "NOT_FOUND"),
        ("INSERT INTO db.zones VALUES (1, 'x')", "STATEMENT_ID_USED"),
        ("INSERT INTO db.taken (C, a) VALUES (1, 3)", "STATEMENT_ID_USED"),
        ("DROP TABLE db.taken", "STATEMENT_ID_USED"),
    ):
        with pytest.raises(Refused) as caught:
            cluster.sql(text, statement_id=chosen if code == "STATEMENT_ID_USED" else None)
        assert caught.value.code == code, text
    assert cluster.query("db.taken").read_all().num_rows == 1
    cluster.sql("DROP TABLE db.taken")


def test_an_answer_can_be_appended(cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE db.copy (id BIGINT, fare DECIMAL(6,2))")
    copy = cluster.table("db.copy")
    assert copy.append(cluster.query("SELECT id, fare FROM db.trips WHERE fare > 0")) == 2
    with pytest.raises(NotFound):
        copy.append(cluster.query("SELECT nope FROM db.trips"))
    assert copy.scan().read_all().num_rows == 2
    cluster.sql("DROP TABLE db.copy")


def test_a_select_for_sql_and_a_definition_for_query_are_told_where_to_go(cluster: Cluster) -> None:
    with pytest.raises(Refused) as caught:
        cluster.sql("SELECT 1")
    assert "cluster.query" in caught.value.hint
    with pytest.raises(Refused) as caught:
        cluster.query("DROP TABLE db.trips")
    assert caught.value.code == "BAD_STATEMENT"


# ---------------------------------------------------------------- the command


def files(directory: Path) -> list[str]:
    return [one.name for one in directory.iterdir()]


def test_every_form_shows_the_same_rows(running: RunningCluster, tmp_path: Path) -> None:
    text = "SELECT id, fare, at, note FROM db.trips ORDER BY id"
    expected = [[1, "2.50", "2026-01-31T10:00:00Z", "it's"], [2, "1.00", None, None]]
    expected.append([3, "-1.25", "2026-02-01T00:00:00Z", ""])
    names = ["Id", "Fare", "At", "Note"]
    assert json.loads(shown(running, text, "-o", "json")) == {
        "columns": ["id", "fare", "at", "note"],
        "rows": expected,
    }
    read = list(csv.reader(io.StringIO(shown(running, text, "-o", "csv"))))
    assert read[0] == ["id", "fare", "at", "note"]
    assert read[1] == ["1", "2.50", "2026-01-31 10:00:00.000000Z", "it's"]
    assert '3,-1.25,2026-02-01 00:00:00.000000Z,""' in shown(running, text, "-o", "csv")
    assert "2,1.00,," in shown(running, text, "-o", "csv")
    table = shown(running, text)
    assert "2026-01-31 10:00:00Z" in table
    assert "NULL" in table
    leasehold(
        "sql", "SELECT * FROM db.trips", "-o", "parquet", "--to", str(tmp_path / "t"), directory=running.directory
    )
    assert [name for name in parquet.read_table(tmp_path / "t").schema.names if name in names] == names
    assert files(tmp_path) == ["t"]


def test_a_table_shows_the_first_rows_and_the_others_all(running: RunningCluster) -> None:
    ran = leasehold("sql", "SELECT n FROM db.many ORDER BY n", directory=running.directory)
    assert f"{100_000 - QUERY_ROWS_SHOWN_MAX} more rows" in ran.err
    assert str(QUERY_ROWS_SHOWN_MAX - 1) in ran.out
    assert f" {QUERY_ROWS_SHOWN_MAX} " not in ran.out
    rows = json.loads(shown(running, "SELECT n FROM db.many", "-o", "json"))["rows"]
    assert sorted(row[0] for row in rows) == list(range(100_000))


def test_a_statement_comes_from_stdin_too(running: RunningCluster) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "leasehold.cli.main", "sql", "-", "-o", "csv", "--dir", str(running.directory)],
        input="-- how many\nSELECT count(*) AS n\nFROM db.many;\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ('"n"\n100000\n', 0)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["SELECT nope FROM db.trips"], 3, "NO_SUCH_COLUMN"),
        (["SELECT 1 FROM db.tripz"], 3, "did you mean Trips?"),
        (["SELECT id FROM db.trips WHERE"], 3, "BAD_STATEMENT"),
        (
            ["SELECT id FROM db.trips SORT BY id"],
            3,
            "leasehold.spark.sql(spark, 'SELECT id FROM db.trips SORT BY id').show()",
        ),
        (["SELECT id, count(*) FROM db.trips"], 3, "QUERY_FAILED"),
        (["SELECT 1", "-o", "table", "--to", "x"], 2, "-o csv"),
        (["SELECT 1", "--timeout", "soon"], 2, "--timeout"),
        (["DROP TABLE db.trips", "-o", "csv"], 2, "-o csv"),
        (["INSERT INTO db.trips (id) VALUES (4)", "--timeout", "0s"], 2, "--timeout"),
        (["SELECT 1", "-o", "csv", "--to", "/nowhere/x"], 1, "/nowhere"),
    ],
)
def test_what_is_refused_ends_so(running: RunningCluster, arguments: list[str], code: int, said: str) -> None:
    ran = leasehold("sql", *arguments, directory=running.directory)
    assert ran.code == code, ran
    assert said in ran.err
    assert ran.out == ""
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("made", ["size(sequence(1, 400000000))", "length(space(1000000 + n))"], ids=["one", "many"])
def test_values_that_functions_make_are_bounded_too(running: RunningCluster, cluster: Cluster, made: str) -> None:
    """DuckDB does not count them: such a view of somebody else made its reader grow by gigabytes."""
    cluster.sql(f"CREATE OR REPLACE VIEW db.hostile AS SELECT max({made}) AS v FROM db.many GROUP BY n % 5000")
    ran = leasehold("sql", "SELECT * FROM db.hostile", "-o", "csv", directory=running.directory)
    assert (ran.code, "QUERY_TOO_LARGE" in ran.err) == (3, True), ran


def test_a_file_is_whole_or_what_it_was(running: RunningCluster, tmp_path: Path) -> None:
    old = tmp_path / "rows.csv"
    old.write_text("old")
    text = "SELECT CAST(n AS BIGINT) * CASE WHEN n = 99999 THEN 9223372036854775807 ELSE 1 END AS x FROM db.many"
    ran = leasehold("sql", text, "-o", "csv", "--to", str(old), directory=running.directory)
    assert ran.code == 3, ran
    assert old.read_text() == "old"
    assert files(tmp_path) == ["rows.csv"]
    assert leasehold("sql", "SELECT 1 AS a", "-o", "csv", "--to", str(old), directory=running.directory).code == 0
    assert old.read_text() == '"a"\n1\n'


def test_an_interrupt_ends_a_select_with_130(running: RunningCluster, tmp_path: Path) -> None:
    text = "SELECT a.n, b.n FROM db.many a CROSS JOIN db.many b"
    process = subprocess.Popen(
        command("sql", text, "-o", "csv", "--to", str(tmp_path / "rows"), directory=running.directory),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    waiting = threading.Event()
    for _ in range(600):
        if files(tmp_path):
            break
        waiting.wait(0.1)
    assert files(tmp_path)[0].endswith(".part"), "rows are being written"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err.strip()) == (130, "", "")
    assert files(tmp_path) == []


def test_a_reader_that_goes_away_ends_it_with_141(running: RunningCluster) -> None:
    piped = f"{sys.executable} -m leasehold.cli.main sql 'SELECT n FROM db.many' -o csv --dir {running.directory}"
    done = subprocess.run(
        ["bash", "-c", f"{piped} | head -1; echo ${{PIPESTATUS[0]}}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ['"n"', "141"]
    assert done.stderr == ""


def test_the_version_is_told() -> None:
    ran = leasehold("--version")
    assert ran.code == 0
    assert ran.out.startswith("leasehold 0.")


# ---------------------------------------------------------------- rights


def test_a_select_needs_select_on_all_that_it_reads(running: RunningCluster) -> None:
    with running.connect() as before:
        before.sql("CREATE USER root PASSWORD 'of the house'")
    with connect(running.directory, user="root", password="of the house") as root:
        root.sql("CREATE USER ana PASSWORD 'also long'")
        root.sql("GRANT SELECT ON VIEW db.named TO ana")
        root.sql("GRANT SELECT ON TABLE db.trips TO ana")
        with connect(running.directory, user="ana", password="also long") as ana:
            assert ana.query("SELECT count(*) AS n FROM db.trips").read_all().to_pylist() == [{"n": 3}]
            for text in ("SELECT * FROM db.named", "SELECT 1 FROM db.trips, db.zones", "SELECT * FROM db.zones"):
                with pytest.raises(Forbidden, match=r"db\.zones"):
                    ana.query(text)
            with pytest.raises(Forbidden):
                ana.sql("INSERT INTO db.trips (id) VALUES (9)")
            root.sql("GRANT SELECT ON TABLE db.zones TO ana")
            assert ana.query("SELECT * FROM db.named").read_all().num_rows == 3
        with pytest.raises(Refused), running.connect() as nobody:
            nobody.query("SELECT 1")
        root.sql("DROP USER ana")
