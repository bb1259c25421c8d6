"""Meta storages moved into real members of etcd and ZooKeeper, out of them, and from one to the other."""

from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path

import pytest

from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.log.store import LogStore
from tests.conformance.move_suite import MoveSuite
from tests.conformance.move_words import FilePlace, LogPlace, Place, fill
from tests.etcd_cluster import EtcdCluster
from tests.zookeeper_cluster import ZooKeeperCluster


class StorePlace(LogPlace):
    """A log in a store with members; `close` ends its clients."""

    def __init__(self, directory: Path, where: str, open_store: Callable[[], LogStore]) -> None:
        super().__init__(directory, where)
        self._open_store = open_store
        self._stores: list[LogStore] = []

    def store(self) -> LogStore:
        self._stores.append(self._open_store())
        return self._stores[-1]

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


class StorePlaces:
    """Places in one store, which a test names."""

    def __init__(self, directory: Path, cluster: EtcdCluster | ZooKeeperCluster, prefix: str) -> None:
        self._directory = directory
        self._cluster = cluster
        self._prefix = prefix
        self._made: list[StorePlace] = []

    def place(self, name: str) -> StorePlace:
        name = f"{self._prefix}-{name}"
        where = f"etcd://{self._cluster.endpoints[0]}/{name}"
        place = StorePlace(self._directory, where, lambda: self._cluster.store(name, try_ns=10 * SECOND_NS))
        self._made.append(place)
        return place

    async def close(self) -> None:
        for place in self._made:
            await place.close()


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    cluster = EtcdCluster(tmp_path_factory.mktemp("etcd"), 1)
    cluster.start()
    yield cluster
    cluster.kill()


def prefix_of(request: pytest.FixtureRequest) -> str:
    return "".join(one if one.isalnum() else "-" for one in request.node.name)[-40:].strip("-")


@pytest.fixture(params=["etcd", "one_zookeeper"])
def cluster(request: pytest.FixtureRequest) -> EtcdCluster | ZooKeeperCluster:
    return request.getfixturevalue(request.param)


@pytest.fixture
async def places(
    request: pytest.FixtureRequest, cluster: EtcdCluster | ZooKeeperCluster, tmp_path: Path
) -> AsyncGenerator[StorePlaces]:
    places = StorePlaces(tmp_path / "stores", cluster, prefix_of(request))
    yield places
    await places.close()


class TestFileToStore(MoveSuite):
    @pytest.fixture
    async def source(self, tmp_path: Path) -> FilePlace:
        place = FilePlace(tmp_path / "coordinator")
        await fill(place)
        return place

    @pytest.fixture
    def target(self, places: StorePlaces) -> StorePlace:
        return places.place("target")

    @pytest.fixture
    def other(self, places: StorePlaces) -> StorePlace:
        return places.place("other")

    @pytest.fixture
    def like_other(self, places: StorePlaces) -> Place:
        return places.place("like")

    @pytest.fixture
    def empty(self, tmp_path: Path) -> FilePlace:
        return FilePlace(tmp_path / "empty")


class TestStoreToFile(MoveSuite):
    @pytest.fixture
    async def source(self, places: StorePlaces) -> StorePlace:
        place = places.place("source")
        await fill(place)
        return place

    @pytest.fixture
    def target(self, tmp_path: Path) -> FilePlace:
        return FilePlace(tmp_path / "target")

    @pytest.fixture
    def other(self, tmp_path: Path) -> FilePlace:
        return FilePlace(tmp_path / "other")

    @pytest.fixture
    def like_other(self, tmp_path: Path) -> FilePlace:
        return FilePlace(tmp_path / "like")

    @pytest.fixture
    def empty(self, places: StorePlaces) -> StorePlace:
        return places.place("empty")
