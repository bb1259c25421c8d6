"""Spark on a cluster with users, apart from the cluster of the other tests: what travels, and what is refused."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, Row, SparkSession

from leasehold.certificates.files import CA
from leasehold.client.cluster import Cluster, connect
from leasehold.client.credentials import CredentialsFile, write_credentials
from leasehold.client.trust import TLS_FOLDER
from leasehold.errors import Forbidden, LeaseholdError, Unauthenticated, WrongPassword
from leasehold.spark import attach, changes, create, session, sql, table, view, write
from leasehold.spark.application import application_of
from leasehold.spark.local_tables import Local
from leasehold.spark.reader import LeaseholdReader
from leasehold.spark.settings import CLUSTER_SETTING, CREDENTIALS_SETTING
from leasehold.spark.sink import LeaseholdSink
from leasehold.spark.source import LeaseholdSource, bound_to
from tests.e2e.cluster import RunningCluster
from tests.e2e.spark.patience import to_its_end

pytestmark = pytest.mark.spark

PASSWORD = "of the reader"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A cluster with the administrator root and the user u, who may read and write d.t."""
    with RunningCluster.start(tmp_path_factory.mktemp("users") / "cluster", nodes=1, tls=True) as made:
        with made.connect() as nobody:
            nobody.sql("CREATE USER root PASSWORD 'root'")
        with connect(made.directory, user="root", password="root") as root:
            root.sql("CREATE DATABASE d")
            root.sql("CREATE TABLE d.t (a BIGINT)")
            root.sql("CREATE TABLE d.other (a BIGINT)")
            root.sql(f"CREATE USER u PASSWORD '{PASSWORD}'")
            root.sql("GRANT SELECT, INSERT ON TABLE d.t TO u")
            root.sql("GRANT SELECT, INSERT ON TABLE d.other TO u")
        yield made


@pytest.fixture
def root(guarded: RunningCluster) -> Iterator[Cluster]:
    with connect(guarded.directory, user="root", password="root") as root:
        yield root


def options(guarded: RunningCluster, **more: str) -> dict[str, str]:
    return {"cluster": str(guarded.directory), "table": "d.t", "user": "u", "password": PASSWORD, **more}


def reader(spark: SparkSession, **given: str) -> DataFrameReader:
    return spark.read.format("leasehold").options(**given)


def test_a_user_writes_and_reads(spark: SparkSession, guarded: RunningCluster) -> None:
    rows = [Row(a=number) for number in range(100)]
    frame = spark.createDataFrame(rows, "a BIGINT").repartition(3)
    frame.write.format("leasehold").options(**options(guarded)).mode("append").save()
    assert sorted(reader(spark, **options(guarded)).load().collect()) == rows


def test_rows_are_replaced_by_who_may_drop_them(spark: SparkSession, guarded: RunningCluster, root: Cluster) -> None:
    given = options(guarded, table="d.other")

    def overwrite(begin: int, end: int, **more: str) -> None:
        frame = spark.range(begin, end).selectExpr("id AS a")
        frame.write.format("leasehold").options(**given, **more).mode("overwrite").save()

    with pytest.raises(PySparkException, match="u lacks DROP"):
        overwrite(0, 5)
    root.sql("GRANT DROP ON TABLE d.other TO u")
    try:
        overwrite(0, 5)
        overwrite(3, 4, replaceWhere="a >= 3")
    finally:
        root.sql("REVOKE DROP ON TABLE d.other FROM u")
    assert sorted(reader(spark, **given).load().collect()) == [Row(a=number) for number in range(4)]
    with pytest.raises(PySparkException, match="u lacks DROP"):
        overwrite(0, 5)


def test_a_user_reads_changes_at_once_and_as_a_stream(
    spark: SparkSession, guarded: RunningCluster, root: Cluster, tmp_path: Path
) -> None:
    root.sql("CREATE TABLE d.changed (a BIGINT)")
    root.sql("GRANT SELECT ON TABLE d.changed TO u")
    since = root.table("d.changed").append(pa.table({"a": [1, 2]})).revision
    root.table("d.changed").overwrite(pa.table({"a": [2, 3]}))
    who = {"cluster": guarded.directory, "user": "u", "password": PASSWORD}
    found = changes(spark, "d.changed", since, **who).collect()
    assert sorted((row["a"], row["_change"]) for row in found) == [(1, "delete"), (3, "insert")]
    given = options(guarded, table="d.changed", changes="true", startingRevision=str(since))
    followed = spark.readStream.format("leasehold").options(**given).load()
    out = str(tmp_path / "out")
    writer = followed.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    to_its_end(writer.option("path", out))
    assert sorted(row["a"] for row in spark.read.schema(followed.schema).parquet(out).collect()) == [1, 3]
    root.sql("DROP TABLE d.changed")


