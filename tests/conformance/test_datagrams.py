"""Datagrams over UDP and simulated: one suite for both; then what only sockets can do."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
import uvloop

from leasehold.errors import BadSettings
from leasehold.limits.swim import DATAGRAM_READ_BYTES_MAX, DATAGRAMS_BATCH_MAX, DATAGRAMS_BATCH_NS
from leasehold.limits.units import SECOND_NS
from leasehold.testing.gossip import GossipWorld, SimulatedDatagrams
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.wire import udp
from leasehold.wire.ports import Datagrams

Listen = Callable[[str], Awaitable[Datagrams]]
"""Hears at a name: of a simulated host, or at the loopback address whatever the name."""


def over_udp(scenario: Callable[[Listen], Awaitable[None]]) -> None:
    asyncio.run(_over_udp(scenario))


def over_uvloop(scenario: Callable[[Listen], Awaitable[None]]) -> None:
    uvloop.run(_over_udp(scenario))


async def _over_udp(scenario: Callable[[Listen], Awaitable[None]]) -> None:
    async def listen(name: str) -> Datagrams:
        return await udp.listen("[::1]:0" if name == "v6" else "127.0.0.1:0")

    await scenario(listen)


def simulated(scenario: Callable[[Listen], Awaitable[None]]) -> None:
    async def main(random: Random) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        world = GossipWorld(loop, random)

        async def listen(name: str) -> Datagrams:
            return SimulatedDatagrams(world, f"{name}:1")

        await scenario(listen)

    run_virtual(main, 1)


@pytest.fixture(params=[over_udp, over_uvloop, simulated])
def run(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_what_is_sent_arrives_whole_with_where_it_came_from(run: Any) -> None:
    async def scenario(listen: Listen) -> None:
        one, other = await listen("one"), await listen("other")
        for blob in (b"x", bytes(DATAGRAM_READ_BYTES_MAX)):
            one.send(other.address, blob)
            assert await other.receive() == (one.address, blob)
            assert other.pending() is None
        other.send(one.address, b"back")
        assert await one.receive() == (other.address, b"back")
        for end in (one, other):
            await end.close()

    run(scenario)


def test_several_wait_until_they_are_looked_at(run: Any) -> None:
    async def scenario(listen: Listen) -> None:
        one, other = await listen("one"), await listen("other")
        blobs = {bytes([number]) for number in range(20)}
        for blob in blobs:
            one.send(other.address, blob)
        got = {(await other.receive())[1]}
        while len(got) < len(blobs):
            waiting = other.pending()
            got.add((waiting or await other.receive())[1])
        assert got == blobs
        for end in (one, other):
            await end.close()

    run(scenario)


def test_sending_to_where_nobody_hears_goes_unnoticed(run: Any) -> None:
    async def scenario(listen: Listen) -> None:
        one, other, gone = await listen("one"), await listen("other"), await listen("gone")
        await gone.close()
        await gone.close()
        for _ in range(3):
            one.send(gone.address, b"x")
            await asyncio.sleep(0)
        gone.send(one.address, b"from one that is closed")
        one.send(other.address, b"still here")
        assert await other.receive() == (one.address, b"still here")
        for end in (one, other):
            await end.close()

    run(scenario)


async def test_an_address_that_is_not_free_or_not_of_this_machine_is_refused() -> None:
    one = await udp.listen("127.0.0.1:0")
    with pytest.raises(BadSettings) as refused:
        await udp.listen(one.address)
    assert refused.value.code == "PORT_IN_USE"
    for address in ("192.0.2.1:0", "example.org:0", "nonsense"):
        with pytest.raises(BadSettings):
            await udp.listen(address)
    await one.close()


async def test_what_floods_is_read_in_batches_with_a_rest_after_each() -> None:
    one = await udp.listen("127.0.0.1:0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anybody:
        for _ in range(2 * DATAGRAMS_BATCH_MAX + 1):
            anybody.sendto(b"x", ("127.0.0.1", int(one.address.rpartition(":")[2])))
    read = [0]
    for _ in range(2):
        assert (await one.receive())[1] == b"x"
        read.append(1)
        while one.pending() is not None:
            read[-1] += 1
    assert read == [0, DATAGRAMS_BATCH_MAX, DATAGRAMS_BATCH_MAX]
    assert (await one.receive())[1] == b"x"
    assert one.pending() is None
    await one.close()
    assert one.pending() is None


async def test_a_batch_ends_early_if_its_datagrams_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 0
    monkeypatch.setattr(udp, "_now_ns", lambda: now_ns)
    one = await udp.listen("127.0.0.1:0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anybody:
        for _ in range(5):
            anybody.sendto(b"x", ("127.0.0.1", int(one.address.rpartition(":")[2])))
    for _ in range(2):
        assert (await one.receive())[1] == b"x"
        now_ns += DATAGRAMS_BATCH_NS - 1
        assert one.pending() is not None
        now_ns += 1
        assert one.pending() is None, "it rests"
        now_ns += SECOND_NS  # what others do meanwhile does not count
    assert (await one.receive())[1] == b"x"
    await one.close()


async def test_what_is_too_long_is_cut_by_one_byte_too_late() -> None:
    one = await udp.listen("127.0.0.1:0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anybody:
        for length in (DATAGRAM_READ_BYTES_MAX, DATAGRAM_READ_BYTES_MAX + 1, 60_000):
            anybody.sendto(bytes(length), ("127.0.0.1", int(one.address.rpartition(":")[2])))
    lengths = [len((await one.receive())[1]) for _ in range(3)]
    assert lengths == [DATAGRAM_READ_BYTES_MAX, DATAGRAM_READ_BYTES_MAX + 1, DATAGRAM_READ_BYTES_MAX + 1]
    await one.close()


async def test_who_waits_for_one_can_be_cancelled_and_wait_again() -> None:
    one = await udp.listen("127.0.0.1:0")
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await one.receive()
    one.send(one.address, b"to itself")
    assert await one.receive() == (one.address, b"to itself")
    await one.close()
