"""What only the SQLite backend promises of its process and its file: crashes, the lock, damage, a full disk."""

import asyncio
import os
import signal
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from leasehold.errors import BadDirectory, Corrupt, Indefinite, Refused
from leasehold.ids import Revision
from leasehold.limits.messages import FORMAT_VERSION
from leasehold.metastorage.database import Database, DatabaseLimits
from leasehold.metastorage.sqlite import SqliteMetaStorage
from tests.conformance.metastorage_suite import put, value_at


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


def garble_schema(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE state", b"CR\xc5ATE TABLE state"))


def garble(path: Path, first_page: int, end_page: int) -> None:
    """Overwrites whole pages, counted from 0, with nonsense."""
    blob = bytearray(path.read_bytes() if path.exists() else b"")
    blob[first_page * 4096 : end_page * 4096] = b"\xa5" * ((end_page - first_page) * 4096)
    path.write_bytes(blob)


async def test_a_watch_that_reads_the_history_ends_like_any_other_while_the_store_closes(path: Path) -> None:
    """A coordinator stands by after `Indefinite`, while its replica is built anew, and ends after another error."""
    storage = await SqliteMetaStorage.open(path)
    await storage.txn(put((b"k", b"1")))
    loop, began, gate = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def wait(_: Database) -> None:
        loop.call_soon_threadsafe(began.set)
        gate.wait()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(storage.ask(wait))
        await began.wait()
        tasks.create_task(storage.close())
        await asyncio.sleep(0)
        with pytest.raises(Indefinite):
            await anext(storage.watch(b"a", b"z", Revision(1)))
        gate.set()


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
