"""A damaged vault refuses to start and says so; never is a new one made in its place."""

import asyncio
import errno
import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import Claiming
from leasehold.errors import BadDirectory, Corrupt, OutcomeUnknown
from leasehold.ids import LineageHash, Revision, Token
from leasehold.limits.vault import VAULT_FORMAT_VERSION
from leasehold.vault.limits import VaultLimits
from leasehold.vault.store import FULL, NORMAL, SqliteVault

CLAIMING = Claiming(token=Token("ab" * 16))


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def fill(directory: Path) -> Path:
    vault = await SqliteVault.open(directory)
    changes = tuple(Change(b"key%05d" % number, b"value%05d" % number * 20) for number in range(500))
    await vault.apply((RevisionChanges(Revision(7), changes),), LineageHash(b"h" * 32))
    await vault.write_identity(CLAIMING)
    await vault.close()
    assert names(directory) == ["lock", "vault.db"]
    return directory / "vault.db"


async def read_all(directory: Path) -> None:
    vault = await SqliteVault.open(directory)
    try:
        assert await vault.identity() == CLAIMING
        assert (await vault.projection()).applied == 7
    finally:
        await vault.close()


def overwrite(path: Path, pattern: bytes, replacement: bytes) -> None:
    content = path.read_bytes()
    at = content.index(pattern)
    path.write_bytes(content[:at] + replacement + content[at + len(replacement) :])


def sql(statement: str) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(statement)

    return run


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "no database": lambda path: path.write_bytes(b"garbage" * 1000),
    "a hundred bytes": lambda path: path.write_bytes(path.read_bytes()[:100]),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "half of the pages": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 8192 * 4096]),
    "last page missing": lambda path: path.write_bytes(path.read_bytes()[:-4096]),
    "a page of zeros": lambda path: path.write_bytes(path.read_bytes()[:4096] + bytes(4096) + path.read_bytes()[8192:]),
    "the head of a page": lambda path: overwrite(path, path.read_bytes()[4096:4608], b"\xff" * 512),
    "a bit of the token": lambda path: overwrite(path, b"abab", b"abac"),
    "a byte of a value": lambda path: overwrite(path, b"value00333value00333", b"value00334"),
    "a byte of a key": lambda path: overwrite(path, b"key00333", b"key00332"),
    "the lineage": lambda path: overwrite(path, b"h" * 32, b"i"),
    "another database": sql("PRAGMA application_id = 1"),
    "no identity row": sql("DELETE FROM identity"),
    "no applied row": sql("DELETE FROM applied"),
    "a lost item": sql("DELETE FROM projection WHERE key = CAST('key00001' AS BLOB)"),
    "an item twice as text": sql("INSERT INTO projection VALUES ('text', 'text', 'text')"),
    "another applied revision": sql("UPDATE applied SET revision = 8"),
    "no table": sql("DROP TABLE projection"),
    "a schema that is no text": lambda path: overwrite(path, b"CREATE TABLE applied", b"CR\xc5ATE"),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_damage_is_found_and_the_file_left_as_it_is(tmp_path: Path, damage: str) -> None:
    path = await fill(tmp_path)
    await read_all(tmp_path)
    DAMAGES[damage](path)
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(Corrupt) as caught:
            await read_all(tmp_path)
        assert str(tmp_path) in caught.value.text
        assert not re.search(r"\\|\n", caught.value.text), "one line for people"
        assert re.search("move it away", caught.value.hint)
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", ["a byte of a value", "the head of a page", "a schema that is no text"])
async def test_what_is_in_the_log_of_a_damaged_vault_stays_there(tmp_path: Path, damage: str) -> None:
    """Its process was killed before it had emptied it."""
    path = await fill(tmp_path)
    vault = await SqliteVault.open(tmp_path)
    await vault.apply((RevisionChanges(Revision(1_000_000), (Change(b"late", b"late"),)),), LineageHash(b"l" * 32))
    killed = tmp_path / "killed"
    killed.mkdir()
    for file in (path, path.with_name("vault.db-wal")):
        (killed / file.name).write_bytes(file.read_bytes())
    await vault.close()
    DAMAGES[damage](killed / path.name)
    before = {file.name: file.read_bytes() for file in killed.iterdir()}
    assert before["vault.db-wal"]
    for _ in range(2):
        with pytest.raises(Corrupt):
            await read_all(killed)
    assert {name: (killed / name).read_bytes() for name in before} == before


async def test_a_log_without_its_file_is_damage(tmp_path: Path) -> None:
    path = await fill(tmp_path)
    path.rename(tmp_path / "vault.db-wal")
    with pytest.raises(Corrupt, match="the file does not"):
        await SqliteVault.open(tmp_path)
    assert not path.exists()


