"""A store that declines a coordinator, or does not answer: at the start, and while it serves."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from leasehold.coordinator.opening import OpeningCoordinator, open_patiently
from leasehold.core.words.messages import AskStatus, WhoAreYou
from leasehold.errors import Indefinite, NotLeader
from leasehold.metastorage.log.log import Log
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.metastorage.log.store import StoreDenied, StoreUnsuitable
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.log_store import KeptLog, MemoryLogStore
from leasehold.testing.loop import run_virtual
from leasehold.testing.replica import MemoryReplicaPlace
from leasehold.testing.requests import RequestFate, undisturbed
from leasehold.wire.entropy import SystemEntropy
from tests.scenarios.bad_words import until
from tests.unit.coordinator.office import coordinator_over
from tests.unit.metastorage.log_ground import virtual_clock

DECLINES = [StoreDenied("the password is wrong", hint="write it"), StoreUnsuitable("it is too old", hint="upgrade it")]
declines = pytest.mark.parametrize("decline", DECLINES, ids=["denied", "unsuitable"])


def over_a_log(work: Callable[[MemoryLogStore, SimulatedClock], Awaitable[None]]) -> None:
    async def main(_random: Random) -> None:
        await work(MemoryLogStore(KeptLog()), virtual_clock())

    run_virtual(main, 1)


async def opened(client: MemoryLogStore, clock: SimulatedClock) -> ReplicatedMetaStorage:
    return await ReplicatedMetaStorage.open(Log(client), MemoryReplicaPlace(), clock, SystemEntropy())


@declines
def test_a_coordinator_that_serves_stands_by_until_it_is_let_in_again(decline: StoreDenied | StoreUnsuitable) -> None:
    async def work(client: MemoryLogStore, clock: SimulatedClock) -> None:
        coordinator = await coordinator_over(await opened(client, clock), clock)
        running = asyncio.ensure_future(coordinator.run())
        await until(lambda: coordinator.leader)
        client.kept.declines = decline
        await until(lambda: coordinator.leader is None)
        for request in (AskStatus(), WhoAreYou()):
            await asyncio.sleep(60)
            with pytest.raises(NotLeader) as caught:
                await coordinator.call(request)
            assert f"{decline.text} ({decline.hint})" in caught.value.text
        client.kept.declines = None
        await until(lambda: coordinator.leader)
        assert coordinator.leader is not None
        assert coordinator.leader.grantor.term == 2
        running.cancel()
        await asyncio.wait([running])

    over_a_log(work)


@declines
def test_a_coordinator_that_starts_ends(decline: StoreDenied | StoreUnsuitable) -> None:
    async def work(client: MemoryLogStore, clock: SimulatedClock) -> None:
        client.kept.declines = decline
        with pytest.raises(type(decline)):
            await open_patiently(lambda: opened(client, clock), clock)
        assert not client.kept.values

    over_a_log(work)


def test_a_coordinator_that_waits_for_its_store_says_so() -> None:
    async def lose(request: str) -> RequestFate:
        await undisturbed(request)
        return RequestFate.LOST_BEFORE

    async def work(client: MemoryLogStore, clock: SimulatedClock) -> None:
        service, waits = OpeningCoordinator(), list[Indefinite]()
        with pytest.raises(NotLeader, match=r"is not open yet$"):
            await service.call(WhoAreYou())
        client.before = lose
        opening = asyncio.ensure_future(open_patiently(lambda: opened(client, clock), clock, waits.append))
        await until(lambda: len(waits) > 1)
        service.obstacle = waits[-1]
        nobody: Any = None
        asks = (
            lambda: service.call(WhoAreYou()),
            lambda: service.session(nobody),
            lambda: anext(service.stream(WhoAreYou())),
        )
        for ask in asks:
            with pytest.raises(NotLeader, match=r"not open yet, since no answer from the store \(look"):
                await ask()
        client.before = undisturbed
        coordinator = service.opened = await coordinator_over(await opening, clock)
        running = asyncio.ensure_future(coordinator.run())
        await until(lambda: coordinator.leader)
        assert await service.call(WhoAreYou())
        running.cancel()
        await asyncio.wait([running])

    over_a_log(work)


def test_the_leader_tells_what_is_wrong_with_the_members_of_its_store() -> None:
    async def work(client: MemoryLogStore, clock: SimulatedClock) -> None:
        client.kept.warning = "upgrade it"
        coordinator = await coordinator_over(await opened(client, clock), clock)
        running = asyncio.ensure_future(coordinator.run())
        await until(lambda: coordinator.leader)
        for warnings in (("upgrade it",), ()):
            status: Any = await coordinator.call(AskStatus())
            assert status.store_warnings == warnings
            client.kept.warning = ""
            await asyncio.sleep(11)
        running.cancel()
        await asyncio.wait([running])

    over_a_log(work)
