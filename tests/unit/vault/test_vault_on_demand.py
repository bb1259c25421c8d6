"""Segments are read from the vault when they are asked for, and as they were when the process went on from it."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.core.catalog.test_catalog_indices import CHANGES
from tests.unit.vault.manifests import CLAIMING, HASH, gone, revision, segment, segment_id, sql
from tests.unit.vault.test_vault_crash import digest_of

from leasehold.core.catalog import shelf
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import BucketKey
from leasehold.core.words.operations import Change
from leasehold.errors import Corrupt, Refused
from leasehold.ids import BucketNumber, LineageHash, ObjectId, Revision
from leasehold.limits.vault import BUCKET_PATCH_KEYS_MAX
from leasehold.testing.vault import VaultDisk
from leasehold.vault.limits import VAULT_LIMITS, VaultLimits
from leasehold.vault.store import SqliteVault
from leasehold.wire.ports import Vault

READ_ON_DEMAND = VaultLimits(whole_bytes_max=0)
FIRST = (segment(1, 0, 1), segment(1, 0, 2), segment(1, 3, 3), segment(7, 15, 4))


def bucket(table: int, number: int) -> BucketKey:
    return ObjectId(table), BucketNumber(number)


@pytest.fixture
def selects(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements by which values are read on demand, in their order."""
    found: list[str] = []

    class Noting(sqlite3.Connection):
        def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
            if "value" in sql:
                found.append(sql)
            return super().execute(sql, *arguments)

    def connect(address: Any, **how: Any) -> sqlite3.Connection:
        return sqlite_connect(address, **how, **({"factory": Noting} if "mode=ro" in str(address) else {}))

    sqlite_connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", connect)
    return found


async def filled(directory: Path, limits: VaultLimits = VAULT_LIMITS) -> SqliteVault:
    vault = await SqliteVault.open(directory, limits=limits)
    await vault.write_identity(CLAIMING)
    await vault.apply((revision(1, *FIRST),), HASH)
    return vault


async def test_a_catalog_that_goes_on_from_a_vault_equals_one_that_read_all_of_it(tmp_path: Path) -> None:
    vault = await filled(tmp_path)
    catalog = Catalog.reopened(await vault.reopened())
    assert catalog == Catalog.restored(Revision(1), HASH, FIRST)
    assert sorted(catalog.segments) == [bucket(1, 0), bucket(1, 3), bucket(7, 15)]
    # Of tables that are not there: which buckets are left is known without reading any.
    assert {table: sorted(left) for table, left in catalog.leftovers.items()} == {1: [0, 3], 7: [15]}
    await vault.close()


async def test_a_base_stays_as_it_was_whatever_is_applied_later(tmp_path: Path) -> None:
    vault = await filled(tmp_path)
    before = Catalog.reopened(await vault.reopened())
    changes = (gone(FIRST[0]), gone(FIRST[2]), segment(1, 4, 5), segment(8, 0, 6))
    await vault.apply((revision(2, *changes),), HASH)
    after = Catalog.reopened(await vault.reopened())
    await vault.apply((revision(3, gone(FIRST[3])),), HASH)
    assert before == Catalog.restored(Revision(1), HASH, FIRST)
    left = sorted((FIRST[1], FIRST[3], segment(1, 4, 5), segment(8, 0, 6)), key=lambda one: one.key)
    assert after == Catalog.restored(Revision(2), HASH, left)
    assert before.changed(changes).segments == after.segments
    await vault.close()


async def test_R7_a_view_older_than_a_leap_sees_nothing_of_it(tmp_path: Path) -> None:
    vault = await filled(tmp_path)
    before = Catalog.reopened(await vault.reopened())
    snapshot = tuple(sorted((FIRST[1], segment(1, 3, 3, rows=2), segment(9, 0, 9)), key=lambda one: one.key))
    await vault.stage(snapshot, first=True)
    changes = await vault.leap(Revision(5), HASH, digest_of(snapshot))
    assert before == Catalog.restored(Revision(1), HASH, FIRST)
    assert before.leaping(Revision(5), HASH, changes) == Catalog.restored(Revision(5), HASH, snapshot)
    assert Catalog.reopened(await vault.reopened()) == Catalog.restored(Revision(5), HASH, snapshot)
    await vault.close()


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
@settings(max_examples=40, deadline=None)
@given(
    batches=st.lists(st.tuples(st.booleans(), st.lists(CHANGES, max_size=6)), min_size=2, max_size=6),
    unread_max=st.integers(0, 3),
)
def test_every_view_says_what_was_so_at_its_revision(
    tmp_path_factory: pytest.TempPathFactory, kind: str, batches: list[tuple[bool, list[Change]]], unread_max: int
) -> None:
    async def main() -> None:
        vault: Vault = VaultDisk().open()
        if kind == "sqlite":
            limits = VaultLimits(patch_keys_max=unread_max)
            vault = await SqliteVault.open(tmp_path_factory.mktemp("vault"), limits=limits)
        items: dict[bytes, bytes | None] = {}
        seen: list[tuple[Catalog, Catalog]] = []
        for number, (is_looked_at, batch) in enumerate(batches, start=1):
            merged = {change.key: change for change in batch}
            await vault.apply((revision(number, *merged.values()),), HASH)
            items |= {key: change.value for key, change in merged.items()}
            left = [Change(key, value) for key, value in sorted(items.items()) if value is not None]
            seen.append((Catalog.reopened(await vault.reopened()), Catalog.restored(Revision(number), HASH, left)))
            if is_looked_at:
                one = bucket(1, 1)
                assert seen[0][0].segments.get(one) == seen[0][1].segments.get(one)
        for view, expected in seen:
            # One by one first: who goes through all of them reads all.
            for one in [bucket(table, number) for table in range(1, 4) for number in range(3)]:
                assert (one in view.segments) == (one in expected.segments)
                assert view.replaced.get(one) == expected.replaced.get(one)
            assert view == expected
        await vault.close()

    asyncio.run(main())


