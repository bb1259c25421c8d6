"""Users on a cluster of real processes: logging in, rights, and revoking them while a node can't hear of it."""

import threading

import pyarrow as pa
import pytest

from leasehold.client.cluster import Cluster, connect
from leasehold.core.words.messages import Receipt, Rows
from leasehold.core.words.records import Outcome
from leasehold.errors import BadSettings, Forbidden, Unauthenticated, WrongPassword
from leasehold.limits.clients import CALL_TIMEOUT_NS, SCAN_STREAMS
from leasehold.limits.units import SECOND_NS
from leasehold.spark.application import Application
from leasehold.wire.clock import BoottimeClock
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold
from tests.e2e.waiting import wait_until, wait_until_whole

pytestmark = pytest.mark.processes

ROWS = 2_000_000
APPENDS = SCAN_STREAMS + 1
"""Segments of a table: more than a scan asks for ahead, so that its last is asked for when the first was taken."""
PASSWORD = {"LEASEHOLD_USER": "root", "LEASEHOLD_PASSWORD": "the root 1"}


def make_table(cluster: Cluster, rows: int = ROWS, replication: int = 3) -> None:
    cluster.sql("CREATE DATABASE d")
    cluster.sql(f"CREATE TABLE d.t (a BIGINT, b STRING) TBLPROPERTIES ('replication' = '{replication}')")
    for first in range(APPENDS):
        column = pa.array(range(first, rows, APPENDS), pa.int64())
        cluster.table("d.t").append(pa.table({"a": column, "b": column.cast(pa.string())}))
    wait_until_whole(cluster)


def settle(fresh: RunningCluster) -> Cluster:
    """The administrator root, and u, who may read d.t."""
    with fresh.connect() as nobody:
        nobody.sql("CREATE USER root PASSWORD 'the root 1'")
    root = connect(fresh.directory, user="root", password="the root 1")
    root.sql("CREATE USER u PASSWORD 'u'")
    root.sql("GRANT SELECT ON TABLE d.t TO u")
    return root


def receipt(cluster: Cluster, text: str) -> Receipt:
    answer = cluster.sql(text)
    assert isinstance(answer, Receipt)
    assert answer.outcome is Outcome.COMMITTED
    return answer


def test_revoke_ends_a_running_scan_while_a_node_is_paused(fresh: RunningCluster) -> None:
    """Once REVOKE has returned no node releases a batch, not even one that slept through it."""
    with fresh.connect() as nobody:
        make_table(nobody)
    with settle(fresh) as root, connect(fresh.directory, user="u", password="u") as user:
        reader = user.table("d.t").scan()
        reader.read_next_batch()
        asleep = fresh.names()
        for name in asleep[:2]:
            fresh.pause(name)
        revoked = receipt(root, "REVOKE SELECT ON TABLE d.t FROM u")
        assert revoked.elapsed_ns <= revoked.bound_ns
        assert sorted(one.how for one in revoked.settled) == ["applied", "fenced", "fenced"]
        for name in asleep[:2]:
            fresh.resume(name)
        with pytest.raises(Forbidden, match="u lacks SELECT"):
            for _batch in reader:
                pass
        fresh.wait_until_active()
        with pytest.raises(Forbidden, match="u lacks SELECT"):
            user.table("d.t")
        verified = leasehold("verify", "-o", "json", directory=fresh.directory, **PASSWORD).json()
        assert verified["stale_serves"] == 0
        # A plan made before opens nothing on any node.
        receipt(root, "GRANT SELECT ON TABLE d.t TO u")
        assert user.table("d.t").scan(columns=["a"]).read_all().num_rows == ROWS


