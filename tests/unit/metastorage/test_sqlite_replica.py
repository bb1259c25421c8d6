"""A replica in a file: what it holds after crashes and damage, and what may take its place."""

import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from leasehold.core.log.entry import BEGINNING, DraftEntry
from leasehold.core.words.operations import Change, Txn
from leasehold.core.words.records import CheckpointChunk, LogBody, LogCheckpoint, LogPosition, LogTransaction
from leasehold.errors import BadDirectory, Indefinite
from leasehold.ids import Revision, Term
from leasehold.limits.metastorage import META_STORAGE_BYTES_MAX
from leasehold.metastorage.contract import Compacted
from leasehold.metastorage.log.sqlite_replica import ReplicaDatabase, SqliteReplica, SqliteReplicaPlace
from leasehold.metastorage.sqlite import FILE_NAME, SqliteMetaStorage
from tests.unit.core.log.log_words import drafted, writing
from tests.unit.metastorage.log_ground import LOG_ID

BODIES = (
    writing(1, 2),
    LogBody(transactions=(LogTransaction(Revision(3), (Change(b"key-0001", None), Change(b"key-0003", b"3"))),)),
    writing(4, 5, 6),
    writing(minimum=4),
    LogBody(transactions=(LogTransaction(Revision(7), (Change(b"key-0003", b"33"),)),), minimum=Revision(5)),
)
ENTRIES = drafted(*BODIES)
ROWS_AT = {
    0: {},
    1: {b"key-0001": b"v1", b"key-0002": b"v2"},
    2: {b"key-0002": b"v2", b"key-0003": b"3"},
    3: {b"key-0002": b"v2", b"key-0003": b"3", b"key-0004": b"v4", b"key-0005": b"v5", b"key-0006": b"v6"},
}
ROWS_AT[4] = ROWS_AT[3]
ROWS_AT[5] = {**ROWS_AT[3], b"key-0003": b"33"}
MINIMUM_AT = (1, 1, 1, 1, 4, 5)


async def nothing() -> AsyncIterator[CheckpointChunk]:
    for chunk in ():
        yield chunk


async def some(*chunks: CheckpointChunk) -> AsyncIterator[CheckpointChunk]:
    for chunk in chunks:
        yield chunk


async def chunks_at(replica: SqliteReplica, minimum: int) -> list[CheckpointChunk]:
    return [chunk async for chunk in replica.chunks(Revision(minimum))]


async def rows(replica: SqliteReplica) -> dict[bytes, bytes]:
    page = await replica.range(b"", b"\xff", limit=1000)
    return {one.key: one.value for one in page.items}


async def applied(directory: Path, entries: list[DraftEntry] = ENTRIES) -> SqliteReplica:
    """A new replica that has applied some entries."""
    replica = await SqliteReplicaPlace(directory).build(LOG_ID, None, nothing())
    for one, body in zip(entries, BODIES, strict=False):
        await replica.apply(one.position, [body])
    return replica


async def check(replica: SqliteReplica) -> int:
    """That position, rows and MM are those of one entry, and which."""
    number = replica.position.number
    assert replica.position == (ENTRIES[number - 1].position if number else BEGINNING)
    assert replica.log_id == LOG_ID
    assert await rows(replica) == ROWS_AT[number]
    assert (await replica.status()).minimum == MINIMUM_AT[number]
    return number


# ------------------------------------------------------------ entries


async def test_what_was_applied_is_there_after_a_restart(tmp_path: Path) -> None:
    replica = await applied(tmp_path)
    await check(replica)
    await replica.close()
    again = await SqliteReplicaPlace(tmp_path).open()
    assert again is not None
    assert await check(again) == len(ENTRIES)
    draft = await again.draft([Txn(then=(Change(b"a", b"1"),))], Term(1))
    assert draft.results[0].revision == 8
    assert await check(again) == len(ENTRIES), "a draft changes nothing"
    await again.close()


async def test_a_draft_decides_each_transaction_on_those_before_it(tmp_path: Path) -> None:
    replica = await applied(tmp_path)
    put, delete = Txn(then=(Change(b"a", b"1"),)), Txn(then=(Change(b"a", None),))
    draft = await replica.draft([delete, put, delete, delete], Term(1))
    assert [one.revision for one in draft.results] == [7, 8, 9, 9]
    assert [one.revision for one in draft.transactions] == [8, 9]
    await replica.close()