async def test_a_change_reads_the_keys_that_it_changes_and_no_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = await filled(tmp_path)
    before = Catalog.reopened(await vault.reopened())
    assert sorted(before.segments) == [bucket(1, 0), bucket(1, 3), bucket(7, 15)]
    read: list[bytes] = []
    decode = shelf.decode_record
    monkeypatch.setattr(shelf, "decode_record", lambda kind, value: read.append(value) or decode(kind, value))
    await vault.apply((revision(2, gone(FIRST[0]), segment(1, 0, 7)),), HASH)
    await vault.apply((revision(3, segment(1, 0, 1, rows=2)),), HASH)
    assert read == [FIRST[0].value], "what was there; what was changed already is known"
    assert set(before.segments[bucket(1, 0)]) == {segment_id(1), segment_id(2)}
    await vault.close()


async def test_what_a_base_keeps_of_a_bucket_does_not_add_up(tmp_path: Path, selects: list[str]) -> None:
    vault = await filled(tmp_path)
    view = Catalog.reopened(await vault.reopened())
    selects.clear()
    for number in range(2 * BUCKET_PATCH_KEYS_MAX):
        await vault.apply((revision(number + 2, segment(1, 0, number + 10)),), HASH)
    assert len(selects) == BUCKET_PATCH_KEYS_MAX + 1, "each key by itself, then the bucket as a whole, then nothing"
    assert set(view.segments[bucket(1, 0)]) == {segment_id(1), segment_id(2)}
    await vault.close()


async def test_a_base_keeps_nothing_of_tables_that_came_since(tmp_path: Path, selects: list[str]) -> None:
    vault = await filled(tmp_path)
    view = Catalog.reopened(await vault.reopened())
    selects.clear()
    for table in range(8, 20):
        there = [segment(table, number, number) for number in range(4)]
        await vault.apply((revision(2 * table, *there),), HASH)
        if table % 2:
            await vault.apply((revision(2 * table + 1, *(gone(one) for one in there)),), HASH)
    assert selects == [], "what is kept is read first"
    assert view == Catalog.restored(Revision(1), HASH, FIRST)
    assert bucket(8, 0) not in view.segments
    await vault.close()


async def test_a_bucket_that_was_read_is_kept_as_it_is_without_reading_its_keys(
    tmp_path: Path, selects: list[str]
) -> None:
    vault = await filled(tmp_path)
    view = Catalog.reopened(await vault.reopened())
    read = view.segments[bucket(1, 0)]
    selects.clear()
    await vault.apply((revision(2, gone(FIRST[0]), segment(1, 0, 7)),), HASH)
    assert selects == []
    assert view.segments[bucket(1, 0)] is read
    await vault.close()


async def test_threads_that_read_while_revisions_are_applied_see_their_own_view(tmp_path: Path) -> None:
    """A write of all buckets at once is seen by a thread in all of them or in none (INV-WRITE-2)."""
    buckets = [bucket(1, number) for number in range(16)]
    vault = await SqliteVault.open(tmp_path)
    lineage = LineageHash(HASH)
    await vault.apply((revision(1, *(segment(1, number, 0, rows=1) for number in range(16))),), lineage)
    done = Event()

    def read(view: Catalog, rows: int) -> int:
        rounds = 0
        while not (done.is_set() and rounds):
            assert {view.segments[one][segment_id(0)].rows for one in buckets} == {rows}
            rounds += 1
        return rounds

    with ThreadPoolExecutor(max_workers=4) as pool:
        reading = []
        for number in range(2, 40):
            if number % 10 == 2:
                view = Catalog.reopened(await vault.reopened())
                reading.append(pool.submit(read, view, number - 1))
            changes = (segment(1, at, 0, rows=number) for at in range(16))
            await vault.apply((revision(number, *changes),), lineage)
        done.set()
        assert all(one.result() > 0 for one in reading)
    await vault.close()