def test_what_ends_a_login_ends_its_scans_and_appends(fresh: RunningCluster) -> None:
    with fresh.connect() as nobody:
        make_table(nobody)
        before = nobody.table("d.t").scan()
        before.read_next_batch()
        with settle(fresh) as root:
            with pytest.raises(Unauthenticated):
                for _batch in before:
                    pass
            receipt(root, "GRANT INSERT ON DATABASE d TO u")
            with connect(fresh.directory, user="u", password="u") as user:
                reader = user.table("d.t").scan()
                reader.read_next_batch()
                receipt(root, "ALTER USER u PASSWORD 'new'")
                with pytest.raises(Unauthenticated):
                    for _batch in reader:
                        pass
                with pytest.raises(WrongPassword):
                    user.sql("SHOW TABLES")
            with connect(fresh.directory, user="u", password="new") as user:
                assert user.table("d.t").append(pa.table({"a": [1], "b": ["x"]})) == 1
                receipt(root, "REVOKE INSERT ON DATABASE d FROM u")
                with pytest.raises(Forbidden, match="u lacks INSERT"):
                    user.table("d.t").append(pa.table({"a": [1], "b": ["x"]}))
                receipt(root, "DROP USER u")
                with pytest.raises(WrongPassword):
                    user.sql("SHOW TABLES")


def test_a_node_that_was_away_fetches_what_it_missed(fresh: RunningCluster) -> None:
    """Nodes copy from each other by what they prove to be."""
    with fresh.connect() as nobody:
        make_table(nobody, rows=10)
    with settle(fresh) as root:
        fresh.kill("node-3")
        root.table("d.t").append(pa.table({"a": [10], "b": ["missed"]}))
        fresh.restart("node-3")
        wait_until(lambda: len(list(fresh.directory.glob("node-3/segments/*/*/*.parquet"))) == APPENDS + 1)
        fresh.kill("node-1")
        fresh.kill("node-2")
        assert root.table("d.t").scan().read_all().num_rows == 11


def test_closing_ends_the_login_but_none_that_was_delegated(single: RunningCluster) -> None:
    with single.connect() as nobody:
        make_table(nobody, rows=10, replication=1)
    with settle(single):
        with connect(single.directory, user="u", password="u") as user:
            assert user.table("d.t").scan().read_all().num_rows == 10
            closed, delegated = user.token, user.delegate(user.facts("d.t").table).token
        for _ in range(2):  # nor does the first one that was given it end it
            with Cluster(single.directory, token=delegated) as worker:
                assert worker.table("d.t").scan().read_all().num_rows == 10
        with Cluster(single.directory, token=closed) as late, pytest.raises(Unauthenticated, match="ended"):
            late.sql("SHOW TABLES")


def test_an_application_ends_its_logins_though_the_coordinator_is_slow(single: RunningCluster) -> None:
    with single.connect() as nobody:
        make_table(nobody, rows=10, replication=1)
    application = Application()
    application.keep(str(single.directory), None)
    with settle(single), connect(single.directory, user="u", password="u") as user:
        table = user.facts("d.t").table
        delegated = user.delegate(table, application=application.id).token
        single.pause("coordinator")
        resuming = threading.Timer(1.0, single.resume, ["coordinator"])
        resuming.start()
        application.end()
        resuming.join()
        with Cluster(single.directory, token=delegated) as worker, pytest.raises(Unauthenticated):
            worker.table("d.t")