async def test_an_entry_that_another_appended_after_a_draft_is_applied_as_it_is(tmp_path: Path) -> None:
    """A draft keeps what it has read, which the entry may change."""
    replica = await applied(tmp_path, ENTRIES[:1])
    deleting = Txn(then=(Change(b"key-0001", None), Change(b"key-0003", b"mine")))
    for entry, body in zip(ENTRIES[1:], BODIES[1:], strict=True):
        await replica.draft([deleting], Term(1))
        await replica.apply(entry.position, [body])
    assert await check(replica) == len(ENTRIES)
    versions = {one.key: one.version for one in (await replica.range(b"", b"\xff", limit=1000)).items}
    assert versions[b"key-0003"] == 2
    assert versions[b"key-0006"] == 1
    await replica.close()


async def test_a_replica_of_an_earlier_version_counts_each_row_once(tmp_path: Path) -> None:
    await (await applied(tmp_path, ENTRIES[:1])).close()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as file:
        file.execute(
            "CREATE TRIGGER kv_added AFTER INSERT ON kv"
            " BEGIN UPDATE content SET count = count + 1, total = total + NEW.sum; END"
        )
    replica = await SqliteReplicaPlace(tmp_path).open()
    assert replica is not None
    for entry, body in zip(ENTRIES[1:], BODIES[1:], strict=True):
        await replica.apply(entry.position, [body])
    await replica.close()
    again = await SqliteReplicaPlace(tmp_path).open()
    assert again is not None, "else its sums are wrong"
    assert await check(again) == len(ENTRIES)
    await again.close()


async def test_an_entry_that_fails_leaves_nothing(tmp_path: Path) -> None:
    replica = await applied(tmp_path, ENTRIES[:1])
    twice = LogTransaction(Revision(7), (Change(b"z", b"z"),))
    with pytest.raises(BadDirectory):
        await replica.apply(ENTRIES[2].position, [BODIES[1], BODIES[2], LogBody(transactions=(twice, twice))])
    await check(replica)
    await replica.apply(ENTRIES[2].position, BODIES[1:3])
    await check(replica)
    assert {one.version for one in (await replica.range(b"", b"\xff", limit=1000)).items} == {1}
    await replica.close()


# ------------------------------------------------------------ crashes


def copies_after_each_statement(directory: Path) -> list[Path]:
    """Files as a kill leaves them, at each statement of several entries."""
    path = directory / FILE_NAME
    database = ReplicaDatabase(path, bytes_max=META_STORAGE_BYTES_MAX)
    database.begin(LOG_ID, BEGINNING, Revision(1))
    copies: list[Path] = []

    def copy(_: object) -> None:
        copied = directory / f"copy-{len(copies)}"
        copied.mkdir()
        for name in (FILE_NAME, f"{FILE_NAME}-wal"):
            shutil.copy(directory / name, copied / name)
        copies.append(copied)

    database._connection.set_trace_callback(copy)
    for one, body in zip(ENTRIES, BODIES, strict=True):
        database.apply(one.position, [body])
    copy(None)
    database._connection.set_trace_callback(None)
    database.close()
    return copies


async def number_in(directory: Path) -> int:
    replica = await SqliteReplicaPlace(directory).open()
    assert replica is not None
    number = await check(replica)
    await replica.close()
    return number


async def test_a_kill_at_any_statement_leaves_the_replica_at_an_entry(tmp_path: Path) -> None:
    numbers = [await number_in(copy) for copy in copies_after_each_statement(tmp_path)]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(len(ENTRIES) + 1))


async def test_a_log_that_is_cut_or_garbled_leaves_the_replica_at_an_entry(tmp_path: Path) -> None:
    first, *_, last = copies_after_each_statement(tmp_path)
    wal = (last / f"{FILE_NAME}-wal").read_bytes()
    begun = (first / f"{FILE_NAME}-wal").stat().st_size  # without that there is no replica yet
    numbers: set[int] = set()
    for cut in range(begun, len(wal), 1031):
        for blob in (wal[:cut], wal[:cut] + bytes(7) + wal[cut + 7 :]):
            again = tmp_path / "again"
            again.mkdir()
            shutil.copy(last / FILE_NAME, again)
            (again / f"{FILE_NAME}-wal").write_bytes(blob)
            numbers.add(await number_in(again))
            shutil.rmtree(again)
    assert numbers == set(range(len(ENTRIES) + 1))


