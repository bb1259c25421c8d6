"""Certificates, and then their authority, are replaced while statements, scans and appends run: no call fails, and no
node stops serving."""

import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from leasehold.client.cluster import Cluster
from leasehold.local.process import Process
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold
from tests.e2e.waiting import wait_until

READ = "new connections use a certificate"
SERVES = "serving from revision"


class Load:
    """Calls of one client, again and again; a context manager that raises what failed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._failed: BaseException | None = None
        self.rows = 0
        self.rounds = 0

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def goes_on(self) -> bool:
        """Whether it has made a whole round since the last call of this."""
        before = self.rounds
        wait_until(lambda: self.rounds >= before + 2 or self._failed is not None)
        return self._failed is None

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self._cluster.table("d.t").append(pa.table({"a": [self.rows]}))
                self.rows += 1
                assert self._cluster.table("d.t").scan().read_all().num_rows == self.rows
                self._cluster.sql(f"ALTER TABLE d.t SET TBLPROPERTIES ('replication' = '{1 + self.rounds % 2}')")
                self.rounds += 1
        except BaseException as error:  # noqa: BLE001 - it is raised again by whoever waits for this
            self._failed = error


def logged(running: RunningCluster, what: str) -> dict[str, int]:
    return {one.parent.name: one.read_text().count(what) for one in running.directory.glob("*/log")}


def test_certificates_and_their_authority_are_replaced_under_load(tmp_path: Path) -> None:
    with RunningCluster.start(tmp_path / "cluster", nodes=2, tls=True) as running, running.connect() as cluster:
        tls, after = running.directory / "tls", tmp_path / "after"
        bundles = [one.parent for one in tls.glob("*/identity.pem")]
        assert len(bundles) == 4  # of two nodes, a coordinator and a client
        cluster.sql("CREATE DATABASE d")
        cluster.sql("CREATE TABLE d.t (a BIGINT)")
        steps = 0

        def step(*words: str | Path) -> None:
            """Runs a command for each bundle, and goes on once each process uses what it has made."""
            nonlocal steps
            steps += 1
            for bundle in bundles:
                ran = leasehold("ca", *(str(bundle if one == "BUNDLE" else one) for one in words))
                assert ran.code == 0, ran.stderr
            for process in running.directory.glob("*/pid"):
                Process(process.parent).signal(signal.SIGHUP)
            wait_until(lambda: set(logged(running, READ).values()) == {steps})
            assert cluster.tls is not None
            assert cluster.tls.look()
            assert load.goes_on()

        with Load(cluster) as load:
            step("renew", tls / "authority", "BUNDLE")
            assert leasehold("ca", "init", str(after), "--successor-of", str(tls / "authority")).code == 0
            step("trust", "BUNDLE", after / "ca.pem")
            step("renew", after, "BUNDLE")
            step("trust", "BUNDLE", after / "ca.pem", "--only")
        serving: Callable[[str], int] = logged(running, SERVES).__getitem__
        assert [serving(node) for node in running.names()] == [1, 1]
