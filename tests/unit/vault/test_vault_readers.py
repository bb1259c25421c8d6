"""Others who look at a vault's file: they end no node, and the log is emptied once they are gone."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.vault.manifests import CLAIMING, HASH, revision, segment
from tests.unit.vault.test_vault_crash import identity

from leasehold.errors import BadDirectory, Corrupt
from leasehold.limits.vault import VAULT_SYNCS_PER_CHECKPOINT
from leasehold.vault import store
from leasehold.vault.limits import VaultLimits
from leasehold.vault.store import SqliteVault


async def opened(directory: Path) -> SqliteVault:
    """Nobody closes what is open here, so there is nothing to wait for."""
    return await SqliteVault.open(directory, limits=VaultLimits(busy_wait_ms=1))


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[sqlite3.Connection]:
    """Another program, which has the file open."""
    vault = await opened(tmp_path / "node")
    await vault.write_identity(CLAIMING)
    for number in range(1, 8):
        await vault.apply((revision(number, segment(1, 0, number)),), HASH)
    await vault.close()
    with closing(sqlite3.connect(tmp_path / "node" / "vault.db", isolation_level=None)) as database:
        yield database


def reading(database: sqlite3.Connection) -> None:
    database.execute("BEGIN")
    database.execute("SELECT count(*) FROM identity").fetchone()


def log_bytes(directory: Path) -> int:
    return (directory / "vault.db-wal").stat().st_size


async def test_a_reader_ends_no_node_and_the_log_is_emptied_after_it(tmp_path: Path, other: sqlite3.Connection) -> None:
    directory = tmp_path / "node"
    reading(other)
    vault = await opened(directory)
    await vault.write_identity(identity(1))
    assert log_bytes(directory) > 0
    await vault.apply((revision(8, segment(1, 0, 9)),), HASH)
    assert await vault.sync() == 8
    assert log_bytes(directory) > 0
    other.execute("COMMIT")
    await vault.apply((revision(9, segment(1, 0, 8)),), HASH)
    assert await vault.sync() == 9
    assert log_bytes(directory) == 0
    await vault.close()
    vault = await opened(directory)
    assert await vault.identity() == identity(1)
    await vault.close()


async def test_a_writer_is_told_from_damage(tmp_path: Path, other: sqlite3.Connection) -> None:
    vault = await opened(tmp_path / "node")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(BadDirectory, match="another program") as caught:
        await vault.write_identity(identity(1))
    assert caught.value.code == "LOCKED"
    assert not isinstance(caught.value, Corrupt)
    other.execute("ROLLBACK")
    await vault.close()
    vault = await opened(tmp_path / "node")
    assert await vault.identity() == CLAIMING
    await vault.close()


async def test_what_is_durable_lies_in_the_file_after_some_syncs(tmp_path: Path) -> None:
    vault = await opened(tmp_path)
    await vault.write_identity(CLAIMING)
    for number in range(1, VAULT_SYNCS_PER_CHECKPOINT + 1):
        await vault.apply((revision(number, segment(1, 0, number)),), HASH)
        await vault.sync()
        assert (log_bytes(tmp_path) == 0) == (number == VAULT_SYNCS_PER_CHECKPOINT)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "vault.db").write_bytes((tmp_path / "vault.db").read_bytes())
    await vault.close()
    vault = await opened(copy)
    assert (await vault.projection()).applied == VAULT_SYNCS_PER_CHECKPOINT
    await vault.close()


async def test_a_check_of_the_structure_makes_way_for_an_identity_and_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = await opened(tmp_path)
    await vault.write_identity(CLAIMING)
    loop = asyncio.get_running_loop()
    real = store.check_structure
    written: list[bool] = []

    def met(database: sqlite3.Connection, path: Path, _how: str) -> None:
        """The first check has an identity written in its midst."""

        def step() -> int:
            if not written:
                written.append(True)
                asyncio.run_coroutine_threadsafe(vault.write_identity(identity(1)), loop).result()
            return 0

        database.set_progress_handler(step, 1)
        real(database, path, "integrity_check")

    monkeypatch.setattr(store, "check_structure", met)
    assert not await vault.verify(10)
    assert written
    assert await vault.verify(10)
    assert await vault.identity() == identity(1)
    await vault.apply((revision(1),), HASH)
    await vault.sync()
    assert log_bytes(tmp_path) == 0
    await vault.close()


# ------------------------------------------------------------ modes


def modes(directory: Path) -> set[int]:
    return {one.stat().st_mode & 0o777 for one in directory.glob("vault.db*")}


async def test_a_vault_and_its_log_are_their_owner_s_alone(tmp_path: Path) -> None:
    vault = await opened(tmp_path / "node")
    await vault.write_identity(CLAIMING)
    await vault.apply((revision(1),), HASH)
    assert len(list((tmp_path / "node").glob("vault.db*"))) == 3
    assert modes(tmp_path / "node") == {0o600}
    assert (tmp_path / "node").stat().st_mode & 0o777 == 0o700
    await vault.close()


async def test_a_vault_that_others_can_use_is_taken_from_them(tmp_path: Path, other: sqlite3.Connection) -> None:
    reading(other)
    for one in (tmp_path / "node").glob("vault.db*"):
        one.chmod(0o664)
    vault = await opened(tmp_path / "node")
    assert modes(tmp_path / "node") == {0o600}
    await vault.close()