# ------------------------------------------------------------ damage


def garbled(blob: bytes, page: int) -> bytes:
    return blob[: page * 4096] + b"\xa5" * 4096 + blob[(page + 1) * 4096 :]


async def test_a_torn_or_garbled_file_is_built_anew(tmp_path: Path) -> None:
    await (await applied(tmp_path)).close()
    path, place = tmp_path / FILE_NAME, SqliteReplicaPlace(tmp_path)
    whole = path.read_bytes()
    pages = len(whole) // 4096
    assert pages > 4
    for damaged in (
        *(garbled(whole, page) for page in range(pages)),
        *(whole[: page * 4096 + 100] for page in range(pages)),
        *(whole[: page * 4096] for page in range(1, pages)),
        whole.replace(b"log-position", b"log-p0sition"),
    ):
        path.write_bytes(damaged)
        assert await place.open() is None
        again = await place.build(LOG_ID, None, nothing())
        assert (again.position, await rows(again)) == (BEGINNING, {})
        await again.close()


async def test_a_replica_with_one_wrong_bit_is_built_anew_or_refused_or_reads_the_same(tmp_path: Path) -> None:
    await (await applied(tmp_path)).close()
    path, place = tmp_path / FILE_NAME, SqliteReplicaPlace(tmp_path)
    whole = path.read_bytes()
    ends, kept = {"built anew": 0, "refused": 0, "the same": 0}, list[BadDirectory]()
    for at in (at for at, byte in enumerate(whole) if byte):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        try:
            replica = await place.open()
        except BadDirectory as error:
            ends["refused"] += 1  # it may be the file of a newer version, or of something else
            kept.append(error)
            continue
        if replica is None:
            ends["built anew"] += 1
            continue
        ends["the same"] += 1
        assert await check(replica) == len(ENTRIES), f"byte {at}"
        for key, value in ROWS_AT[3].items():
            found = await replica.get(key, Revision(6))
            assert found is not None
            assert found.value == value, f"byte {at}"
        await replica.close()
    assert ends["built anew"] > 2 * ends["the same"] > 0
    assert ends["refused"] > 0
    assert not [one for one in kept if "another program" in one.text], "they hold no lock"


async def test_a_replica_that_sqlite_would_only_read_is_refused(tmp_path: Path) -> None:
    await (await applied(tmp_path)).close()
    whole = (tmp_path / FILE_NAME).read_bytes()
    (tmp_path / FILE_NAME).write_bytes(whole[:18] + b"\x06" + whole[19:])
    with pytest.raises(BadDirectory, match="readonly database"):
        await SqliteReplicaPlace(tmp_path).open()


async def test_a_replica_whose_statements_have_a_wrong_bit_is_built_anew(tmp_path: Path) -> None:
    """SQLite would run them only later."""
    await (await applied(tmp_path)).close()
    path = tmp_path / FILE_NAME
    path.write_bytes(path.read_bytes().replace(b"count = count - 1", b"count = sount - 1"))
    assert b"sount" in path.read_bytes()
    assert await SqliteReplicaPlace(tmp_path).open() is None


async def test_an_empty_file_belongs_to_no_log(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).touch()
    replica = await SqliteReplicaPlace(tmp_path).open()
    assert replica is not None
    assert (replica.log_id, replica.position) == (BEGINNING.id, BEGINNING)
    await replica.close()


async def test_the_file_of_a_plain_meta_storage_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    storage = await SqliteMetaStorage.open(path)
    await storage.txn(Txn(then=(Change(b"a", b"1"),)))
    await storage.close()
    before = path.read_bytes()
    with pytest.raises(BadDirectory, match="is a meta storage of its own"):
        await SqliteReplicaPlace(tmp_path).open()
    assert path.read_bytes() == before
    await (await SqliteMetaStorage.open(path)).close()


async def test_a_replica_is_refused_as_a_plain_meta_storage(tmp_path: Path) -> None:
    await (await applied(tmp_path)).close()
    with pytest.raises(BadDirectory, match="is a replica of a shared"):
        await SqliteMetaStorage.open(tmp_path / FILE_NAME)
    assert await number_in(tmp_path) == len(ENTRIES)


# ------------------------------------------------------------ building


