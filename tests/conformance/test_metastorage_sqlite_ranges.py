"""What the SQLite backend promises of long histories: ranges over them, and compaction by slices."""

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from leasehold.core.words.operations import Change, KeyValue, Txn
from leasehold.ids import Revision
from leasehold.limits.messages import VALUE_BYTES_MAX
from leasehold.limits.metastorage import RANGE_PAGE_BYTES_MAX, RANGE_VERSIONS_PER_KEY
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage import database
from leasehold.metastorage.database import Database, DatabaseLimits
from leasehold.metastorage.sqlite import SqliteMetaStorage
from tests.conformance.metastorage_suite import put

BYTES_MAX = 1 << 30


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "meta.db"


async def test_a_page_of_large_values_ends_early(path: Path) -> None:
    storage = await SqliteMetaStorage.open(path)
    count = RANGE_PAGE_BYTES_MAX // VALUE_BYTES_MAX + 2
    for number in range(count):
        await storage.txn(put((b"k%02d" % number, bytes(VALUE_BYTES_MAX))))
    page = await storage.range(b"k", b"l", limit=count)
    assert 1 < len(page.items) < count
    assert page.next_start == page.items[-1].key + b"\x00"
    rest = await storage.range(page.next_start, b"l", revision=page.revision, limit=count)
    assert [item.key for item in page.items + rest.items] == [b"k%02d" % number for number in range(count)]
    await storage.close()


# ------------------------------------------------------------ ranges over long histories


@pytest.mark.parametrize("versions_per_key", [1, 2, RANGE_VERSIONS_PER_KEY])
def test_a_range_shows_every_revision_however_many_versions_its_keys_have(path: Path, versions_per_key: int) -> None:
    opened = Database(path, bytes_max=BYTES_MAX, limits=DatabaseLimits(versions_per_key=versions_per_key))
    names = [b"k%02d" % number for number in range(12)]
    for number in range(40):
        changes = [(names[0], b"often %d" % number), (names[number % 12], b"%d" % number)]
        gone = names[(number + 5) % 12]
        opened.commit([put(*dict(changes).items()), Txn(then=(Change(gone, None),))])
    for revision in range(1, opened.newest + 1):
        at = Revision(revision)
        expected = [found for one in names if (found := opened.get(one, at)) is not None]
        for limit in (1, 3, 100):
            seen: list[KeyValue] = []
            start: bytes | None = b"k"
            while start is not None:
                page = opened.page(start, b"l", at, limit)
                assert len(page.items) <= limit
                seen.extend(page.items)
                start = page.next_start
            assert seen == expected
    opened.close()


class CountingCursor(sqlite3.Cursor):
    """Notes each row that is read from it."""

    read: ClassVar[list[object]] = []

    def __next__(self) -> Any:
        row = super().__next__()
        self.read.append(row)
        return row


class CountingConnection(sqlite3.Connection):
    """Its statements answer by such cursors."""

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        return self.cursor(CountingCursor).execute(sql, *arguments)


def test_a_range_passes_by_the_history_of_a_key_that_changes_all_the_time(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Database(path, bytes_max=BYTES_MAX)
    opened.commit([put((b"a", b""), (b"c", b""))])
    for _ in range(10):
        opened.commit([put((b"b", b"")) for _ in range(100)])
    opened.close()
    monkeypatch.setattr(database.sqlite3, "connect", partial(sqlite3.connect, factory=CountingConnection))
    opened = Database(path, bytes_max=BYTES_MAX)
    read = CountingCursor.read
    read.clear()
    page = opened.page(b"a", b"z", None, 10)
    assert [(item.key, item.version) for item in page.items] == [(b"a", 1), (b"b", 1000), (b"c", 1)]
    assert len(read) <= 11 * RANGE_VERSIONS_PER_KEY + 3
    opened.close()


# ------------------------------------------------------------ compaction's slices


def rows(opened: Database) -> list[tuple[bytes, int, bool]]:
    opened.close()
    with closing(sqlite3.connect(opened.path)) as connection:
        return connection.execute("SELECT key, revision, value IS NULL FROM kv ORDER BY key, revision").fetchall()


@pytest.mark.parametrize("slice_rows", [1, 3, 1000])
def test_compaction_deletes_exactly_what_is_unseen(path: Path, slice_rows: int) -> None:
    limits = DatabaseLimits(slice_rows=slice_rows)
    opened = Database(path, bytes_max=BYTES_MAX, limits=limits)
    for number in range(12):
        opened.commit([put((b"often", b"%d" % number), (b"k%d" % (number % 3), b""))])
    opened.commit([Txn(then=(Change(b"k0", None), Change(b"k1", None)))])
    opened.compact(Revision(6))
    opened.sweep()
    opened.compact(Revision(13))
    while opened.sweeping:
        opened.sweep()
    # The deletes at 13 stay to be replayed from 13 on.
    assert rows(opened) == [(b"k0", 13, True), (b"k1", 13, True), (b"k2", 12, False), (b"often", 12, False)]
    opened = Database(path, bytes_max=BYTES_MAX, limits=limits)
    assert not opened.sweeping
    opened.commit([put((b"often", b"last"))])
    opened.compact(Revision(14))
    while opened.sweeping:
        opened.sweep()
    assert rows(opened) == [(b"k2", 12, False), (b"often", 14, False)]


def test_an_unfinished_sweep_goes_on_after_a_restart(path: Path) -> None:
    limits = DatabaseLimits(slice_rows=2)
    opened = Database(path, bytes_max=BYTES_MAX, limits=limits)
    for number in range(20):
        opened.commit([put((b"often", b"%d" % number))])
    opened.compact(Revision(20))
    opened.sweep()
    assert len(rows(opened)) > 10
    opened = Database(path, bytes_max=BYTES_MAX, limits=limits)
    assert opened.sweeping
    while opened.sweeping:
        opened.sweep()
    assert rows(opened) == [(b"often", 20, False)]


async def test_whoever_reads_page_by_page_waits_for_no_slice(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slices: list[int] = []
    sweep = Database.sweep

    def counted(self: Database) -> None:
        slices.extend([1] if self.sweeping else [])
        sweep(self)

    monkeypatch.setattr(Database, "sweep", counted)
    storage = await SqliteMetaStorage.open(path, pause_ns=3600 * SECOND_NS, limits=DatabaseLimits(slice_rows=1))
    for number in range(20):
        await storage.txn(put((b"often", b"%d" % number)))
    await storage.compact(Revision(20))
    for _ in range(10):
        await storage.range(b"a", b"z", limit=1)
    assert slices == []
    await storage.txn(put((b"often", b"last")))
    await storage.status()
    assert slices == [1]
    await storage.close()
