"""What the SQLite backend promises of its commits: requests that share one, and what a commit that fails leaves."""

import asyncio
import sqlite3
from functools import partial
from pathlib import Path

import pytest

from leasehold.core.words.operations import Change, Exists, Missing, Txn, ValueIs
from leasehold.errors import Definite, Indefinite, Refused
from leasehold.ids import Revision
from leasehold.limits.metastorage import CHECKPOINT_PAGES_MAX
from leasehold.limits.requests import COMMAND_QUEUE_MAX, COMMANDS_PER_TRANSACTION_MAX
from leasehold.metastorage import database
from leasehold.metastorage.database import DatabaseLimits
from leasehold.metastorage.sqlite import SqliteMetaStorage
from tests.conformance.metastorage_suite import put, value_at


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "meta.db"


def size(path: Path) -> int:
    return path.stat().st_size


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


async def test_what_follows_a_commit_that_failed_is_decided_on_what_is_there(
    path: Path, faulty: type[FaultyConnection]
) -> None:
    storage = await SqliteMetaStorage.open(path)
    await storage.txn(put((b"k", b"1")))
    faulty.fault = sqlite3.SQLITE_FULL, False
    with pytest.raises(Refused):
        await storage.txn(Txn(then=(Change(b"k", b"2"), Change(b"new", b"2"))))
    unchanged = ValueIs(b"k", b"1"), Missing(b"new")
    assert (await storage.txn(Txn(compares=unchanged, then=(Change(b"k", b"3"),)))).succeeded
    found = await storage.get(b"k")
    assert found is not None
    assert found.version == 2
    await storage.close()


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


async def test_too_many_waiting_requests_are_refused(path: Path) -> None:
    storage = await SqliteMetaStorage.open(path)
    requests = [storage.txn(put((b"a", b"%d" % number))) for number in range(COMMAND_QUEUE_MAX + 10)]
    outcomes = await asyncio.gather(*requests, return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert len(refused) == 10
    assert all(isinstance(error, Refused) and error.code == "BUSY" for error in refused)
    assert (await storage.txn(put((b"a", b"after")))).succeeded
    await storage.close()