def checkpoint_at(position: LogPosition, minimum: int) -> LogCheckpoint:
    return LogCheckpoint(position=position, minimum=Revision(minimum), chunks=())


@pytest.mark.parametrize("minimum", [5, 6, 7])
async def test_a_replica_of_a_checkpoint_goes_on_like_the_one_it_was_taken_from(tmp_path: Path, minimum: int) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one = await applied(tmp_path / "one")
    chunks = await chunks_at(one, minimum)
    # The third entry ends at revision 6: a state at 5 lies within it.
    after = {5: 2, 6: 3, 7: 5}[minimum]
    two = await SqliteReplicaPlace(tmp_path / "two").build(
        LOG_ID, checkpoint_at(ENTRIES[after - 1].position, minimum), some(*chunks)
    )
    heard = two.watch(b"", b"\xff", Revision(minimum))
    for entry, body in list(zip(ENTRIES, BODIES, strict=True))[after:]:
        await two.apply(entry.position, [body])
    assert await rows(two) == await rows(one)
    assert two.position == one.position
    assert (await two.status()).minimum == minimum, "the compactions of later entries don't take it back"
    assert await chunks_at(two, 7) == await chunks_at(one, 7)
    assert [(await anext(heard)).revision for _ in range(minimum, 8)] == list(range(minimum, 8))
    await heard.aclose()
    await one.close()
    await two.close()
    again = await SqliteReplicaPlace(tmp_path / "two").open()
    assert again is not None
    assert (await again.draft([Txn(then=(Change(b"a", b"1"),))], Term(1))).results[0].revision == 8
    await again.close()


async def test_a_delete_at_mm_itself_is_in_the_checkpoint(tmp_path: Path) -> None:
    replica = await applied(tmp_path, ENTRIES[:2])
    (chunk,) = await chunks_at(replica, 3)
    assert [(one.key, one.value, one.modified) for one in chunk.rows] == [
        (b"key-0001", None, 3),
        (b"key-0002", b"v2", 2),
        (b"key-0003", b"3", 3),
    ]
    await replica.close()


async def test_a_state_below_mm_can_not_be_read(tmp_path: Path) -> None:
    replica = await applied(tmp_path)
    with pytest.raises(Compacted):
        await chunks_at(replica, 4)
    await replica.close()


async def test_a_build_that_ends_early_leaves_the_old_replica(tmp_path: Path) -> None:
    replica = await applied(tmp_path)
    chunks = await chunks_at(replica, 7)
    await replica.close()
    place = SqliteReplicaPlace(tmp_path)

    async def torn() -> AsyncIterator[CheckpointChunk]:
        for chunk in chunks:
            yield chunk
        raise Indefinite("no answer from the store")

    for _ in range(2):
        with pytest.raises(Indefinite):
            await place.build(LOG_ID, checkpoint_at(ENTRIES[-1].position, 7), torn())
        assert await number_in(tmp_path) == len(ENTRIES)


async def test_a_kill_during_a_build_leaves_the_old_replica(tmp_path: Path) -> None:
    place = SqliteReplicaPlace(tmp_path)
    await (await applied(tmp_path)).close()
    with closing(sqlite3.connect(tmp_path / f"{FILE_NAME}.new")) as left:
        left.execute("CREATE TABLE kv (whatever)")
    (tmp_path / f"{FILE_NAME}.new-wal").write_bytes(b"torn")
    assert await number_in(tmp_path) == len(ENTRIES)
    built = await place.build(LOG_ID, None, nothing())
    assert (built.position, await rows(built)) == (BEGINNING, {})
    await built.close()


async def test_a_built_replica_takes_nothing_from_the_log_of_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    old = await applied(tmp_path / "old")
    for name in (FILE_NAME, f"{FILE_NAME}-wal"):
        shutil.copy(tmp_path / "old" / name, tmp_path / name)
    await old.close()
    built = await SqliteReplicaPlace(tmp_path).build(LOG_ID, None, nothing())
    assert (built.position, await rows(built)) == (BEGINNING, {})
    await built.close()


async def test_a_replica_in_use_is_not_replaced(tmp_path: Path) -> None:
    replica = await applied(tmp_path)
    with pytest.raises(BadDirectory, match="in use by process"):
        await SqliteReplicaPlace(tmp_path).build(LOG_ID, None, nothing())
    await check(replica)
    await replica.close()
