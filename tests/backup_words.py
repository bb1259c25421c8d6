"""A small meta storage with a history, and a backup of it."""

import io
from typing import Final

from leasehold.coordinator.backups import Backups
from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS, first_records, read_catalog
from leasehold.core.recovery.backup import BackupReader, BackupWriter
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.lineage import next_lineage
from leasehold.core.words.messages import Message
from leasehold.core.words.operations import Change, Txn
from leasehold.core.words.records import AnyRecord, CheckpointRow, DatabaseRecord, NodeRecord, UseState
from leasehold.ids import ClusterId, Incarnation, LineageHash, NodeId, ObjectId
from leasehold.metastorage.contract import MetaStorage
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore

CLUSTER_ID: Final = ClusterId("c" * 32)
WALL_S: Final = 1_800_000_000


async def commit(storage: MetaStorage, *changes: Change) -> None:
    """One revision, as a leader writes it."""
    found = await storage.get(keys.LINEAGE)
    assert found is not None
    lineage = Change(keys.LINEAGE, next_lineage(LineageHash(found.value), changes))
    assert (await storage.txn(Txn(then=(*changes, lineage)))).succeeded


def database(number: int, name: str | None = None) -> Change:
    record = DatabaseRecord(id=ObjectId(number), name=name or f"d{number}", state=UseState.IN_USE)
    return Change(keys.database(ObjectId(number)), encode(record))


def node(number: int) -> Change:
    record: AnyRecord = NodeRecord(
        id=NodeId(number),
        name=f"node-{number}",
        address=f"127.0.0.1:{7000 + number}",
        token_hash=b"t" * 32,
        incarnation=Incarnation(3),
        nonce=None,
        session_hash=None,
        removed=False,
    )
    return Change(keys.node(NodeId(number)), encode(record))


async def begin(storage: MetaStorage, *, databases: int = 3) -> None:
    """A term, the first records, nodes, databases; the last revision changes one of them and drops another."""
    await storage.campaign("c1")
    await storage.txn(Txn(then=first_records(CLUSTER_ID, DEFAULT_SETTINGS)))
    await commit(storage, node(1), node(2))
    await commit(storage, *(database(number) for number in range(1, databases + 1)))
    await commit(storage, database(1, "renamed"))
    await commit(storage, database(1, "again"), Change(keys.database(ObjectId(2)), None))


async def messages_of(storage: MetaStorage) -> list[Message]:
    """A backup of the newest revision, as a coordinator sends it."""
    return [message async for message in Backups(storage, lambda: 0).serve(await read_catalog(storage))]


def file_of(messages: list[Message]) -> bytes:
    out = io.BytesIO()
    writer = BackupWriter(out.write)
    for message in messages:
        writer.take(message)
    writer.finish()
    return out.getvalue()


async def small_backup() -> bytes:
    """The bytes of a file."""
    storage = MemoryMetaStorage(MemoryStore())
    await begin(storage)
    return file_of(await messages_of(storage))


def rows_of(blob: bytes) -> list[CheckpointRow]:
    """All rows of a file. Raises what its reader raises."""
    return [row for rows in BackupReader(io.BytesIO(blob).read).rows() for row in rows]