def test_a_table_is_altered_and_made_by_who_may(spark: SparkSession, guarded: RunningCluster, root: Cluster) -> None:
    root.sql("CREATE TABLE d.grown (a BIGINT)")
    root.sql("GRANT SELECT, INSERT ON TABLE d.grown TO u")
    by_u: dict[str, Any] = {"cluster": guarded.directory, "user": "u", "password": PASSWORD}
    wider = spark.sql("SELECT 1L AS a, 'x' AS b")
    with pytest.raises(Forbidden, match="u lacks ALTER"):
        write(wider, "d.grown", merge_schema=True, **by_u)
    assert table(spark, "d.grown", **by_u).columns == ["a"]
    root.sql("GRANT ALTER ON TABLE d.grown TO u")
    write(wider, "d.grown", merge_schema=True, **by_u)
    assert [tuple(row) for row in table(spark, "d.grown", **by_u).collect()] == [(1, "x")]
    with pytest.raises(Forbidden, match="u lacks CREATE"):
        create(wider, "d.made", **by_u)
    with pytest.raises(Forbidden, match="u lacks DROP"):
        sql(spark, "UPDATE d.grown SET a = 2", **by_u)
    root.sql("GRANT CREATE ON DATABASE d TO u")
    root.sql("GRANT INSERT, DROP ON DATABASE d TO u")
    create(wider, "d.made", **by_u)
    sql(spark, "UPDATE d.grown SET a = 2", **by_u)
    assert [tuple(row) for row in table(spark, "d.grown", **by_u).collect()] == [(2, "x")]
    root.sql("REVOKE CREATE, INSERT, DROP ON DATABASE d FROM u")
    for name in ("d.grown", "d.made"):
        root.sql(f"DROP TABLE {name}")


def test_nobody_and_a_wrong_password_are_told_so(spark: SparkSession, guarded: RunningCluster) -> None:
    nobody = options(guarded)
    del nobody["user"], nobody["password"]
    with pytest.raises(PySparkException, match="UNAUTHENTICATED"):
        reader(spark, **nobody).load()
    with pytest.raises(PySparkException, match="WRONG_PASSWORD"):
        reader(spark, **options(guarded, password="guessed")).load()


def test_a_revoked_right_ends_the_next_query(spark: SparkSession, guarded: RunningCluster, root: Cluster) -> None:
    frame = reader(spark, **options(guarded)).load()
    before = frame.count()
    root.sql("REVOKE SELECT ON TABLE d.t FROM u")
    with pytest.raises(PySparkException, match="u lacks SELECT"):
        frame.count()
    root.sql("GRANT SELECT ON TABLE d.t TO u")
    assert frame.count() == before


def test_a_revoked_right_ends_a_frame_that_reads_files(
    spark: SparkSession, guarded: RunningCluster, root: Cluster
) -> None:
    def made() -> DataFrame:
        return table(spark, "d.t", cluster=guarded.directory, user="u", password=PASSWORD, local=True)

    root.table("d.t").append(pa.table({"a": [1, 2, 3]}))
    frame = made()
    before = frame.count()
    assert before >= 3
    root.sql("REVOKE SELECT ON TABLE d.t FROM u")
    with pytest.raises(LeaseholdError, match=r"u lacks SELECT.*\[FORBIDDEN\]; make the frame again"):
        frame.count()
    with pytest.raises(Forbidden):
        made()
    root.sql("GRANT SELECT ON TABLE d.t TO u")
    assert made().count() == before


