"""Places to recover from that are damaged, or lie behind links."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from leasehold.coordinator.sources import sources_at
from leasehold.core.words import keys
from leasehold.error_codes import ErrorCode
from leasehold.ids import NodeId
from leasehold.metastorage.sqlite import FILE_NAME, SqliteMetaStorage
from leasehold.vault.format import FILE_NAME as VAULT_FILE_NAME
from tests.backup_words import begin
from tests.unit.coordinator.recovery_places import RecoveryGround, make

FILES = (FILE_NAME, VAULT_FILE_NAME)


@pytest.fixture
def ground(tmp_path: Path) -> RecoveryGround:
    return RecoveryGround(tmp_path / "recovered")


def alter(place: Path, statement: str, *values: bytes) -> None:
    with closing(sqlite3.connect(place / FILE_NAME)) as file, file:
        file.execute(statement, values)


async def test_a_wrong_bit_in_a_key_that_no_history_covers_is_passed_over(
    ground: RecoveryGround, tmp_path: Path
) -> None:
    newer = await make("coordinator", tmp_path / "newer", more=5)
    older = await make("backup", tmp_path / "older")
    storage = await SqliteMetaStorage.open(newer.path / FILE_NAME)
    await storage.compact((await storage.status()).latest)
    await storage.close()
    alter(newer.path, "UPDATE kv SET key = ? WHERE key = ?", b"c/node/000000000q", keys.node(NodeId(1)))
    assert (await ground.recover(newer, older)).taken == older


async def test_an_oldest_revision_above_the_newest_one_is_damage(ground: RecoveryGround, tmp_path: Path) -> None:
    newer = await make("coordinator", tmp_path / "newer", more=5)
    older = await make("backup", tmp_path / "older")
    alter(newer.path, "UPDATE state SET minimum = minimum + 1000")
    assert (await ground.recover(newer, older)).taken == older


async def test_an_error_in_a_copy_names_the_place(ground: RecoveryGround, tmp_path: Path) -> None:
    """The copy is in a temporary folder, which is gone when a person reads the error."""
    source = await make("coordinator", tmp_path / "place")
    alter(source.path, "ALTER TABLE kv RENAME COLUMN version TO versioo")
    error = await ground.refused(source)
    assert error.text.startswith(f"{source.path / FILE_NAME} can't be used")


@pytest.mark.parametrize("name", FILES)
async def test_a_log_without_its_file_is_damage(name: str, ground: RecoveryGround, tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / f"{name}-wal").write_bytes(b"log")
    assert (await ground.refused(*sources_at(tmp_path / "place"))).code == ErrorCode.NOTHING_WHOLE
    assert "its log exists, but the file does not" in str(ground.examined[0].problem)


# ------------------------------------------------------------ links


async def test_the_log_of_a_file_behind_a_link_is_read_too(ground: RecoveryGround, tmp_path: Path) -> None:
    """SQLite keeps the log beside the file itself. After a crash it holds the newest statements."""
    (tmp_path / "running").mkdir()
    storage = await SqliteMetaStorage.open(tmp_path / "running" / FILE_NAME)
    await begin(storage)
    latest = (await storage.status()).latest
    shutil.copytree(tmp_path / "running", tmp_path / "disk")
    await storage.close()
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / FILE_NAME).symlink_to(tmp_path / "disk" / FILE_NAME)
    done = await ground.recover(*sources_at(tmp_path / "place"))
    assert done.restored.facts.end.revision == latest


@pytest.mark.parametrize("name", FILES)
async def test_a_link_to_a_disk_that_is_not_mounted_is_not_passed_over(
    name: str, ground: RecoveryGround, tmp_path: Path
) -> None:
    older = await make("backup", tmp_path / "older")
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / name).symlink_to(tmp_path / "not mounted" / name)
    assert (await ground.refused(older, *sources_at(tmp_path / "place"))).code == ErrorCode.NO_ACCESS
