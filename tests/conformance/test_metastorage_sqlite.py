"""What only the SQLite backend promises: one process, its file's state, crashes, group commit."""

import asyncio
import os
import signal
import sqlite3
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from leasehold.core.words.operations import Change, Exists, KeyValue, Txn
from leasehold.errors import BadDirectory, Corrupt, Definite, Indefinite, Refused
from leasehold.ids import Revision
from leasehold.limits.messages import FORMAT_VERSION, VALUE_BYTES_MAX
from leasehold.limits.metastorage import CHECKPOINT_PAGES_MAX, RANGE_PAGE_BYTES_MAX, RANGE_VERSIONS_PER_KEY
from leasehold.limits.requests import COMMAND_QUEUE_MAX, COMMANDS_PER_TRANSACTION_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage import database
from leasehold.metastorage.database import Database, DatabaseLimits
from leasehold.metastorage.sqlite import SqliteMetaStorage
from tests.conformance.metastorage_suite import put, value_at

BYTES_MAX = 1 << 30


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "meta.db"


async def filled(path: Path, keys: int = 200) -> None:
    storage = await SqliteMetaStorage.open(path)
    for number in range(keys):
        await storage.txn(put((b"k%04d" % number, bytes(200))))
    await storage.close()


def content(path: Path) -> bytes:
    return path.read_bytes()


def size(path: Path) -> int:
    return path.stat().st_size


