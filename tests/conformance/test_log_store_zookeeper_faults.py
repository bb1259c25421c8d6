"""Real members of ZooKeeper that die, pause and lose their quorum, and requests that go on meanwhile."""

import asyncio
from collections.abc import Iterator

import pytest

from leasehold.errors import Indefinite, Unreachable
from leasehold.metastorage.access import StoreAccess
from leasehold.metastorage.log.store import LogStore, StoreUnsuitable, Swap
from tests.conformance.log_store_faults_suite import (
    PATIENT_NS,
    LogStoreFaultsSuite,
    Server,
    at,
    leader,
    until_back,
)
from tests.conformance.store_words import until_it_answers
from tests.zookeeper_cluster import ZooKeeperCluster

pytestmark = pytest.mark.long  # with etcd, the same runs in `make test`


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperCluster]:
    cluster = ZooKeeperCluster(tmp_path_factory.mktemp("three"), 3)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


def put(value: bytes) -> Swap:
    return Swap(unchanged={}, puts={"log/head": value})


class TestZooKeeperFaults(LogStoreFaultsSuite):
    engine = "ZooKeeper"

    async def alone(self, store: LogStore, last: Server) -> None:
        with pytest.raises(Unreachable):
            await store.members()

    async def test_a_leader_that_most_members_do_not_hear_answers_no_read(
        self, three: ZooKeeperCluster, store: LogStore
    ) -> None:
        """It leads on for a while, and would answer `sync`."""
        assert await store.swap(put(b"1")) is not None
        first = await leader(three, store)
        others = [one for one in three.servers.values() if one is not first]
        alone = at(three, first, prefix="test_a_leader_that_most_members_do_not_hear_answers_no_read")
        assert await alone.get("log/head") is not None
        for server in others:
            server.pause()
        try:
            with pytest.raises(Unreachable):
                await alone.get("log/head")
        finally:
            for server in others:
                server.resume()
        await until_it_answers(alone)
        await alone.close()

    async def test_a_leader_that_was_followed_answers_nothing_old(
        self, three: ZooKeeperCluster, store: LogStore
    ) -> None:
        prefix = "test_a_leader_that_was_followed_answers_nothing_old"
        for number in range(3):
            await until_it_answers(store)
            await store.swap(put(b"old"))
            first = await leader(three, store)
            others = [one for one in three.servers.values() if one is not first]
            old, new = at(three, first, prefix=prefix), at(three, *others, prefix=prefix)
            assert await old.get("log/head") is not None
            first.pause()
            await until_it_answers(new)
            while True:
                try:
                    written = await new.swap(put(b"%d" % number))
                except Indefinite:
                    await until_it_answers(new)
                else:
                    assert written is not None
                    break
            first.resume()
            answers = 0
            async with asyncio.timeout(60):
                while not answers:
                    try:
                        found = await old.get("log/head")
                    except Indefinite:
                        continue
                    assert found is not None
                    assert found.value == b"%d" % number
                    answers += 1
            await old.close()
            await new.close()

    async def test_endpoints_of_two_clusters_do_not_mix(
        self, three: ZooKeeperCluster, store: LogStore, one_zookeeper: ZooKeeperCluster
    ) -> None:
        first = next(iter(three.servers.values()))
        await until_back(three, first)
        for cluster in (three, one_zookeeper):
            alone = cluster.store("mixed", try_ns=PATIENT_NS)
            assert await alone.swap(put(b"1")) is not None
            await alone.close()
        access = StoreAccess(endpoints=(first.address, *one_zookeeper.endpoints))
        mixed = three.store("mixed", access)
        await mixed.get("log/head")
        first.kill()
        with pytest.raises(StoreUnsuitable, match="another cluster"):
            await mixed.get("log/head")
        await mixed.close()
        first.start()
        await until_back(three, first)
