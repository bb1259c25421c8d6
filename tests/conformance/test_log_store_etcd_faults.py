"""Real members of etcd that die, pause, lose their quorum or run full, and requests that go on meanwhile."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.errors import Indefinite
from leasehold.metastorage.access import StoreAccess
from leasehold.metastorage.etcd.client import EtcdClient
from leasehold.metastorage.log.store import MISSING, LogStore, StoreFull, StoreUnsuitable, Swap
from leasehold.metastorage.tries import TryFailed
from leasehold.wire.clock import BoottimeClock
from tests.conformance.log_store_faults_suite import PATIENT_NS, LogStoreFaultsSuite, Server, names, until_back
from tests.conformance.store_words import until_it_answers
from tests.etcd_admin import EtcdAdministrator
from tests.etcd_cluster import EtcdCluster


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    cluster = EtcdCluster(tmp_path_factory.mktemp("three"), 3)
    cluster.start()
    yield cluster
    cluster.kill()


class TestEtcdFaults(LogStoreFaultsSuite):
    engine = "etcd"

    async def alone(self, store: LogStore, last: Server) -> None:
        (member,) = await store.members()
        assert member.address == last.address
        assert not (await store.size()).is_full


async def test_a_member_without_the_others_ends_its_watches(three: EtcdCluster) -> None:
    first, *others = three.servers.values()
    await until_back(three, first)
    client = EtcdClient(StoreAccess(endpoints=(first.address,)), BoottimeClock())
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
    await until_back(three, first)


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
    mixed = small.store("a", StoreAccess(endpoints=(*small.endpoints, *three.endpoints)))
    await mixed.get("e/1")
    small.kill()
    with pytest.raises(StoreUnsuitable, match="another cluster"):
        await mixed.get("e/1")  # a swap could still be sent to the member that is gone
    await mixed.close()