def garble_schema(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE state", b"CR\xc5ATE TABLE state"))


def garble(path: Path, first_page: int, end_page: int) -> None:
    """Overwrites whole pages, counted from 0, with nonsense."""
    blob = bytearray(path.read_bytes() if path.exists() else b"")
    blob[first_page * 4096 : end_page * 4096] = b"\xa5" * ((end_page - first_page) * 4096)
    path.write_bytes(blob)


# ------------------------------------------------------------ crashes


async def run_and_kill(path: Path, run: str, acknowledged_min: int) -> dict[bytes, Revision]:
    """Starts a committer, kills it in full flight, answers what it had acknowledged."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.conformance.committer", str(path), run,
        stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert process.stdout is not None
    lines: list[bytes] = []
    while len(lines) < acknowledged_min:
        line = await process.stdout.readline()
        assert line, "the committer ended by itself"
        lines.append(line)
    process.send_signal(signal.SIGKILL)
    lines += (await process.stdout.read()).splitlines(keepends=True)
    await process.wait()
    # The kill may cut the last line short.
    pairs = [line.split() for line in lines if line.endswith(b"\n")]
    return {key: Revision(int(revision)) for key, revision in pairs}


@pytest.mark.processes
async def test_a_killed_process_loses_nothing_it_acknowledged(path: Path) -> None:
    acknowledged: dict[bytes, Revision] = {}
    for run in ("first", "second"):
        acknowledged |= await run_and_kill(path, run, 200)
        storage = await SqliteMetaStorage.open(path)
        newest = 0
        for key, revision in acknowledged.items():
            found = await storage.get(key)
            assert found is not None, f"{key!r} was acknowledged at {revision}"
            assert (found.value, found.modified) == (key, revision)
            assert await value_at(storage, b"shared", revision) == key, "a revision is there whole or not at all"
            newest = max(newest, revision)
        assert (await storage.txn(put((b"after", b"")))).revision > newest
        await storage.close()
    assert len(set(acknowledged.values())) == len(acknowledged) >= 400


# ------------------------------------------------------------ the lock


@pytest.mark.parametrize("before", [None, 0o644, 0o660], ids=["made", "for all to read", "for a group"])
def test_the_file_is_its_owner_s_alone(path: Path, before: int | None) -> None:
    Database(path, bytes_max=1 << 20).close()
    if before is not None:
        path.chmod(before)
    database = Database(path, bytes_max=1 << 20)
    database.lead("a")
    assert {one.name.removeprefix(path.name) for one in path.parent.iterdir()} >= {"", "-wal", ".lock"}
    assert {one.stat().st_mode & 0o777 for one in path.parent.iterdir()} == {0o600}
    database.close()


async def test_a_second_opener_is_refused_and_told_who_has_it(path: Path) -> None:
    storage = await SqliteMetaStorage.open(path)
    with pytest.raises(BadDirectory) as refused:
        await SqliteMetaStorage.open(path)
    assert str(path) in refused.value.text
    assert str(os.getpid()) in refused.value.text
    assert refused.value.hint
    assert (await storage.txn(put((b"a", b"1")))).succeeded, "the first is not disturbed"
    await storage.close()
    await (await SqliteMetaStorage.open(path)).close()


async def test_a_file_that_another_program_has_locked_is_refused(path: Path) -> None:
    await filled(path, 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BadDirectory) as refused:
            await SqliteMetaStorage.open(path)
        assert "another program" in refused.value.text
    await (await SqliteMetaStorage.open(path)).close()


async def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadDirectory) as refused:
        await SqliteMetaStorage.open(tmp_path / "nowhere" / "meta.db")
    assert refused.value.hint


# ------------------------------------------------------------ the file


async def test_a_newer_format_is_refused(path: Path) -> None:
    await filled(path, 1)
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"PRAGMA user_version = {FORMAT_VERSION + 1}")
    with pytest.raises(BadDirectory) as refused:
        await SqliteMetaStorage.open(path)
    assert not isinstance(refused.value, Corrupt)
    assert f"{FORMAT_VERSION + 1}" in refused.value.text
    assert f"{FORMAT_VERSION}" in refused.value.text
    assert refused.value.hint


async def test_another_programs_database_is_refused_untouched(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE theirs (x)")
    before = content(path)
    with pytest.raises(BadDirectory):
        await SqliteMetaStorage.open(path)
    assert content(path) == before


async def test_a_file_that_is_no_database_is_corrupt(path: Path) -> None:
    garble(path, 0, 3)
    with pytest.raises(Corrupt) as corrupt:
        await SqliteMetaStorage.open(path)
    assert str(path) in corrupt.value.text
    assert corrupt.value.hint


async def test_damage_is_found_at_the_start(path: Path) -> None:
    await filled(path)
    garble(path, 3, 8)
    for _ in range(2):  # the first attempt gives the lock back
        with pytest.raises(Corrupt):
            await SqliteMetaStorage.open(path)


async def test_a_schema_that_is_no_text_is_damage(path: Path) -> None:
    """SQLite's words quote it, and Python fails to make an error of them."""
    await filled(path)
    garble_schema(path)
    with pytest.raises(Corrupt, match="no text"):
        await SqliteMetaStorage.open(path)


async def test_damage_found_later_is_corrupt_too(path: Path) -> None:
    await filled(path)
    # Pages 5 and on: leaves of the table and of its index, none read at the start.
    garble(path, 5, 12)
    storage = await SqliteMetaStorage.open(path, limits=DatabaseLimits(quick_check_bytes_max=0))
    with pytest.raises(Corrupt):
        await storage.range(b"", b"z", limit=1000)
    await storage.close()


async def test_a_full_disk_is_refused_and_leaves_nothing(path: Path) -> None:
    storage = await SqliteMetaStorage.open(path, bytes_max=64 * 4096)
    written = 0
    refused: Refused | None = None
    while refused is None:
        try:
            await storage.txn(put((b"k%04d" % written, bytes(4000))))
            written += 1
        except Refused as error:
            refused = error
    assert refused.code == "DISK_FULL"
    assert refused.hint
    assert (await storage.range(b"", b"z", limit=1)).revision == written > 10
    assert await storage.get(b"k%04d" % written) is None
    await storage.close()
    storage = await SqliteMetaStorage.open(path)
    assert (await storage.txn(put((b"room", b"again")))).revision == written + 1
    await storage.close()


async def test_a_failed_group_rolls_back_whole(path: Path) -> None:
    storage = await SqliteMetaStorage.open(path, bytes_max=64 * 4096)
    watch = storage.watch(b"", b"z", Revision(1))
    waiting = asyncio.create_task(anext(watch))
    txns = [put((b"k%04d" % number, bytes(4000))) for number in range(COMMANDS_PER_TRANSACTION_MAX)]
    outcomes = await asyncio.gather(*(storage.txn(txn) for txn in txns), return_exceptions=True)
    kept = (await storage.range(b"", b"z", limit=1000)).items
    happened = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert [item.modified for item in kept] == [outcome.revision for outcome in happened]
    refused = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert refused
    assert all(isinstance(error, Refused) and error.code == "DISK_FULL" for error in refused)
    assert len({id(error) for error in refused}) == len(refused), "each caller has an error of its own"
    small = await storage.txn(put((b"small", b"1")))
    assert small.revision == len(happened) + 1, "revisions that rolled back are taken again"
    assert (await waiting).revision == 1
    await watch.aclose()
    await storage.close()


class FaultyConnection(sqlite3.Connection):
    """Fails the next COMMIT as told: `fault` is a result code and whether the commit happens all the same."""

    fault: tuple[int, bool] | None = None
    commits = 0
    """How many were asked for."""

    def execute(self, sql: str, *arguments: object) -> sqlite3.Cursor:
        fault = FaultyConnection.fault
        FaultyConnection.commits += sql == "COMMIT"
        if sql != "COMMIT" or fault is None:
            return super().execute(sql, *arguments)
        FaultyConnection.fault = None
        if fault[1]:
            super().execute(sql)
        error = sqlite3.OperationalError("injected")
        error.sqlite_errorcode = fault[0]
        raise error


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> type[FaultyConnection]:
    monkeypatch.setattr(database.sqlite3, "connect", partial(sqlite3.connect, factory=FaultyConnection))
    monkeypatch.setattr(FaultyConnection, "fault", None)
    return FaultyConnection


@pytest.mark.parametrize("happened", [False, True])
async def test_a_commit_that_is_unclear_is_indefinite_and_ends_the_store(
    path: Path, faulty: type[FaultyConnection], happened: bool
) -> None:
    storage = await SqliteMetaStorage.open(path)
    before = (await storage.txn(put((b"a", b"before")))).revision
    watch = storage.watch(b"", b"z", Revision(before + 1))
    waiting = asyncio.create_task(anext(watch))
    await storage.status()
    faulty.fault = (sqlite3.SQLITE_IOERR, happened)
    outcomes = await asyncio.gather(
        *(storage.txn(put((b"a", b"%d" % number))) for number in range(3)), return_exceptions=True
    )
    assert all(isinstance(outcome, Indefinite) for outcome in outcomes)
    with pytest.raises(Indefinite):
        await waiting
    with pytest.raises(Definite) as refused:
        await storage.txn(put((b"a", b"later")))
    assert "injected" in refused.value.text
    await storage.close()
    storage = await SqliteMetaStorage.open(path)
    assert await value_at(storage, b"a") in ({b"0", b"1", b"2"} if happened else {b"before"})
    await storage.close()


async def test_a_disk_that_fills_at_the_commit_is_definite(path: Path, faulty: type[FaultyConnection]) -> None:
    storage = await SqliteMetaStorage.open(path)
    before = (await storage.txn(put((b"a", b"before")))).revision
    faulty.fault = (sqlite3.SQLITE_FULL, False)
    with pytest.raises(Refused) as refused:
        await storage.txn(put((b"a", b"full")))
    assert refused.value.code == "DISK_FULL"
    assert await value_at(storage, b"a") == b"before"
    assert (await storage.txn(put((b"a", b"after")))).revision == before + 1
    await storage.close()


# ------------------------------------------------------------ group commit


async def test_what_waits_together_commits_together(path: Path, faulty: type[FaultyConnection]) -> None:
    storage = await SqliteMetaStorage.open(path)
    before = faulty.commits
    count = COMMANDS_PER_TRANSACTION_MAX * 4
    txns = [Txn(then=(Change(b"last", b"%d" % n),), otherwise=(), compares=()) for n in range(count)]
    results = await asyncio.gather(*(storage.txn(txn) for txn in txns))
    assert len({result.revision for result in results}) == count, "each has a revision of its own"
    assert 0 < faulty.commits - before <= count // 20
    for number in (0, count // 2, count - 1):
        assert await value_at(storage, b"last", results[number].revision) == b"%d" % number
    await storage.close()


async def test_a_group_sees_its_own_writes(path: Path) -> None:
    storage = await SqliteMetaStorage.open(path)
    await storage.txn(put((b"first", b"")))
    chain = [
        Txn(
            compares=(Exists(b"k%d" % number),),
            then=(Change(b"k%d" % (number + 1), b""), Change(b"k%d" % number, None)),
        )
        for number in range(100)
    ]
    results = await asyncio.gather(storage.txn(put((b"k0", b""))), *(storage.txn(txn) for txn in chain))
    assert all(result.succeeded for result in results)
    assert [item.key for item in (await storage.range(b"k", b"l", limit=10)).items] == [b"k100"]
    await storage.close()


async def test_the_log_is_folded_into_the_file_now_and_then(path: Path) -> None:
    storage = await SqliteMetaStorage.open(path, limits=DatabaseLimits(checkpoint_commits=10))
    before, revision = size(path), 0
    while size(path) == before:  # it grows by folding alone, which waits for a moment without requests
        revision += 1
        assert size(path.with_name(path.name + "-wal")) < CHECKPOINT_PAGES_MAX * 4096
        await storage.txn(put((b"a", bytes(1_000))))
    assert revision >= 9, "with the one that made the file"
    assert await value_at(storage, b"a", Revision(1)) == bytes(1_000)
    await storage.close()


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


async def test_too_many_waiting_requests_are_refused(path: Path) -> None:
    storage = await SqliteMetaStorage.open(path)
    requests = [storage.txn(put((b"a", b"%d" % number))) for number in range(COMMAND_QUEUE_MAX + 10)]
    outcomes = await asyncio.gather(*requests, return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert len(refused) == 10
    assert all(isinstance(error, Refused) and error.code == "BUSY" for error in refused)
    assert (await storage.txn(put((b"a", b"after")))).succeeded
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
