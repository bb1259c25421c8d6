"""The watch of the head of a log: who follows others has one, who leads has none."""

import asyncio

from leasehold.core.words.operations import Change, Txn
from leasehold.limits.log import LOG_HEAD_POLL_NS
from leasehold.metastorage.log.log import HEAD, Log
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.testing.entropy import SeededEntropy
from leasehold.testing.log_store import KeptLog, MemoryLogStore
from leasehold.testing.loop import run_virtual
from leasehold.testing.replica import MemoryReplicaPlace
from leasehold.testing.requests import RequestFate
from tests.unit.metastorage.log_ground import virtual_clock


class Member:
    """A coordinator's storage, and what its watch of the head was told."""

    def __init__(self) -> None:
        self.told = 0

    async def open(self, kept: KeptLog, entropy: SeededEntropy) -> ReplicatedMetaStorage:
        store = MemoryLogStore(kept, before=self.hear)
        return await ReplicatedMetaStorage.open(Log(store), MemoryReplicaPlace(), virtual_clock(), entropy)

    async def hear(self, request: str) -> RequestFate:
        self.told += request == f"watch {HEAD}"
        return RequestFate.ANSWERED


async def put(storage: ReplicatedMetaStorage, key: bytes) -> int:
    return (await storage.txn(Txn(then=(Change(key, b"v"),)))).revision


def test_a_leader_is_not_told_of_its_own_appends_and_one_that_lost_its_term_follows_at_once() -> None:
    async def run(random) -> None:
        kept, entropy, first, second = KeptLog(), SeededEntropy(random), Member(), Member()
        storage, other = await first.open(kept, entropy), await second.open(kept, entropy)
        leadership = await storage.campaign("c1")
        campaigning = asyncio.ensure_future(other.campaign("c2"))
        await put(storage, b"a")  # ends the watch that it had as a follower
        told, followed = first.told, second.told
        for key in (b"b", b"c", b"d"):
            await put(storage, key)
        watch = other.watch(b"", b"\xff", 1)
        assert [(await anext(watch)).revision for _ in range(4)] == [1, 2, 3, 4]
        assert first.told == told
        assert second.told > followed

        await leadership.resign()
        waiting = asyncio.ensure_future(storage.campaign("c1"))
        await campaigning
        clock, follows = virtual_clock(), storage.watch(b"", b"\xff", 5)
        for revision, key in enumerate((b"e", b"f"), 5):
            await put(other, key)
            appended_ns = clock.now_ns()
            assert (await anext(follows)).revision == revision
            assert clock.now_ns() - appended_ns < LOG_HEAD_POLL_NS // 2
        assert first.told > told
        waiting.cancel()
        for one in (storage, other):
            await one.close()

    run_virtual(run, 1)
