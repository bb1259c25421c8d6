"""A coordinator that crashes at any of its requests to the store."""

import asyncio
import contextlib

import pytest

from leasehold.errors import LeaseholdError
from leasehold.testing.replica import MemoryReplicaPlace
from leasehold.testing.requests import RequestFate, undisturbed
from tests.scenarios.log_words import (
    Ground,
    Member,
    simulate,
    value,
)

LARGE = [b"large%d" % number for number in range(6)]
"""Together more than an entry holds."""


class CrashPoint:
    """The process ends just before, or just after, its request number `at` to the store, counted from 0."""

    def __init__(self, at: int, *, after: bool) -> None:
        self._left = at
        self._after = after
        self.reached = asyncio.Event()

    def arm(self, member: Member) -> None:
        async def before(request: str) -> RequestFate:
            if not request.startswith("watch"):
                self._left -= 1
                if self._left < 0 and not self._after:
                    self._crash(member)
            return await undisturbed(request)

        async def after(_request: str) -> None:
            if self._left < 0:
                self._crash(member)

        member.client.before, member.client.after = before, after

    def _crash(self, member: Member) -> None:
        member.client.sever()
        self.reached.set()


async def live(member: Member, acknowledged: list[bytes]) -> None:
    """What a coordinator does: opens, leads, writes, small and large, and resigns."""
    with contextlib.suppress(LeaseholdError):
        await member.open()
        await member.lead()
        for keys in ((b"a",), (b"b",), LARGE, (b"c",)):
            if (await member.put(*keys, value=bytes(200_000))).succeeded:
                acknowledged.extend(keys)
        await member.leadership.resign()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_any_request_leaves_each_acknowledged_transaction_in_the_log_once(after: bool) -> None:
    at = 0
    while at_crash(at, after=after):
        at += 1
    assert at > 15


def at_crash(at: int, *, after: bool) -> bool:
    """Whether the process came to its request number `at`; it ended there."""

    async def scenario(ground: Ground) -> bool:
        place, acknowledged, crash = MemoryReplicaPlace(), list[bytes](), CrashPoint(at, after=after)
        member = ground.unopened("c1", place)
        crash.arm(member)
        living, crashing = (
            asyncio.ensure_future(live(member, acknowledged)),
            asyncio.ensure_future(crash.reached.wait()),
        )
        await asyncio.wait({living, crashing}, return_when=asyncio.FIRST_COMPLETED)
        crashing.cancel()
        living.cancel()
        await asyncio.wait({living, crashing})
        await member.kill()
        again = await (await ground.member("c1", place)).lead()
        logged = ground.logged()
        assert all(count == 1 for count in logged.values())
        assert set(acknowledged) <= set(logged)
        for key in logged:
            assert await value(again, key) is not None
        assert (await again.put(b"d")).succeeded
        return crash.reached.is_set()

    return simulate(scenario)
