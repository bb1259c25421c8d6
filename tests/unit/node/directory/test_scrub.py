"""The check of the vault in the background: after the first lease, to the end, and over again; damage ends it."""

import asyncio
from random import Random

import pytest

from leasehold.core.lease.holder import Lease
from leasehold.errors import Corrupt
from leasehold.ids import Sequence, Term
from leasehold.limits.units import SECOND_NS
from leasehold.limits.vault import VAULT_SCRUB_REST_NS
from leasehold.node.agent.published import Published
from leasehold.node.directory.scrub import scrub
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.loop import run_virtual
from leasehold.testing.vault import MemoryVault, VaultDisk


class Counting(MemoryVault):
    """Takes three steps for all of it; damaged once `damaged` is set."""

    def __init__(self, disk: VaultDisk) -> None:
        super().__init__(disk)
        self.steps = 0
        self.damaged = False

    async def verify(self, rows_max: int) -> bool:
        if self.damaged:
            raise Corrupt("damaged")
        if rows_max:
            self.steps += 1
        return rows_max > 0 and self.steps % 3 == 0


class Ground:
    """A node whose vault is checked in the background, on virtual time."""

    def __init__(self) -> None:
        self.clock = SimulatedClock(asyncio.get_running_loop())  # pyright: ignore[reportArgumentType] a virtual one
        self.published = Published()
        self.vault = Counting(VaultDisk())
        self.task = asyncio.get_running_loop().create_task(scrub(self.vault, self.clock, self.published))

    def lease(self) -> None:
        self.published.hold(Lease(term=Term(1), sequence=Sequence(1), deadline_ns=self.clock.now_ns() + SECOND_NS))

    async def after(self, pause_ns: int) -> int:
        await self.clock.sleep_until(self.clock.now_ns() + pause_ns)
        return self.vault.steps

    async def end(self) -> BaseException | None:
        self.task.cancel()
        await asyncio.wait({self.task})
        return None if self.task.cancelled() else self.task.exception()


def test_it_waits_for_the_first_lease_then_checks_all_and_rests() -> None:
    async def main(_random: Random) -> None:
        ground = Ground()
        assert await ground.after(60 * SECOND_NS) == 0
        ground.lease()
        assert await ground.after(60 * SECOND_NS) == 3
        assert await ground.after(VAULT_SCRUB_REST_NS) == 6
        assert await ground.end() is None

    run_virtual(main, 1)


@pytest.mark.parametrize("wait_ns", [0, 60 * SECOND_NS], ids=["at work", "at rest"])
def test_damage_ends_it_also_while_it_rests(wait_ns: int) -> None:
    async def main(_random: Random) -> None:
        ground = Ground()
        ground.lease()
        await ground.after(wait_ns)
        ground.vault.damaged = True
        await ground.after(5 * SECOND_NS)
        assert isinstance(await ground.end(), Corrupt)

    run_virtual(main, 1)


async def test_the_vault_in_memory_is_always_sound() -> None:
    assert await VaultDisk().open().verify(1)
