"""INV-REC-1: projection, applied revision and hash agree after any crash, and an acknowledged identity is there."""

import asyncio
import subprocess
import sys
from functools import reduce
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest

from leasehold.core.words.digest import digest_bytes, item_digest
from leasehold.core.words.lineage import GENESIS, next_lineage
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import Allocated, Claiming
from leasehold.errors import LeaseholdError
from leasehold.ids import ClusterId, Incarnation, LineageHash, NodeId, Revision, Token
from leasehold.limits.units import MILLISECOND_NS
from leasehold.testing.loop import run_virtual
from leasehold.testing.vault import MemoryVault, VaultDisk
from leasehold.vault.store import SqliteVault
from leasehold.wire.ports import Vault

KEYS = 7
V = TypeVar("V", bound=Vault)


def batch(number: int) -> RevisionChanges:
    """Revision `number` of a history that anyone can write down again: sets, overwrites and deletes."""
    changes = [Change(b"k%d" % (number % KEYS), b"%d" % number * 50)]
    if number % 3 == 0:
        changes.append(Change(b"k%d" % ((number + 1) % KEYS), None))
    return RevisionChanges(Revision(number), tuple(sorted(changes, key=lambda change: change.key)))


def expected(applied: int) -> tuple[LineageHash, tuple[Change, ...]]:
    lineage = GENESIS
    items: dict[bytes, bytes] = {}
    for number in range(1, applied + 1):
        lineage = next_lineage(lineage, batch(number).changes)
        for change in batch(number).changes:
            if change.value is None:
                items.pop(change.key, None)
            else:
                items[change.key] = change.value
    return lineage, tuple(Change(key, items[key]) for key in sorted(items))


async def agree(vault: Vault) -> int:
    stored = await vault.projection()
    assert (stored.lineage, stored.items) == expected(stored.applied)
    return stored.applied


def identity(incarnation: int) -> Allocated:
    return Allocated(
        token=Token("a" * 32),
        node=NodeId(1),
        cluster_id=ClusterId("c" * 32),
        incarnation=Incarnation(incarnation),
    )


async def begun(vault: V) -> V:
    """With the identity that a node has before it learns anything of a cluster; survives the machine."""
    await vault.write_identity(identity(0))
    return vault


async def write_for_ever(directory: Path) -> None:
    """What the child runs: says each write that was acknowledged, one line each, until it is killed."""
    vault = await SqliteVault.open(directory)
    if await vault.identity() is None:
        await begun(vault)
    stored = await vault.projection()
    lineage, number = stored.lineage, int(stored.applied)
    while True:
        number += 1
        lineage = next_lineage(lineage, batch(number).changes)
        await vault.apply((batch(number),), lineage)
        say(f"applied {number}")
        if number % 5 == 0:
            await vault.write_identity(identity(number))
            say(f"identity {number}")
        if number % 7 == 0:
            await vault.sync()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def kill_after(directory: Path, lines_seen: int, work: str = "write_for_ever") -> dict[str, int]:
    """Runs the child, kills it once it has said so many lines; answers the last acknowledged number of each kind."""
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        f"from tests.unit.vault.test_vault_crash import {work}\n"
        f"asyncio.run({work}(Path(sys.argv[1])))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(directory)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
    ) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(lines_seen)]
        child.kill()
        lines += child.stdout.readlines()
    known: dict[str, int] = {}
    for line in lines:
        if line.endswith(b"\n"):
            kind, _space, number = line.decode().partition(" ")
            known[kind] = int(number)
    return known


@pytest.mark.processes
async def test_a_killed_process_leaves_a_vault_that_agrees(tmp_path: Path) -> None:
    for round_number in range(4):
        known = kill_after(tmp_path, 20 + 17 * round_number)
        vault = await SqliteVault.open(tmp_path)
        assert await agree(vault) >= known["applied"] > 0
        stored = await vault.identity()
        assert isinstance(stored, Allocated)
        assert stored.incarnation >= known["identity"] > 0
        await vault.close()


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_of_the_simulated_machine_loses_only_what_was_not_synced(seed: int) -> None:
    async def main(random: Random) -> int:
        disk = VaultDisk(lambda: random.randint(0, 5 * MILLISECOND_NS))
        lost = 0
        await (await begun(disk.open())).close()
        for _ in range(5):
            vault = disk.open()
            start = await agree(vault)
            known = {"applied": start, "durable": start, "identity": 0}
            task = asyncio.get_running_loop().create_task(work(vault, start, known))
            await asyncio.sleep(random.random() / 5)
            disk.crash(random)
            await asyncio.wait({task})
            assert isinstance(task.exception(), LeaseholdError)
            vault = disk.open()
            left = await agree(vault)
            assert left >= known["durable"]
            stored = await vault.identity()
            assert isinstance(stored, Allocated)
            assert stored.incarnation >= known["identity"]
            lost += max(0, known["applied"] - left)
            await vault.close()
        return lost

    run_virtual(main, seed)