def test_an_application_says_which_logins_it_could_not_end(
    single: RunningCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("leasehold.spark.application.LOGINS_END_NS", SECOND_NS)
    application = Application()
    application.keep(str(single.directory), None)
    single.kill("coordinator")
    application.end()
    assert f"the logins of Spark's tasks at {single.directory} end within 30 minutes" in caplog.text


def test_closing_holds_nobody_up(single: RunningCluster) -> None:
    now_ns = BoottimeClock().now_ns
    with single.connect() as nobody:
        nobody.sql("CREATE USER u PASSWORD 'u'")
    paused, dead = (connect(single.directory, user="u", password="u") for _ in range(2))
    for one in (paused, dead):
        one.sql("SHOW TABLES")
    single.pause("coordinator")
    began_ns = now_ns()
    paused.close()
    assert now_ns() - began_ns < CALL_TIMEOUT_NS
    single.resume("coordinator")
    single.kill("coordinator")
    began_ns = now_ns()
    dead.close()
    assert now_ns() - began_ns < CALL_TIMEOUT_NS


def test_a_login_outlives_the_coordinator(single: RunningCluster) -> None:
    with single.connect() as nobody:
        make_table(nobody, rows=10, replication=1)
    with settle(single), connect(single.directory, user="u", password="u") as user:
        user.sql("SHOW TABLES")
        token = user.token
        single.kill("coordinator")
        single.restart("coordinator")
        assert user.table("d.t").scan().read_all().num_rows == 10
        assert user.token == token


def test_the_command_line_says_who_asks(single: RunningCluster, capfd: pytest.CaptureFixture[str]) -> None:
    del capfd
    where = single.directory
    with single.connect() as nobody:
        nobody.sql("CREATE USER root PASSWORD 'the root 1'")
    leasehold("sql", "SHOW TABLES", directory=where).refused(3, "UNAUTHENTICATED", "LEASEHOLD_PASSWORD")
    leasehold("sql", "SHOW TABLES", "--user", "root", directory=where).refused(2, "LEASEHOLD_PASSWORD")
    wrong = leasehold("sql", "SHOW TABLES", "--user", "root", directory=where, LEASEHOLD_PASSWORD="guessed")
    wrong.refused(3, "WRONG_PASSWORD")
    assert "guessed" not in wrong.err
    asked = leasehold("sql", "SHOW USERS", "-u", "root", "-o", "json", directory=where, LEASEHOLD_PASSWORD="the root 1")
    shown = asked.json()
    assert [row[shown["columns"].index("failed_logins")] for row in shown["rows"]] == [1]
    assert leasehold("sql", "CREATE ROLE r", directory=where, **PASSWORD).code == 0
    again = leasehold("sql", "DROP USER root", directory=where, **PASSWORD)
    assert again.code == 0, "the last user of all may go"
    assert leasehold("sql", "SHOW TABLES", directory=where).code == 0
    assert leasehold("sql", "SHOW TABLES", directory=where, **PASSWORD).code == 0, "there is nobody to be"


def test_what_concerns_no_catalog_needs_no_user(fresh: RunningCluster) -> None:
    where = fresh.directory
    with fresh.connect() as nobody:
        nobody.sql("CREATE USER root PASSWORD 'the root 1'")
    assert leasehold("status", "-o", "json", directory=where).json()["repairs"] is None
    assert leasehold("status", "-o", "json", directory=where, **PASSWORD).json()["repairs"] == []
    assert leasehold("chaos", "kill", "node-1", directory=where).code == 0
    assert leasehold("chaos", "start", "node-1", directory=where).code == 0
    leasehold("verify", directory=where).refused(3, "UNAUTHENTICATED")
    assert leasehold("chaos", "kill", "node-2", directory=where).code == 0
    assert leasehold("up", "--detach", directory=where).code == 0


def test_no_secret_is_in_a_file_or_a_log(single: RunningCluster) -> None:
    with single.connect() as nobody:
        nobody.sql("CREATE USER root PASSWORD 'not to be found'")
    with connect(single.directory, user="root", password="not to be found") as root:
        root.sql("ALTER USER root PASSWORD 'nor this one here'")
    with connect(single.directory, user="root", password="nor this one here") as root:
        history = root.sql("SHOW HISTORY")
        assert isinstance(history, Rows)
        assert len(history.rows) == 2
        secrets = (b"not to be found", b"nor this one here", str(root.token).encode())
        assert None not in secrets
    single.stop()
    found = [
        (path, secret)
        for path in single.directory.rglob("*")
        if path.is_file()
        for secret in secrets
        if secret in path.read_bytes()
    ]
    assert found == []


def test_a_user_without_a_password_is_told_so_where_it_is_needed(
    single: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEASEHOLD_PASSWORD", raising=False)
    with connect(single.directory, user="root") as cluster:
        cluster.sql("CREATE USER root PASSWORD 'x'")
        with pytest.raises(BadSettings, match="root"):
            cluster.sql("SHOW TABLES")
    monkeypatch.setenv("LEASEHOLD_PASSWORD", "x")
    with connect(single.directory, user="root") as cluster:
        cluster.sql("SHOW TABLES")
