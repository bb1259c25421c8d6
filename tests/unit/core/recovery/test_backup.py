"""The file of a backup: its bytes, and that nothing is taken for one that is not whole."""

import hashlib
import io
from pathlib import Path

import msgspec
import pytest

from leasehold.core.recovery.backup import FIRST_LINE, BackupCheck, BackupReader, BackupWriter
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import BackupPage, Message, SnapshotBegin, SnapshotEnd, WhoAreYou
from leasehold.core.words.records import CheckpointRow
from leasehold.errors import Corrupt, LeaseholdError
from leasehold.ids import Revision
from leasehold.limits.messages import KEY_BYTES_MAX, MESSAGE_BYTES_MAX, VALUE_BYTES_MAX
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from tests.backup_words import CLUSTER_ID, begin, file_of, messages_of, rows_of, small_backup

GOLDEN = Path(__file__).parents[3] / "golden" / "backup-1.hex"
"""Written once by `small_backup`. These bytes stay readable, so the file is never edited."""


async def told() -> tuple[SnapshotBegin, BackupPage, BackupPage, SnapshotEnd]:
    storage = MemoryMetaStorage(MemoryStore())
    await begin(storage)
    first, page, leader, end = await messages_of(storage)
    assert isinstance(first, SnapshotBegin)
    assert isinstance(page, BackupPage)
    assert isinstance(leader, BackupPage)
    assert isinstance(end, SnapshotEnd)
    return first, page, leader, end


def test_its_bytes_stay_as_they_are() -> None:
    golden = bytes.fromhex(GOLDEN.read_text())
    reader = BackupReader(io.BytesIO(golden).read)
    pages = list(reader.rows())
    facts = reader.check.facts()
    assert reader.check.begun is not None
    assert file_of([reader.check.begun, *(BackupPage(rows=rows) for rows in pages), facts.end]) == golden
    assert (facts.cluster.cluster_id, facts.cluster.generation, facts.leader.term) == (CLUSTER_ID, 1, 1)
    assert facts.end.keys == sum(row.value is not None for rows in pages for row in rows) - 1
    assert reader.size_bytes == len(golden)
    names = [row.key for rows in pages for row in rows]
    assert names == sorted(names)
    assert names[-1] == keys.LEADER


async def test_every_flipped_bit_is_noticed() -> None:
    whole = await small_backup()
    for at in range(len(whole)):
        for bit in range(8):
            altered = bytearray(whole)
            altered[at] ^= 1 << bit
            with pytest.raises(LeaseholdError) as raised:
                rows_of(bytes(altered))
            assert raised.value.code in {"CORRUPT", "NOT_A_BACKUP", "NEWER_VERSION"}, (at, bit)
            assert (raised.value.code == "CORRUPT") is (at >= len(FIRST_LINE)), (at, bit)


async def test_a_cut_at_every_length_is_noticed() -> None:
    whole = await small_backup()
    for size in range(len(whole)):
        with pytest.raises(LeaseholdError) as raised:
            rows_of(whole[:size])
        assert raised.value.code == ("NOT_A_BACKUP" if size < len(FIRST_LINE) else "CORRUPT")
    with pytest.raises(Corrupt, match="something follows its end"):
        rows_of(whole + b"\x00")


@pytest.mark.parametrize(
    ("blob", "code"),
    [
        (b"", "NOT_A_BACKUP"),
        (b"SQLite format 3\x00" * 10, "NOT_A_BACKUP"),
        (b"leasehold backup \n", "NOT_A_BACKUP"),
        (b"leasehold backup 0\n", "NOT_A_BACKUP"),
        (b"leasehold backup 2\nsomething else", "NEWER_VERSION"),
        (b"leasehold backup 12\nsomething else", "NEWER_VERSION"),
        (FIRST_LINE, "CORRUPT"),
        (FIRST_LINE + (MESSAGE_BYTES_MAX + 1).to_bytes(4) + b"\x00" * 100, "CORRUPT"),
        (FIRST_LINE + b"\xff" * 100, "CORRUPT"),
        (FIRST_LINE + (3).to_bytes(4) + b"\xc1\xc1\xc1", "CORRUPT"),
    ],
)
def test_other_files_are_told_apart(blob: bytes, code: str) -> None:
    with pytest.raises(LeaseholdError) as raised:
        rows_of(blob)
    assert raised.value.code == code


