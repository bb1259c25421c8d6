"""The meta storage contract over a replicated log in real members of etcd."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from leasehold.limits.metastorage import COMPACTION_SLICE_ROWS
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.contract import MetaStorage
from leasehold.metastorage.database import DatabaseLimits
from leasehold.metastorage.log.log import Log
from leasehold.metastorage.log.sqlite_replica import SqliteReplicaPlace
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from tests.conformance.metastorage_life_suite import LifeSuite
from tests.conformance.metastorage_suite import MetaStorageSuite
from tests.conformance.metastorage_watch_suite import WatchSuite
from tests.etcd_cluster import EtcdCluster


@dataclass
class EtcdPlace:
    """A coordinator's directory, and a log of its own in the members."""

    directory: Path
    cluster: EtcdCluster
    name: str

    async def open(self, *, slice_rows: int = COMPACTION_SLICE_ROWS) -> MetaStorage:
        store = self.cluster.store(self.name, try_ns=10 * SECOND_NS)  # so a slow disk fails no test
        place = SqliteReplicaPlace(self.directory, limits=DatabaseLimits(slice_rows=slice_rows))
        return await ReplicatedMetaStorage.open(Log(store), place, BoottimeClock(), SystemEntropy())


MEMBERS = [pytest.param(1, id="one-member", marks=pytest.mark.long), pytest.param(3, id="three-members")]
"""One member does no more than several: the contract is the same."""


@pytest.fixture(scope="module", params=MEMBERS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    cluster = EtcdCluster(tmp_path_factory.mktemp("etcd"), request.param)
    cluster.start()
    yield cluster
    cluster.kill()


class TestEtcd(MetaStorageSuite, WatchSuite, LifeSuite):
    RACING = 100  # each takes a while here; over a log in memory they are more

    @pytest.fixture
    def place(self, cluster: EtcdCluster, tmp_path: Path, request: pytest.FixtureRequest) -> EtcdPlace:
        return EtcdPlace(tmp_path, cluster, request.node.name.partition("[")[0])