def test_sql_reads_and_writes_by_the_rights_of_its_user(
    spark: SparkSession, guarded: RunningCluster, root: Cluster
) -> None:
    def run(text: str, local: Local = "auto") -> DataFrame:
        return sql(spark, text, local=local, cluster=guarded.directory, user="u", password=PASSWORD)

    root.table("d.t").append(pa.table({"a": [501, 502]}))
    root.sql("CREATE VIEW d.v AS SELECT a FROM d.t WHERE a > 500")
    root.sql("GRANT SELECT ON VIEW d.v TO u")
    run("INSERT INTO d.other SELECT a FROM d.t WHERE a = 502")
    places: tuple[Local, ...] = (True, False)
    for local in places:
        found = run("SELECT v.a, o.a FROM d.v LEFT JOIN d.other o ON v.a = o.a ORDER BY 1", local).collect()
        assert [tuple(row) for row in found] == [(501, None), (502, 502)]
    frame = run("SELECT * FROM d.v", local=True)
    assert frame.count() == 2
    root.sql("REVOKE SELECT ON VIEW d.v FROM u")
    with pytest.raises(LeaseholdError, match="FORBIDDEN"):
        frame.count()
    for text in ("SELECT * FROM d.v", "SELECT a FROM d.t JOIN d.v USING (a)", "CREATE TABLE d.mine (a INT)"):
        with pytest.raises(Forbidden):
            run(text)
    root.sql("DROP VIEW d.v")


def test_what_goes_to_the_workers_holds_no_password_and_no_path_but_the_roots(guarded: RunningCluster) -> None:
    source = LeaseholdSource(options(guarded))
    schema = source.schema()
    for one in (source.reader(schema), source.writer(schema, overwrite=False)):
        travels = pickle.dumps(one)
        assert PASSWORD.encode() not in travels
        assert str(guarded.directory).encode() not in travels
        assert b"BEGIN CERTIFICATE" in travels
        assert b"PRIVATE KEY" not in travels


def test_the_login_of_the_workers_is_for_their_table_alone_and_ends_with_the_write(guarded: RunningCluster) -> None:
    source = LeaseholdSource(options(guarded))
    schema = source.schema()
    reads, writes = source.reader(schema), source.writer(schema, overwrite=False)
    assert isinstance(reads, LeaseholdReader)
    with reads._entry.connect(Cluster) as worker:
        assert worker.plan("d.t").facts.name == "d.t"
        for beyond in (
            lambda: worker.plan("d.other"),
            lambda: worker.sql("SHOW TABLES"),
            lambda: worker.create_token("k", "u"),
            lambda: worker.table("d.t").append(pa.table({"a": [1]})),
            lambda: worker.delegate(worker.facts("d.t").table),
        ):
            with pytest.raises(Forbidden, match="this login of u"):
                beyond()
    for end in (LeaseholdSink.commit, LeaseholdSink.abort):
        with writes._entry.connect(Cluster) as worker:
            assert worker.facts("d.t").name == "d.t"
            with pytest.raises(Forbidden, match="this login of u"):
                worker.plan("d.t")
        end(writes, [])
        with writes._entry.connect(Cluster) as worker, pytest.raises(Unauthenticated, match="this login has ended"):
            worker.facts("d.t")
        writes = source.writer(schema, overwrite=False)
    writes.abort([])


class FakeSession:
    """As much of a session of Spark Connect as an application knows."""

    session_id = "session-of-a-test"

    def __init__(self) -> None:
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


def test_the_logins_of_an_application_are_renewed_and_end_with_its_session(guarded: RunningCluster) -> None:
    stopping: Any = FakeSession()
    application = application_of(stopping)
    assert application_of(stopping) is application
    application.keep(str(guarded.directory), None)
    made = bound_to(str(guarded.directory), None, {}, application.id)
    source, stranger = made(options(guarded)), LeaseholdSource(options(guarded))
    schema = source.schema()
    ours, other = source.reader(schema), stranger.reader(schema)
    writes = source.writer(schema, overwrite=False)
    application.renew()
    for one in (ours, other, writes):
        with one._entry.connect(Cluster) as worker:
            assert worker.facts("d.t").name == "d.t"
    stopping.stop()
    assert stopping.is_stopped
    for one in (ours, writes):
        with one._entry.connect(Cluster) as worker, pytest.raises(Unauthenticated, match="this login has ended"):
            worker.facts("d.t")
    with other._entry.connect(Cluster) as worker:
        assert worker.facts("d.t").name == "d.t"
    assert application_of(stopping) is not application
    stopping.stop()


