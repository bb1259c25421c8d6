"""The meta storage contract over a replicated log in real members of etcd."""

from pathlib import Path

import pytest

from tests.conformance.log_place import LogPlace
from tests.conformance.metastorage_life_suite import LifeSuite
from tests.conformance.metastorage_model import hold_to_the_model
from tests.conformance.metastorage_suite import MetaStorageSuite
from tests.conformance.metastorage_watch_suite import WatchSuite
from tests.etcd_cluster import EtcdCluster, one_and_three_members

cluster = one_and_three_members(marks_of_one=pytest.mark.long)
"""One member does no more than several: the contract is the same."""


class TestEtcd(MetaStorageSuite, WatchSuite, LifeSuite):
    RACING = 100  # each takes a while here; over a log in memory they are more

    @pytest.fixture
    def place(self, cluster: EtcdCluster, tmp_path: Path, request: pytest.FixtureRequest) -> LogPlace:
        return LogPlace(tmp_path, cluster, request.node.name.partition("[")[0])


@pytest.mark.parametrize("examples", [5, pytest.param(40, marks=pytest.mark.long)])
def test_random_histories_agree_with_the_model(cluster: EtcdCluster, examples: int) -> None:
    hold_to_the_model(lambda directory: LogPlace(directory, cluster, directory.name), examples=examples)
