"""What every vault promises, held against SQLite on a real disk and the one in memory."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from leasehold.core.words.lineage import GENESIS, next_lineage
from leasehold.core.words.operations import Change, RevisionChanges, StoredProjection
from leasehold.core.words.records import Allocated, Claiming, IdentityRecord, Joining
from leasehold.errors import BadDirectory, Corrupt, LeaseholdError, Refused
from leasehold.ids import ClusterId, Incarnation, LineageHash, NodeId, Nonce, Revision, Token
from leasehold.testing.vault import VaultDisk
from leasehold.vault.store import SqliteVault
from leasehold.wire.ports import Vault

Open = Callable[[], Awaitable[Vault]]

CLAIMING = Claiming(token=Token("a" * 32))
ALLOCATED = Allocated(token=Token("a" * 32), node=NodeId(3), cluster_id=ClusterId("c" * 32), incarnation=Incarnation(0))
JOINING = Joining(
    token=Token("a" * 32),
    node=NodeId(3),
    cluster_id=ClusterId("c" * 32),
    previous=Incarnation(4),
    nonce=Nonce("d" * 32),
)
EMPTY = StoredProjection(applied=Revision(0), lineage=GENESIS, items=())
SOME_HASH = LineageHash(b"h" * 32)
OTHER_HASH = LineageHash(b"i" * 32)


@pytest.fixture(params=["sqlite", "memory"])
def open_vault(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    disk = VaultDisk()

    async def sqlite() -> Vault:
        return await SqliteVault.open(tmp_path / "node")

    async def memory() -> Vault:
        return disk.open()

    return sqlite if request.param == "sqlite" else memory


def revision(number: int, **values: bytes | None) -> RevisionChanges:
    changes = tuple(Change(key.encode(), value) for key, value in sorted(values.items()))
    return RevisionChanges(Revision(number), changes)


async def refusal(work: Awaitable[object]) -> LeaseholdError:
    try:
        await work
    except LeaseholdError as error:
        return error
    raise AssertionError("nothing was raised")


async def test_a_new_vault_is_empty(open_vault: Open) -> None:
    vault = await open_vault()
    assert await vault.identity() is None
    assert await vault.coordinators() == ()
    assert await vault.projection() == EMPTY
    assert await vault.sync() == 0
    await vault.close()


@pytest.mark.parametrize("record", [CLAIMING, ALLOCATED, JOINING], ids=["claiming", "allocated", "joining"])
async def test_an_identity_record_is_there_after_it_is_opened_again(open_vault: Open, record: IdentityRecord) -> None:
    vault = await open_vault()
    await vault.write_identity(CLAIMING)
    await vault.write_identity(record)
    assert await vault.identity() == record
    await vault.close()
    vault = await open_vault()
    assert await vault.identity() == record
    await vault.close()


async def test_a_vault_that_begins_anew_keeps_who_it_is_and_nothing_that_it_followed(open_vault: Open) -> None:
    vault = await open_vault()
    await vault.write_identity(JOINING)
    await vault.write_coordinators(("a:1",))
    await vault.apply((revision(3, a=b"1", b=b"2"),), SOME_HASH)
    await vault.sync()
    await vault.begin_anew(ALLOCATED)
    assert await vault.projection() == EMPTY
    await vault.close()
    vault = await open_vault()
    assert await vault.identity() == ALLOCATED
    assert await vault.coordinators() == ("a:1",)
    assert await vault.projection() == EMPTY
    assert await vault.sync() == 0
    assert await vault.verify(100)
    # An older revision than it had before: it may follow another history.
    await vault.apply((revision(2, c=b"3"),), OTHER_HASH)
    await vault.close()
    vault = await open_vault()
    stored = await vault.projection()
    assert (stored.applied, stored.lineage, stored.items) == (2, OTHER_HASH, (Change(b"c", b"3"),))
    await vault.close()


async def test_coordinators_are_replaced_and_keep_their_order(open_vault: Open) -> None:
    vault = await open_vault()
    await vault.write_identity(CLAIMING)
    await vault.write_coordinators(("b:1", "a:2", "ü:3"))
    await vault.write_coordinators(("z:1", "b:2"))
    assert await vault.coordinators() == ("z:1", "b:2")
    await vault.close()
    vault = await open_vault()
    assert await vault.coordinators() == ("z:1", "b:2")
    await vault.write_coordinators(())
    assert await vault.coordinators() == ()
    await vault.close()


async def test_revisions_are_applied_in_order_with_their_hash(open_vault: Open) -> None:
    vault = await open_vault()
    await vault.write_identity(CLAIMING)
    first = revision(3, a=b"1", b=b"2", c=b"")
    second = revision(4, a=None, d=b"4", nothing=None)
    lineage = next_lineage(next_lineage(GENESIS, first.changes), second.changes)
    await vault.apply((first, second), lineage)
    expected = StoredProjection(
        applied=Revision(4),
        lineage=lineage,
        items=(Change(b"b", b"2"), Change(b"c", b""), Change(b"d", b"4")),
    )
    assert await vault.projection() == expected
    await vault.apply((revision(9, b=b"new"),), SOME_HASH)
    await vault.close()
    vault = await open_vault()
    stored = await vault.projection()
    assert (stored.applied, stored.lineage) == (9, SOME_HASH)
    assert stored.items == (Change(b"b", b"new"), Change(b"c", b""), Change(b"d", b"4"))
    await vault.close()


async def test_keys_come_in_the_order_of_their_bytes(open_vault: Open) -> None:
    vault = await open_vault()
    keys = [b"b", b"a\xff", b"a", b"", b"\x00", b"a\x00", b"\xff"]
    await vault.apply((RevisionChanges(Revision(1), tuple(Change(key, key) for key in keys)),), SOME_HASH)
    assert [item.key for item in (await vault.projection()).items] == sorted(keys)
    await vault.close()


@pytest.mark.parametrize(
    "numbers", [(5,), (4,), (7, 7), (8, 7), (6, 5), ()], ids=["same", "older", "twice", "falling", "back", "none"]
)
async def test_revisions_that_do_not_rise_are_refused_and_change_nothing(
    open_vault: Open, numbers: tuple[int, ...]
) -> None:
    vault = await open_vault()
    await vault.apply((revision(5, a=b"1"),), SOME_HASH)
    before = await vault.projection()
    error = await refusal(vault.apply([revision(number, a=b"2", b=b"3") for number in numbers], OTHER_HASH))
    assert isinstance(error, Refused)
    assert error.code == "NOT_ASCENDING"
    assert await vault.projection() == before
    await vault.apply((revision(6, a=b"3"),), OTHER_HASH)
    assert (await vault.projection()).items == (Change(b"a", b"3"),)
    await vault.close()


async def test_sync_answers_the_applied_revision(open_vault: Open) -> None:
    vault = await open_vault()
    await vault.apply((revision(5, a=b"1"),), SOME_HASH)
    assert await vault.sync() == 5
    assert await vault.sync() == 5
    await vault.apply((revision(8, a=b"2"),), SOME_HASH)
    assert await vault.sync() == 8
    assert (await vault.projection()).applied == 8
    await vault.close()


async def test_calls_that_overlap_each_take_effect(open_vault: Open) -> None:
    vault = await open_vault()
    async with asyncio.TaskGroup() as group:
        for number in range(1, 21):
            group.create_task(vault.apply((revision(number, **{f"k{number}": b"v"}),), SOME_HASH))
        group.create_task(vault.write_identity(ALLOCATED))
        group.create_task(vault.write_coordinators(("a:1",)))
    stored = await vault.projection()
    assert stored.applied == 20
    assert len(stored.items) == 20
    assert await vault.identity() == ALLOCATED
    await vault.close()


async def test_one_process_at_a_time(open_vault: Open) -> None:
    vault = await open_vault()
    error = await refusal(open_vault())
    assert isinstance(error, BadDirectory)
    assert error.code == "LOCKED"
    assert error.hint
    await vault.write_identity(CLAIMING)
    await vault.close()
    await vault.close()
    again = await open_vault()
    assert await again.identity() == CLAIMING
    await again.close()


async def _follows(vault: Vault) -> None:
    await vault.apply((revision(5, a=b"1"),), SOME_HASH)


async def _knows(vault: Vault) -> None:
    await vault.write_coordinators(("a:1",))


@pytest.mark.parametrize("learned", [_follows, _knows], ids=["a revision", "coordinators"])
async def test_I5_a_vault_that_knows_a_cluster_and_no_identity_has_lost_it(
    open_vault: Open, learned: Callable[[Vault], Awaitable[None]]
) -> None:
    vault = await open_vault()
    await learned(vault)
    await vault.close()
    for _ in range(2):
        error = await refusal(open_vault())
        assert isinstance(error, Corrupt)
        assert "identity" in error.text


async def test_a_closed_vault_refuses(open_vault: Open) -> None:
    vault = await open_vault()
    await vault.close()
    error = await refusal(vault.write_identity(CLAIMING))
    assert error.code == "CLOSED"
