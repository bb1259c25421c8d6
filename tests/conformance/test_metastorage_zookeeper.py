"""The meta storage contract over a replicated log in real members of ZooKeeper."""

from pathlib import Path

import pytest

from tests.conformance.log_place import LogPlace
from tests.conformance.metastorage_life_suite import LifeSuite
from tests.conformance.metastorage_model import hold_to_the_model
from tests.conformance.metastorage_suite import MetaStorageSuite
from tests.conformance.metastorage_watch_suite import WatchSuite
from tests.zookeeper_cluster import ZooKeeperCluster

MEMBERS = [pytest.param("one_zookeeper", marks=pytest.mark.long), "three_zookeepers"]
"""One member does no more than several: the contract is the same."""


@pytest.fixture(scope="module", params=MEMBERS)
def cluster(request: pytest.FixtureRequest) -> ZooKeeperCluster:
    return request.getfixturevalue(request.param)


@pytest.mark.long  # the contract over three members of etcd is held in `make test`, and the log of ZooKeeper by itself
class TestZooKeeper(MetaStorageSuite, WatchSuite, LifeSuite):
    RACING = 100  # each takes a while here; over a log in memory they are more

    @pytest.fixture
    def place(self, cluster: ZooKeeperCluster, tmp_path: Path, request: pytest.FixtureRequest) -> LogPlace:
        return LogPlace(tmp_path, cluster, request.node.name.partition("[")[0])


@pytest.mark.filterwarnings("ignore:Do not use the `random` module")  # kazoo's thread does
@pytest.mark.parametrize("examples", [5, pytest.param(40, marks=pytest.mark.long)])
def test_random_histories_agree_with_the_model(cluster: ZooKeeperCluster, examples: int) -> None:
    hold_to_the_model(lambda directory: LogPlace(directory, cluster, directory.name), examples=examples)
