"""Members of ZooKeeper take seconds to start, so tests that leave them alone share them."""

from collections.abc import Iterator

import pytest

from tests.zookeeper_cluster import ZooKeeperCluster


def _running(factory: pytest.TempPathFactory, count: int) -> Iterator[ZooKeeperCluster]:
    cluster = ZooKeeperCluster(factory.mktemp("zookeeper"), count)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


@pytest.fixture(scope="session")
def one_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperCluster]:
    yield from _running(tmp_path_factory, 1)


@pytest.fixture(scope="session")
def three_zookeepers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperCluster]:
    yield from _running(tmp_path_factory, 3)