async def test_messages_out_of_their_order_are_refused() -> None:
    first, page, leader, end = await told()
    wrong: list[list[Message]] = [
        [page],
        [end],
        [first, first],
        [first, page, page],
        [first, leader, page],
        [first, WhoAreYou()],
        [first, page, leader, end, end],
        [first, page, leader, end, page],
        [first, end],
        [first, leader, end],
    ]
    for messages in wrong:
        check = BackupCheck()
        for message in messages[:-1]:
            check.take(message)
        with pytest.raises(Corrupt):
            check.take(messages[-1])
    for messages in ([first, page, end], [first, page, leader]):
        with pytest.raises(Corrupt):
            file_of(messages)
    assert file_of([first, page, leader, end])


async def test_the_end_has_to_fit_the_rows() -> None:
    first, page, leader, end = await told()
    changed = msgspec.structs.replace
    for wrong in (
        changed(end, revision=Revision(end.revision + 1)),
        changed(end, keys=end.keys + 1),
        changed(end, digest=hashlib.sha256().digest()),
        changed(end, lineage=b"\x00" * 32),
    ):
        with pytest.raises(Corrupt):
            file_of([first, page, leader, wrong])
    without = changed(page, rows=tuple(row for row in page.rows if row.key != keys.LINEAGE))
    with pytest.raises(Corrupt, match="not of one revision"):
        file_of([first, without, leader, end])


async def test_rows_that_no_meta_storage_has_are_refused() -> None:
    first, _, _, end = await told()
    at = end.revision
    for row in (
        CheckpointRow(b"", b"v", Revision(1), Revision(1), 1),
        CheckpointRow(b"c/" + b"k" * KEY_BYTES_MAX, b"v", Revision(1), Revision(1), 1),
        CheckpointRow(b"c/k", b"v" * (VALUE_BYTES_MAX + 1), Revision(1), Revision(1), 1),
        CheckpointRow(b"c/k", b"v", Revision(0), Revision(1), 1),
        CheckpointRow(b"c/k", b"v", Revision(2), Revision(1), 1),
        CheckpointRow(b"c/k", b"v", Revision(1), Revision(at + 1), 1),
        CheckpointRow(b"c/k", b"v", Revision(1), Revision(1), 0),
        CheckpointRow(b"c/k", None, Revision(0), Revision(at - 1), 0),
        CheckpointRow(b"c/k", None, Revision(1), at, 1),
        CheckpointRow(keys.LEADER, None, Revision(0), at, 0),
        CheckpointRow(keys.LEADER, b"no record", Revision(1), Revision(1), 1),
        CheckpointRow(keys.CLUSTER, b"no record", Revision(1), Revision(1), 1),
        CheckpointRow(b"d/k", b"v", Revision(1), Revision(1), 1),
    ):
        check = BackupCheck()
        check.take(first)
        with pytest.raises(Corrupt):
            check.take(BackupPage(rows=(row,)))


async def test_a_backup_without_a_cluster_is_none() -> None:
    first, page, leader, end = await told()
    writer = BackupWriter(io.BytesIO().write)
    rest = tuple(row for row in page.rows if row.key != keys.CLUSTER)
    for message in (first, msgspec.structs.replace(page, rows=rest), leader):
        writer.take(message)
    with pytest.raises(Corrupt):
        writer.take(end)
    with pytest.raises(Corrupt):
        writer.finish()


def test_nothing_larger_than_a_message_is_asked_for() -> None:
    asked: list[int] = []

    def read(size: int) -> bytes:
        asked.append(size)
        return FIRST_LINE if size == len(FIRST_LINE) else b"\xff" * size

    with pytest.raises(Corrupt, match="too large"):
        list(BackupReader(read).rows())
    assert max(asked) < 100
    assert encode(BackupPage(rows=()))
