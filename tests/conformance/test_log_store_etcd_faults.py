"""Real members of etcd that die, pause, lose their quorum or run full, and requests that go on meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from leasehold.errors import Indefinite, Unreachable
from leasehold.limits.units import MILLISECOND_NS
from leasehold.metastorage.etcd.client import EtcdAccess, EtcdClient
from leasehold.metastorage.etcd.statuses import TryFailed
from leasehold.metastorage.etcd.store import EtcdStore
from leasehold.metastorage.log.store import MISSING, StoreFull, StoreUnsuitable, Swap
from leasehold.wire.clock import BoottimeClock
from tests.conformance.etcd_words import until_it_answers
from tests.etcd_admin import EtcdAdministrator
from tests.etcd_cluster import EtcdCluster, EtcdServer

PATIENT_NS = 60_000 * MILLISECOND_NS


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    cluster = EtcdCluster(tmp_path_factory.mktemp("three"), 3)
    cluster.start()
    yield cluster
    cluster.kill()


@pytest.fixture
async def store(three: EtcdCluster, request: pytest.FixtureRequest) -> AsyncIterator[EtcdStore]:
    store = three.store(request.node.name)
    await until_it_answers(store)
    yield store
    await store.close()


class Appender:
    """Appends numbered entries under a head, as a leader does. It looks after each answer that is not known."""

    def __init__(self, store: EtcdStore) -> None:
        self._store = store
        self.head = 0
        self._version = MISSING
        self.unknown = 0
        self.acknowledged: list[int] = []

    async def append(self) -> None:
        number = self.head + 1
        text = b"%d" % number
        puts = {"log/head": text, f"entry/{number:06}": text}
        try:
            versions = await self._store.swap(Swap(unchanged={"log/head": self._version}, puts=puts))
        except Indefinite:
            self.unknown += 1
            await self._look()
            return
        if versions is None:  # an append of which nothing was known has happened after it was looked for
            assert self.unknown > 0
            await self._look()
            return
        self.acknowledged.append(number)
        self.head, self._version = number, versions["log/head"]

    async def append_times(self, count: int) -> None:
        """Until so many further ones were acknowledged."""
        wanted = len(self.acknowledged) + count
        async with asyncio.timeout(60):
            while len(self.acknowledged) < wanted:
                await self.append()

    async def _look(self) -> None:
        try:
            found = await self._store.get("log/head")
        except Indefinite:
            return
        if found is not None:
            assert int(found.value) >= self.head, "what was acknowledged is gone"
            self.head, self._version = int(found.value), found.version


async def names(store: EtcdStore, directory: str) -> list[int]:
    found: list[str] = []
    while page := await store.page(directory, f"{found[-1]}0" if found else "", limit=1000):
        found += [name for name, _ in page]
    return [int(name) for name in found]


async def leader(three: EtcdCluster, store: EtcdStore) -> EtcdServer:
    (name,) = (one.name for one in await store.members() if one.leads)
    return three.servers[name]


async def test_appends_go_on_while_members_die_and_pause(three: EtcdCluster, store: EtcdStore) -> None:
    appender = Appender(store)
    await appender.append_times(20)
    one = await leader(three, store)
    one.kill()
    await appender.append_times(20)
    one.start()
    await until_it_answers(at(three, one))
    two = await leader(three, store)
    two.pause()
    await appender.append_times(20)
    two.resume()
    for server in three.servers.values():
        server.pause()
        await appender.append_times(5)
        server.resume()
    entries = await names(store, "entry")
    assert entries == [*range(1, entries[-1] + 1)], "each happened once, in order"
    assert {*appender.acknowledged} <= {*entries}
    assert len(appender.acknowledged) == len({*appender.acknowledged}) == 55 + 20
    assert len(entries) - len(appender.acknowledged) <= appender.unknown <= 20


def at(cluster: EtcdCluster, server: EtcdServer) -> EtcdStore:
    """A client of one member only."""
    return cluster.store("other", EtcdAccess(endpoints=(server.address,)))


async def test_without_a_quorum_nothing_is_answered_until_it_is_back(three: EtcdCluster, store: EtcdStore) -> None:
    assert await store.swap(Swap(unchanged={}, puts={"log/head": b"1"})) is not None
    one, two, last = three.servers.values()
    one.kill()
    two.kill()
    with pytest.raises(Indefinite):  # it may be sent before the last member knows that it is alone
        await store.swap(Swap(unchanged={}, puts={"log/head": b"2"}))
    (member,) = await store.members()
    assert member.address == last.address
    assert not (await store.size()).is_full
    with pytest.raises(Unreachable) as caught:
        await store.get("log/head")
    assert f"{one.address}: nothing listens there (connection refused)" in caught.value.text
    assert f"{last.address}: etcd answers: no leader" in caught.value.text
    one.start()
    two.start()
    await until_it_answers(store)
    found = await store.get("log/head")
    assert found is not None
    assert found.value in (b"1", b"2")


async def test_a_watch_survives_its_member(three: EtcdCluster, store: EtcdStore) -> None:
    for server in three.servers.values():
        others = [one.address for one in three.servers.values() if one is not server]
        watcher = three.store("watched", EtcdAccess(endpoints=(server.address, *others)))
        writer = three.store("watched", EtcdAccess(endpoints=tuple(others)), try_ns=PATIENT_NS)
        watch = watcher.watch("log/head")
        async with asyncio.timeout(60):
            await anext(watch)
            server.kill()
            for _ in range(5):  # the first wakes may be of a watch that was opened again
                await until_it_answers(writer)
                assert await writer.swap(Swap(unchanged={}, puts={"log/head": b"x"})) is not None
                await anext(watch)
        await watch.aclose()
        await watcher.close()
        await writer.close()
        server.start()
        back = at(three, server)
        await until_it_answers(back)
        await back.close()


async def test_a_member_without_the_others_ends_its_watches(three: EtcdCluster, store: EtcdStore) -> None:
    first, *others = three.servers.values()
    client = EtcdClient(EtcdAccess(endpoints=(first.address,)), BoottimeClock())
    changes = client.follow(b"watched/log/head")
    async with asyncio.timeout(60):
        await anext(changes)
        for server in others:
            server.kill()
        with pytest.raises(TryFailed):
            await anext(changes)
        for server in others:
            server.start()
    await client.close()
    await until_it_answers(store)


# ------------------------------------------------------------ one member


@pytest.fixture
def small(tmp_path: Path) -> Iterator[EtcdCluster]:
    cluster = EtcdCluster(tmp_path, 1, ("--quota-backend-bytes", str(4 * 1024 * 1024)))
    cluster.start()
    yield cluster
    cluster.kill()


async def test_a_full_store_is_told_and_goes_on_when_it_is_cleared(small: EtcdCluster) -> None:
    store = small.store(quota_bytes=4 * 1024 * 1024, try_ns=PATIENT_NS)
    await until_it_answers(store)
    assert not (await store.size()).is_full
    value, outcomes = bytes(400_000), {}

    async def put(name: str) -> None:
        key = f"part/{name}"
        try:
            outcomes[name] = await store.swap(Swap(unchanged={key: MISSING}, puts={key: value}))
        except (StoreFull, Indefinite) as error:
            outcomes[name] = error

    def refused() -> set[str]:
        return {name for name, outcome in outcomes.items() if isinstance(outcome, StoreFull)}

    while not refused():  # etcd looks at the size of its file, which grows a little later
        assert len(outcomes) < 400
        await asyncio.gather(*(put(f"{len(outcomes) + one:04}") for one in range(4)))
    there = {f"{name:04}" for name in await names(store, "part")}
    unknown = {name for name, outcome in outcomes.items() if isinstance(outcome, Indefinite)}
    assert not refused() & there, "what was refused has not happened"
    assert there - unknown == outcomes.keys() - refused() - unknown
    size = await store.size()
    assert size.is_full
    assert size.quota_bytes == 4 * 1024 * 1024
    assert size.used_bytes > size.quota_bytes * 0.8

    with pytest.raises(StoreFull):
        await store.swap(Swap(unchanged={"log/head": MISSING}, puts={"log/head": b"1"}))
    assert await store.swap(Swap(unchanged={}, deletes=("part/0000",))) == {}, "deletions need no room"
    await store.delete_below("part", "9999")
    await store.free_history()
    await store.free_history()
    administrator = EtcdAdministrator(small.endpoints[0])
    await administrator.defragment()
    assert (await store.size()).used_bytes < 1024 * 1024
    with pytest.raises(StoreFull):
        await store.swap(Swap(unchanged={"log/head": MISSING}, puts={"log/head": b"1"}))
    await administrator.clear_alarm()
    assert not (await store.size()).is_full
    assert await store.swap(Swap(unchanged={"log/head": MISSING}, puts={"log/head": b"1"})) is not None
    await administrator.close()
    await store.close()


async def test_stores_of_two_clusters_share_one_etcd_but_endpoints_do_not_mix(
    small: EtcdCluster, three: EtcdCluster
) -> None:
    stores = [small.store(name, try_ns=PATIENT_NS) for name in ("a", "a-b", "a0")]
    for store in stores:
        assert await store.swap(Swap(unchanged={"e/1": MISSING}, puts={"e/1": b"1", "e/2": b"2"})) is not None
    await stores[0].delete_below("e", "9")
    assert [await names(store, "e") for store in stores] == [[], [1, 2], [1, 2]]
    for store in stores:
        await store.close()
    mixed = small.store("a", EtcdAccess(endpoints=(*small.endpoints, *three.endpoints)))
    await mixed.get("e/1")
    small.kill()
    with pytest.raises(StoreUnsuitable, match="another cluster"):
        await mixed.get("e/1")  # a swap could still be sent to the member that is gone
    await mixed.close()