async def work(vault: MemoryVault, number: int, known: dict[str, int]) -> None:
    lineage, _items = expected(number)
    while True:
        number += 1
        lineage = next_lineage(lineage, batch(number).changes)
        await vault.apply((batch(number),), lineage)
        known["applied"] = number
        if number % 4 == 0:
            known["durable"] = await vault.sync()
        if number % 9 == 0:
            await vault.write_identity(identity(number))
            known["identity"] = known["durable"] = number


async def test_a_crash_loses_something_and_a_kill_nothing() -> None:
    left: set[int] = set()
    for seed in range(30):
        disk = VaultDisk()
        await work_until(await begun(disk.open()), 4)
        disk.crash(Random(seed))
        left.add(await agree(disk.open()))
    assert left == {0, 1, 2, 3, 4}

    disk = VaultDisk()
    await work_until(await begun(disk.open()), 4)
    disk.kill()
    assert await agree(disk.open()) == 4


async def leap_to(vault: Vault, last: int) -> None:
    lineage, items = expected(last)
    await vault.stage(items[:3], first=True)
    await vault.stage(items[3:], first=False)
    await vault.leap(Revision(last), lineage, digest_of(items))


def digest_of(items: tuple[Change, ...]) -> bytes:
    return digest_bytes(reduce(lambda digest, one: digest ^ item_digest(one.key, one.value or b""), items, 0))


async def test_a_leap_that_was_not_synced_may_be_lost_with_the_machine_and_is_never_torn() -> None:
    left: set[int] = set()
    for seed in range(20):
        disk = VaultDisk()
        await work_until(await begun(disk.open()), 2)
        disk.sync()
        disk.kill()
        await leap_to(disk.open(), 40)
        disk.crash(Random(seed))
        left.add(await agree(disk.open()))
    assert left == {2, 40}

    disk = VaultDisk()
    vault = await begun(disk.open())
    await leap_to(vault, 40)
    assert await vault.sync() == 40
    disk.crash(Random(1))
    assert await agree(disk.open()) == 40


async def test_a_crash_between_staging_and_the_leap_leaves_the_old_state() -> None:
    disk = VaultDisk()
    vault = await begun(disk.open())
    await work_until(vault, 2)
    _lineage, items = expected(40)
    await vault.stage(items, first=True)
    disk.kill()
    vault = disk.open()
    assert await agree(vault) == 2
    await leap_to(vault, 41)
    assert await agree(vault) == 41


@pytest.mark.processes
async def test_a_process_killed_around_a_leap_leaves_the_old_state_or_the_new(tmp_path: Path) -> None:
    left = await begun(await SqliteVault.open(tmp_path))
    await work_until(left, 2)
    await left.close()
    for lines_seen in range(1, 8):
        known = kill_after(tmp_path, lines_seen, "leap_for_ever")
        vault = await SqliteVault.open(tmp_path)
        assert await agree(vault) >= known.get("leapt", 2)
        await vault.close()


async def leap_for_ever(directory: Path) -> None:
    """What the child runs: stages and leaps, a few revisions each time, until it is killed."""
    vault = await SqliteVault.open(directory)
    number = int((await vault.projection()).applied)
    while True:
        number += 5
        lineage, items = expected(number)
        await vault.stage(items, first=True)
        say(f"staged {number}")
        await vault.leap(Revision(number), lineage, digest_of(items))
        say(f"leapt {number}")


async def test_a_copy_of_the_disk_is_a_clone() -> None:
    disk = VaultDisk()
    vault = disk.open()
    await vault.write_identity(Claiming(token=Token("a" * 32)))
    twin = disk.copy().open()
    assert await twin.identity() == await vault.identity()
    await vault.write_identity(identity(1))
    assert await twin.identity() == Claiming(token=Token("a" * 32))


async def work_until(vault: Vault, last: int) -> None:
    for number in range(1, last + 1):
        lineage, _items = expected(number)
        await vault.apply((batch(number),), lineage)
