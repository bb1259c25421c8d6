"""The port of a log's engine, on real members of etcd."""

import pytest

from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.log.store import LogStore
from tests.conformance.log_store_suite import Engine, LogStoreSuite
from tests.etcd_cluster import EtcdCluster, one_and_three_members


class Ground:
    """Gives each test a prefix of its own in one cluster."""

    def __init__(self, cluster: EtcdCluster, prefix: str) -> None:
        self._cluster = cluster
        self._prefix = prefix

    async def open(self) -> LogStore:
        return self._cluster.store(self._prefix, try_ns=10 * SECOND_NS)  # so a slow disk fails no test


cluster = one_and_three_members(marks_of_one=pytest.mark.long)


class TestEtcdStore(LogStoreSuite):
    @pytest.fixture
    def engine(self, cluster: EtcdCluster, request: pytest.FixtureRequest) -> Engine:
        return Ground(cluster, request.node.name.partition("[")[0])