async def test_I5_a_damaged_log_does_not_take_the_identity_back(tmp_path: Path) -> None:
    vault = await SqliteVault.open(tmp_path)
    await vault.write_identity(CLAIMING)
    await vault.apply((RevisionChanges(Revision(1), ()),), LineageHash(b"h" * 32))
    log = tmp_path / "vault.db-wal"
    assert log.stat().st_size > 0
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "vault.db").write_bytes((tmp_path / "vault.db").read_bytes())
    (copy / "vault.db-wal").write_bytes(b"\xff" * log.stat().st_size)
    await vault.close()
    vault = await SqliteVault.open(copy)
    assert await vault.identity() == CLAIMING
    assert (await vault.projection()).applied == 0
    await vault.close()


@pytest.mark.parametrize(("by", "word"), [(1, "newer"), (-1, "older")])
async def test_another_format_is_refused_and_named(tmp_path: Path, by: int, word: str) -> None:
    path = await fill(tmp_path)
    sql(f"PRAGMA user_version = {VAULT_FORMAT_VERSION + by}")(path)
    with pytest.raises(BadDirectory, match=word) as caught:
        await SqliteVault.open(tmp_path)
    assert caught.value.code == f"{word.upper()}_VERSION"
    assert not isinstance(caught.value, Corrupt)


async def test_what_a_crash_in_the_middle_of_making_it_left_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "vault.db.new").write_bytes(b"half of a")
    (tmp_path / "vault.db.new-journal").write_bytes(b"")
    vault = await SqliteVault.open(tmp_path)
    assert await vault.identity() is None
    await vault.close()
    assert names(tmp_path) == ["lock", "vault.db"]


class ScriptedConnection(sqlite3.Connection):
    """Notes at which level each write commits, and calls `before_next` before the next statement."""

    levels: ClassVar[list[int]] = []
    before_next: ClassVar[Callable[[sqlite3.Connection], object] | None] = None
    _counted = 0

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        kind = ScriptedConnection
        before, kind.before_next = kind.before_next, None
        if before is not None:
            before(self)
        cursor = super().execute(sql, *arguments)
        if self.total_changes > self._counted and not self.in_transaction:
            self._counted = self.total_changes
            kind.levels.append(super().execute("PRAGMA synchronous").fetchone()[0])
        return cursor


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> type[ScriptedConnection]:
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=ScriptedConnection))
    monkeypatch.setattr(ScriptedConnection, "levels", [])
    monkeypatch.setattr(ScriptedConnection, "before_next", None)
    return ScriptedConnection


async def test_the_settings_that_make_writes_durable_are_the_ones_sqlite_runs_with(
    tmp_path: Path, scripted: type[ScriptedConnection]
) -> None:
    vault = await SqliteVault.open(tmp_path)
    scripted.levels.clear()
    changes = (Change(b"a", b"1"),)
    await vault.apply((RevisionChanges(Revision(1), changes),), LineageHash(b"h" * 32))
    assert scripted.levels == [NORMAL]
    await vault.write_identity(CLAIMING)
    assert scripted.levels == [NORMAL, FULL]
    await vault.apply((RevisionChanges(Revision(2), changes),), LineageHash(b"h" * 32))
    assert scripted.levels == [NORMAL, FULL, NORMAL]
    assert await vault.sync() == 2
    assert scripted.levels == [NORMAL, FULL, NORMAL, FULL]
    await vault.close()
    with closing(sqlite3.connect(tmp_path / "vault.db")) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_a_write_that_finds_no_space_changes_nothing_and_waits_for_space(
    tmp_path: Path, scripted: type[ScriptedConnection]
) -> None:
    # A limit on the size of the database stands for a full disk.
    vault = await SqliteVault.open(tmp_path, limits=VaultLimits(full_retry_ns=1))
    await vault.write_identity(CLAIMING)

    def limit(pages: int) -> None:
        scripted.before_next = lambda database: database.execute(f"PRAGMA max_page_count = {pages}")

    limit(12)
    big = RevisionChanges(Revision(1), (Change(b"big", bytes(1_000_000)),))
    writing = asyncio.ensure_future(vault.apply((big,), LineageHash(b"h" * 32)))
    for _ in range(20):  # it has failed by then: each of these comes behind an attempt
        assert await vault.identity() == CLAIMING
        assert (await vault.projection()).applied == 0
    assert not writing.done()
    limit(10_000)
    await writing
    assert (await vault.projection()).applied == 1
    await vault.close()


async def test_another_failed_write_closes_the_vault_until_it_is_opened_anew(
    tmp_path: Path, scripted: type[ScriptedConnection]
) -> None:
    vault = await SqliteVault.open(tmp_path)
    await vault.write_identity(CLAIMING)

    def fail(_database: sqlite3.Connection) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    told: list[str] = []
    vault.on_disk_error = lambda: told.append("the disk fails")
    scripted.before_next = fail
    with pytest.raises(OutcomeUnknown) as caught:
        await vault.write_coordinators(("c1:7000",))
    assert caught.value.code == "DISK"
    with pytest.raises(OutcomeUnknown):
        await vault.identity()
    assert told == ["the disk fails"]
    await vault.close()
    vault = await SqliteVault.open(tmp_path)
    assert await vault.identity() == CLAIMING
    assert (await vault.projection()).applied == 0
    await vault.close()
