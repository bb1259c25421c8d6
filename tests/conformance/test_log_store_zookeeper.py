"""The port of a log's engine, on real members of ZooKeeper."""

import asyncio

import pytest

from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.log.store import MISSING, LogStore, StoreUnsuitable, Swap
from tests.conformance.log_store_suite import Engine, LogStoreSuite
from tests.few import few
from tests.zookeeper_cluster import ZooKeeperCluster, administrator


class Ground:
    """Gives each test a prefix of its own in one cluster."""

    def __init__(self, cluster: ZooKeeperCluster, prefix: str) -> None:
        self._cluster = cluster
        self._prefix = prefix

    async def open(self) -> LogStore:
        return self._cluster.store(self._prefix, try_ns=10 * SECOND_NS)  # so a slow disk fails no test


@pytest.fixture(scope="module", params=few(1, ["three_zookeepers", "one_zookeeper"]))
def cluster(request: pytest.FixtureRequest) -> ZooKeeperCluster:
    return request.getfixturevalue(request.param)


class TestZooKeeperStore(LogStoreSuite):
    @pytest.fixture
    def engine(self, cluster: ZooKeeperCluster, request: pytest.FixtureRequest) -> Engine:
        return Ground(cluster, request.node.name.partition("[")[0])


# ------------------------------------------------------------ of ZooKeeper alone


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return request.node.name


async def test_swaps_that_compare_nothing_happen_whole_among_others(
    three_zookeepers: ZooKeeperCluster, prefix: str
) -> None:
    """Each fails where its belief about the nodes is wrong, looks, and happens in the end."""
    stores = [three_zookeepers.store(prefix, try_ns=10 * SECOND_NS) for _ in range(3)]
    keys = [f"part/{number:016}-p" for number in range(4)]

    async def change(store: LogStore, number: int) -> None:
        for turn in range(12):
            if (number + turn) % 3:
                value = b"%d-%d" % (number, turn)
                versions = await store.swap(Swap(unchanged={}, puts=dict.fromkeys(keys, value)))
                assert versions is not None
                assert versions.keys() == {*keys}
            else:
                assert await store.swap(Swap(unchanged={}, deletes=tuple(keys))) == {}

    await asyncio.gather(*(change(store, number) for number, store in enumerate(stores)))
    values = [value.value for _, value in await stores[0].page("part", limit=10)]
    assert values in ([], values[:1] * 4)
    for store in stores:
        await store.close()


async def test_a_key_is_created_while_its_group_is_deleted(three_zookeepers: ZooKeeperCluster, prefix: str) -> None:
    writer, cleaner = (three_zookeepers.store(prefix, try_ns=10 * SECOND_NS) for _ in range(2))
    done = asyncio.Event()

    async def clean() -> None:
        while not done.is_set():
            await cleaner.delete_below("entry", f"{1_000:016}")

    async def write() -> None:
        for number in range(60):
            key = f"entry/{number:016}"
            assert await writer.swap(Swap(unchanged={key: MISSING}, puts={key: b"e"})) is not None
        done.set()

    await asyncio.gather(clean(), write())
    await cleaner.delete_below("entry", f"{1_000:016}")
    assert await writer.page("entry", limit=1) == []
    assert await writer.swap(Swap(unchanged={}, puts={f"entry/{5:016}": b"e"})) is not None
    for store in (writer, cleaner):
        await store.close()


async def test_a_log_of_many_entries_is_listed_in_groups(one_zookeeper: ZooKeeperCluster, prefix: str) -> None:
    store = one_zookeeper.store(prefix, try_ns=10 * SECOND_NS)
    numbers = [998, 999, 1_000, 1_001, 2_000, 50_000]
    for number in numbers:
        assert await store.swap(Swap(unchanged={}, puts={f"entry/{number:016}": b"e"})) is not None
    assert [int(name) for name, _ in await store.page("entry", limit=100)] == numbers
    assert [int(name) for name, _ in await store.page("entry", f"{999:016}0", limit=3)] == [1_000, 1_001, 2_000]
    with administrator(one_zookeeper) as kazoo:
        assert sorted(kazoo.get_children(f"/{prefix}/entry")) == [f"{number:013}" for number in (0, 1, 2, 50)]
        await store.delete_below("entry", f"{1_001:016}")
        assert sorted(kazoo.get_children(f"/{prefix}/entry")) == [f"{number:013}" for number in (1, 2, 50)]
    assert [int(name) for name, _ in await store.page("entry", limit=1)] == [1_001]
    await store.close()


async def test_a_store_tells_how_much_it_holds(one_zookeeper: ZooKeeperCluster, prefix: str) -> None:
    store = one_zookeeper.store(prefix, try_ns=10 * SECOND_NS, quota_bytes=16 * 1024**2)
    for number in range(4):
        before = await store.size()
        assert before.quota_bytes == 16 * 1024**2
        assert await store.swap(Swap(unchanged={}, puts={f"part/{number}": bytes(100_000)})) is not None
        after = await store.size()
        assert 100_000 < after.used_bytes - before.used_bytes < 110_000
    await store.delete_below("part", "9")
    assert (await store.size()).used_bytes < 10_000
    await store.close()


async def test_nodes_of_another_program_are_told(one_zookeeper: ZooKeeperCluster, prefix: str) -> None:
    store = one_zookeeper.store(prefix, try_ns=10 * SECOND_NS)
    assert await store.swap(Swap(unchanged={}, puts={"entry/1": b"e"})) is not None
    with administrator(one_zookeeper) as kazoo:
        for strange in ("entry/a-name-that-is-no-group", "entry/1/2", "entry/Ω"):
            kazoo.create(f"/{prefix}/{strange}", b"")
            with pytest.raises(StoreUnsuitable, match="another program"):
                await store.page("entry", limit=10)
            kazoo.delete(f"/{prefix}/{strange}")
    assert len(await store.page("entry", limit=10)) == 1
    await store.close()
