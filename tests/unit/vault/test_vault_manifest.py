"""Segments are read from the vault when they are asked for, with the revision that it has applied."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.core.catalog.test_catalog_indices import CHANGES, name
from tests.unit.vault.manifests import CLAIMING, HASH, gone, revision, segment, segment_id, sql
from tests.unit.vault.test_vault_crash import digest_of

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import BucketKey
from leasehold.core.words.operations import Change
from leasehold.errors import Corrupt, Refused
from leasehold.ids import BucketNumber, LineageHash, ObjectId, Revision, SegmentId
from leasehold.testing.vault import VaultDisk
from leasehold.vault import manifest
from leasehold.vault.limits import VAULT_LIMITS, VaultLimits
from leasehold.vault.store import SqliteVault
from leasehold.wire.ports import Vault

READ_ON_DEMAND = VaultLimits(whole_bytes_max=0)
FIRST = (segment(1, 0, 1), segment(1, 0, 2), segment(1, 3, 3), segment(7, 15, 4))


def bucket(table: int, number: int) -> BucketKey:
    return ObjectId(table), BucketNumber(number)


async def filled(directory: Path, limits: VaultLimits = VAULT_LIMITS) -> SqliteVault:
    vault = await SqliteVault.open(directory, limits=limits)
    await vault.write_identity(CLAIMING)
    await vault.apply((revision(1, *FIRST),), HASH)
    return vault


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
@settings(max_examples=40, deadline=None)
@given(batches=st.lists(st.lists(CHANGES, max_size=6), min_size=1, max_size=6))
def test_it_says_what_was_applied_last_and_at_which_revision(
    tmp_path_factory: pytest.TempPathFactory, kind: str, batches: list[list[Change]]
) -> None:
    async def main() -> None:
        vault: Vault = VaultDisk().open()
        if kind == "sqlite":
            vault = await SqliteVault.open(tmp_path_factory.mktemp("vault"))
        items: dict[bytes, bytes | None] = {}
        buckets = [bucket(table, number) for table in range(1, 4) for number in range(3)]
        for number, batch in enumerate(batches, start=1):
            merged = {change.key: change for change in batch}
            await vault.apply((revision(number, *merged.values()),), HASH)
            items |= {key: change.value for key, change in merged.items()}
            left = [Change(key, value) for key, value in sorted(items.items()) if value is not None]
            whole = Catalog.restored(Revision(number), HASH, left)
            for one in buckets:
                applied, segments, replaced = vault.manifest.bucket(one)
                assert applied == number
                assert (dict(segments), dict(replaced)) == (
                    dict(whole.segments.get(one, {})),
                    dict(whole.replaced.get(one, {})),
                )
                for which in map(SegmentId, (name(1), name(2))):
                    assert vault.manifest.segment(one, which) == (number, segments.get(which), replaced.get(which))
        await vault.close()

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
async def test_R7_it_says_what_a_leap_led_to(tmp_path: Path, kind: str) -> None:
    vault: Vault = VaultDisk().open() if kind == "memory" else await SqliteVault.open(tmp_path)
    await vault.apply((revision(1, *FIRST),), HASH)
    snapshot = tuple(sorted((FIRST[1], segment(1, 3, 3, rows=2), segment(9, 0, 9)), key=lambda one: one.key))
    await vault.stage(snapshot, first=True)
    assert vault.manifest.segment(bucket(1, 0), segment_id(1)).segment is not None
    await vault.leap(Revision(5), HASH, digest_of(snapshot))
    assert vault.manifest.segment(bucket(1, 0), segment_id(1)) == (5, None, None)
    (changed,) = vault.manifest.bucket(bucket(1, 3)).segments.values()
    assert changed.rows == 2
    await vault.close()


async def test_a_read_is_of_one_revision_whatever_is_applied_meanwhile(tmp_path: Path) -> None:
    here, names = bucket(1, 0), [segment_id(number) for number in range(16)]
    vault = await SqliteVault.open(tmp_path)
    lineage = LineageHash(HASH)
    await vault.apply((revision(1, *(segment(1, 0, number, rows=1) for number in range(16))),), lineage)
    done = Event()

    def read() -> int:
        newest = 0
        while not (done.is_set() and newest):
            stored = vault.manifest.bucket(here)
            assert {stored.segments[one].rows for one in names} == {stored.applied}
            assert stored.applied >= newest
            newest = stored.applied
        return newest

    with ThreadPoolExecutor(max_workers=4) as pool:
        reading = [pool.submit(read) for _ in range(4)]
        for number in range(2, 40):
            changes = (segment(1, 0, at, rows=number) for at in range(16))
            await vault.apply((revision(number, *changes),), lineage)
            assert vault.manifest.segment(here, names[0]).applied == number, "as soon as it is applied"
        done.set()
        assert all(one.result() > 0 for one in reading)
    await vault.close()


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What is decoded, in its order."""
    found: list[bytes] = []
    decode = manifest.decode_record
    monkeypatch.setattr(manifest, "decode_record", lambda kind, value: found.append(value) or decode(kind, value))
    return found


async def test_of_a_bucket_that_is_read_again_what_has_changed_alone_is_decoded(
    tmp_path: Path, decoded: list[bytes]
) -> None:
    vault = await filled(tmp_path)
    here = bucket(1, 0)
    first = vault.manifest.bucket(here).segments
    assert sorted(decoded) == sorted([FIRST[0].value or b"", FIRST[1].value or b""])
    decoded.clear()
    changed, new = segment(1, 0, 2, rows=7), segment(1, 0, 9)
    await vault.apply((revision(2, gone(FIRST[0]), changed, new),), HASH)
    again = vault.manifest.bucket(here).segments
    assert sorted(decoded) == sorted([changed.value or b"", new.value or b""])
    assert {which: one.rows for which, one in again.items()} == {segment_id(2): 7, segment_id(9): 1}
    assert set(first) == {segment_id(1), segment_id(2)}, "who has it keeps it"
    decoded.clear()
    assert vault.manifest.bucket(here).segments == again
    assert decoded == []
    await vault.close()


async def test_what_is_kept_decoded_has_a_bound(tmp_path: Path, decoded: list[bytes]) -> None:
    vault = await filled(tmp_path, VaultLimits(buckets_cached_max=2))
    three = [bucket(1, 0), bucket(1, 3), bucket(7, 15)]
    for _ in range(2):
        decoded.clear()
        for one in three:
            vault.manifest.bucket(one)
        assert len(decoded) == 4, "by the time that a bucket is read again, two others have taken its place"
    await vault.close()


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
async def test_a_closed_vault_reads_nothing_more(tmp_path: Path, kind: str) -> None:
    vault: Vault = VaultDisk().open() if kind == "memory" else await SqliteVault.open(tmp_path)
    await vault.close()
    with pytest.raises(Refused) as caught:
        vault.manifest.segment(bucket(1, 0), segment_id(1))
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
    assert len(vault.manifest.bucket(bucket(1, 0)).segments) == 2
    with pytest.raises(Corrupt, match="damaged"):
        vault.manifest.bucket(bucket(1, 3))
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
