"""A vault of format 1 becomes one of format 2 when it is opened: once, whole, and not at all if it is damaged."""

import logging
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from tests.unit.vault.manifests import HASH, revision, segment, sql

from leasehold.core.codec import encode
from leasehold.core.digest import digest_bytes, item_digest
from leasehold.core.operations import Change, StoredProjection
from leasehold.core.records import Claiming
from leasehold.errors import Corrupt
from leasehold.ids import Revision, Token
from leasehold.limits.vault import VAULT_FORMAT_VERSION
from leasehold.vault import format as file_format
from leasehold.vault.inspect import check, inspect
from leasehold.vault.store import SqliteVault

CLAIMING = Claiming(token=Token("ab" * 16))
ITEMS = tuple(sorted((Change(b"c/a", b"1"), segment(1, 0, 1), segment(1, 0, 2)), key=lambda one: one.key))

FORMAT_1 = """
PRAGMA journal_mode = WAL;
PRAGMA application_id = 1280855888;
PRAGMA user_version = 1;
CREATE TABLE identity (id INTEGER PRIMARY KEY CHECK (id = 1), content BLOB NOT NULL, sha256 BLOB NOT NULL);
CREATE TABLE coordinators (id INTEGER PRIMARY KEY CHECK (id = 1), content BLOB NOT NULL, sha256 BLOB NOT NULL);
CREATE TABLE projection (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE applied (id INTEGER PRIMARY KEY CHECK (id = 1), revision INTEGER NOT NULL, durable INTEGER NOT NULL,
                      lineage BLOB NOT NULL, digest BLOB NOT NULL, seal BLOB NOT NULL);
"""


def write_format_1(directory: Path) -> Path:
    """As the program before wrote it; never edited."""
    path = directory / "vault.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(FORMAT_1.replace("1280855888", str(file_format.APPLICATION_ID)))
        for table, content in (("identity", encode(CLAIMING)), ("coordinators", b"")):
            database.execute(f"INSERT INTO {table} VALUES (1, ?, ?)", (content, sha256(content).digest()))
        digest = 0
        for item in ITEMS:
            database.execute("INSERT INTO projection VALUES (?, ?)", (item.key, item.value))
            digest ^= item_digest(item.key, item.value or b"")
        seal = sha256((7).to_bytes(8) + HASH + digest_bytes(digest)).digest()
        database.execute("INSERT INTO applied VALUES (1, 7, 5, ?, ?, ?)", (HASH, digest_bytes(digest), seal))
    return path


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        (found,) = database.execute("PRAGMA user_version").fetchone()
    return found


@pytest.mark.parametrize("whole_bytes_max", [0, 1 << 20])
async def test_it_holds_the_same_afterwards_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, whole_bytes_max: int
) -> None:
    path = write_format_1(tmp_path)
    expected = StoredProjection(applied=Revision(7), lineage=HASH, items=ITEMS)
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            vault = await SqliteVault.open(tmp_path, whole_bytes_max=whole_bytes_max)
            assert await vault.projection() == expected
            assert await vault.identity() == CLAIMING
            assert [one.key for one in (await vault.reopened()).items] == [b"c/a"]
            while not await vault.verify(2):
                pass
            await vault.close()
            assert version(path) == VAULT_FORMAT_VERSION
    assert len([one for one in caplog.messages if "format" in one]) == 1
    vault = await SqliteVault.open(tmp_path)
    await vault.apply((revision(8, segment(1, 0, 3)),), HASH)
    assert await vault.sync() == 8
    await vault.close()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM projection WHERE key = CAST('c/a' AS BLOB)",
        "UPDATE projection SET value = 'text'",
        "UPDATE applied SET revision = 8",
        "DELETE FROM applied",
        "DROP TABLE projection",
    ],
)
async def test_a_damaged_one_stays_as_it_is(tmp_path: Path, statement: str) -> None:
    path = write_format_1(tmp_path)
    sql(path, statement)
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(Corrupt, match="damaged"):
            await SqliteVault.open(tmp_path)
    assert path.read_bytes() == before
    assert check(tmp_path) != []


async def test_a_crash_at_any_statement_of_it_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_format_1(tmp_path)
    inner = file_format.migrate

    def cut_off(database: sqlite3.Connection, where: Path) -> None:
        inner(database, where)
        raise KeyboardInterrupt

    monkeypatch.setattr(file_format, "migrate", cut_off)
    with pytest.raises(KeyboardInterrupt):
        await SqliteVault.open(tmp_path)
    monkeypatch.undo()
    assert version(path) == 1
    vault = await SqliteVault.open(tmp_path)
    assert (await vault.projection()).items == ITEMS
    await vault.close()
    assert version(path) == VAULT_FORMAT_VERSION


def test_one_of_format_1_is_inspected_without_being_changed(tmp_path: Path) -> None:
    path = write_format_1(tmp_path)
    before = path.read_bytes()
    summary = inspect(tmp_path)
    assert (summary.format_version, summary.applied, summary.durable, summary.keys) == (1, 7, 5, 3)
    assert check(tmp_path) == []
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["vault.db"]