async def test_what_can_be_read_again_is_not_all_kept(tmp_path: Path, selects: list[str]) -> None:
    vault = await filled(tmp_path, VaultLimits(buckets_cached_max=2))
    view = Catalog.reopened(await vault.reopened())
    three = sorted(view.segments)
    for _ in range(2):
        selects.clear()
        assert [len(view.segments[one]) for one in three] == [2, 1, 1]
        assert len(selects) == 3, "by the time that a bucket is asked for again, two others have taken its place"
    await vault.close()


async def test_a_closed_vault_reads_nothing_more(tmp_path: Path) -> None:
    vault = await filled(tmp_path)
    view = Catalog.reopened(await vault.reopened())
    await vault.close()
    with pytest.raises(Refused) as caught:
        view.segments.get(bucket(1, 0))
    assert caught.value.code == "CLOSED"


# ------------------------------------------------------------ damage in a vault too large to be checked at once

SPOILED: dict[str, Callable[[Path], None]] = {
    "a value": lambda path: sql(
        path, "UPDATE projection SET value = ? WHERE key = ?", segment(1, 3, 3, rows=9).value or b"", FIRST[2].key
    ),
    "a hash": lambda path: sql(path, "UPDATE projection SET hash = ? WHERE key = ?", bytes(32), FIRST[2].key),
    "another key": lambda path: sql(
        path, "UPDATE projection SET key = ? WHERE key = ?", FIRST[2].key + b"x", FIRST[2].key
    ),
    "text": lambda path: sql(path, "UPDATE projection SET value = 'text' WHERE key = ?", FIRST[2].key),
}


@pytest.mark.parametrize("damage", SPOILED)
async def test_a_damaged_segment_is_found_when_it_is_read_and_ends_the_vault(tmp_path: Path, damage: str) -> None:
    await (await filled(tmp_path)).close()
    SPOILED[damage](tmp_path / "vault.db")
    vault = await SqliteVault.open(tmp_path, limits=READ_ON_DEMAND)
    view = Catalog.reopened(await vault.reopened())
    assert len(view.segments[bucket(1, 0)]) == 2
    with pytest.raises(Corrupt, match="damaged"):
        view.segments.get(bucket(1, 3))
    with pytest.raises(Corrupt, match="damaged"):
        await vault.verify(0)
    with pytest.raises(Corrupt, match="damaged"):
        await vault.apply((revision(2, segment(1, 0, 8)),), HASH)
    await vault.close()
    with pytest.raises(Corrupt):
        await SqliteVault.open(tmp_path)


@pytest.mark.parametrize("change", [FIRST[2], gone(FIRST[2])], ids=["written over", "deleted"])
async def test_a_hash_that_can_t_be_read_is_damage_also_to_a_writer(tmp_path: Path, change: Change) -> None:
    await (await filled(tmp_path)).close()
    sql(tmp_path / "vault.db", "UPDATE projection SET hash = 'text' WHERE key = ?", FIRST[2].key)
    vault = await SqliteVault.open(tmp_path, limits=READ_ON_DEMAND)
    with pytest.raises(Corrupt, match="damaged"):
        await vault.apply((revision(2, change),), HASH)
    await vault.close()


LOST: dict[str, Callable[[Path], None]] = {
    **SPOILED,
    "a lost segment": lambda path: sql(path, "DELETE FROM projection WHERE key = ?", FIRST[2].key),
}


@pytest.mark.parametrize("damage", LOST)
@pytest.mark.parametrize("rows_max", [1, 2, 100])
async def test_the_check_in_the_background_finds_what_opening_did_not(
    tmp_path: Path, damage: str, rows_max: int
) -> None:
    await (await filled(tmp_path)).close()
    LOST[damage](tmp_path / "vault.db")
    vault = await SqliteVault.open(tmp_path, limits=READ_ON_DEMAND)
    with pytest.raises(Corrupt, match="damaged"):
        for _ in range(10):
            await vault.verify(rows_max)
    await vault.close()


async def test_what_every_start_reads_is_checked_at_every_start(tmp_path: Path) -> None:
    vault = await filled(tmp_path)
    await vault.apply((revision(2, Change(b"c/a", b"1"), Change(b"c/b", b"2")),), HASH)
    await vault.close()
    sql(tmp_path / "vault.db", "DELETE FROM projection WHERE key = ?", b"c/a")
    vault = await SqliteVault.open(tmp_path, limits=READ_ON_DEMAND)
    with pytest.raises(Corrupt, match="damaged"):
        await vault.reopened()
    await vault.close()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=5), max_size=12), st.integers(1, 4))
def test_the_check_in_the_background_bears_changes_before_and_behind_it(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[int, bool]]], rows_max: int
) -> None:
    async def main() -> None:
        vault = await SqliteVault.open(tmp_path_factory.mktemp("vault"))
        ended = 0
        for number, batch in enumerate(batches, start=1):
            changes = {b"k%02d" % which: b"%d" % number if there else None for which, there in batch}
            await vault.apply((revision(number, *(Change(key, value) for key, value in changes.items())),), HASH)
            ended += await vault.verify(rows_max)
        while not await vault.verify(rows_max):
            pass
        while not await vault.verify(100):
            pass
        await vault.close()

    asyncio.run(main())