def test_what_goes_to_the_workers_is_heard_once_the_driver_has_closed(guarded: RunningCluster) -> None:
    """Of the logins that the source makes, it gives back those that nobody works on with."""
    with connect(guarded.directory, user="u", password=PASSWORD) as user:
        user.table("d.t").append(pa.table({"a": [1]}))
    source = LeaseholdSource(options(guarded))
    schema = source.schema()
    reads = source.reader(schema)
    assert sum(batch.num_rows for part in reads.partitions() for batch in reads.read(part)) > 0
    source.writer(schema, overwrite=False).abort([])


def test_tables_and_views_of_a_session_take_a_user(spark: SparkSession, guarded: RunningCluster, root: Cluster) -> None:
    password = "o'clock \\"
    root.sql(r"CREATE USER q PASSWORD 'o\'clock \\'")
    root.sql("CREATE VIEW d.v AS SELECT a FROM d.t")
    root.sql("GRANT SELECT ON DATABASE d TO q")
    root.sql("GRANT INSERT ON TABLE d.t TO q")
    before = table(spark, "d.t", cluster=guarded.directory, user="q", password=password).count()
    for rows in (before, before + 1):
        assert attach(spark, guarded.directory, user="q", password=password) == ["d_other", "d_t"]
        assert spark.table("d_t").count() == rows
        spark.sql("INSERT INTO d_t VALUES (-1)")
    assert view(spark, "d.v", cluster=guarded.directory, user="q", password=password).count() == before + 2
    with pytest.raises(Unauthenticated):
        table(spark, "d.t", cluster=guarded.directory)


def test_a_plan_shows_no_password(
    spark: SparkSession, guarded: RunningCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = reader(spark, **options(guarded)).load()
    attach(spark, guarded.directory, user="u", password=PASSWORD)
    for one in (frame, spark.table("d_t")):
        one.explain("extended")
        plan = capsys.readouterr().out
        assert "Physical Plan" in plan
        assert PASSWORD not in plan
    assert PASSWORD not in str(spark.sql("DESCRIBE EXTENDED d_t").collect())
    java: Any = spark.table("d_t")
    kept = java._jdf.queryExecution().analyzed().collectLeaves().head().options()
    assert dict(kept.asCaseSensitiveMap()).keys() == {"table", "cluster", "user", "shares"}


def test_a_view_keeps_the_user_and_a_session_the_password(spark: SparkSession, guarded: RunningCluster) -> None:
    attach(spark, guarded.directory, user="u", password=PASSWORD)
    session(cluster=spark.conf.get(CLUSTER_SETTING), master="local[2,4]")
    assert spark.table("d_t").count() >= 0
    with pytest.raises(WrongPassword):
        attach(spark, guarded.directory, user="u", password="guessed")
    spark.sql("INSERT INTO d_t VALUES (-1)")


def test_a_file_of_credentials_says_where_and_who_and_its_token_does_not_travel(
    spark: SparkSession, guarded: RunningCluster, root: Cluster, tmp_path: Path
) -> None:
    token, path = root.create_token("job", "u"), tmp_path / "u.json"
    authorities = guarded.directory / TLS_FOLDER / CA
    write_credentials(path, CredentialsFile(address=root.address, user="u", token=token, ca=str(authorities)))
    given = {"credentials": str(path), "table": "d.t"}
    spark.createDataFrame([Row(a=7)], "a BIGINT").write.format("leasehold").options(
        cluster=str(guarded.directory), **given
    ).mode("append").save()
    source = LeaseholdSource(given)
    schema = source.schema()
    for one in (source.reader(schema), source.writer(schema, overwrite=False)):
        assert token.encode() not in pickle.dumps(one)
    spark.conf.set(CREDENTIALS_SETTING, str(path))
    try:
        frame = table(spark, "d.t", cluster=guarded.directory)
        before = frame.count()
        assert before > 0
        root.sql("DROP TOKEN job")
        with pytest.raises(LeaseholdError, match="this login has ended"):
            frame.count()
    finally:
        spark.conf.unset(CREDENTIALS_SETTING)
