"""What a cluster can be recovered from: backups, and directories of coordinators and of nodes that do not run.

Each is read as it is, and never changed. It becomes the file of a backup, in a temporary folder. So one reader checks
all of them and knows how far each one goes, and `restore` writes the newest.

| place | what its backup lacks |
| --- | --- |
| a backup | nothing |
| a coordinator's own meta storage | nothing |
| a coordinator's replica of a log | the leader record, which only the log has |
| a node's vault | the leader record, and the revisions of keys. Each key gets the revision of the whole |

Without the leader record the next term is above all that can have been given out (`core.membership.generations`).
Without their revisions the keys do not say what their last revision has changed, so it can't be replayed: the restored
history begins one revision later, with the new generation. A node at the last revision replays from there, since the
cluster record has the hash of what it must hold. A node before it takes a snapshot.
"""

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from leasehold.coordinator.backups import Backups, pages_of
from leasehold.coordinator.generation import check_history
from leasehold.coordinator.restore import read_backup
from leasehold.coordinator.stored_catalog import read_catalog
from leasehold.core.membership.generations import unknown_leader
from leasehold.core.recovery.backup import BackupFacts, BackupWriter
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record, encode
from leasehold.core.words.digest import digest_bytes, item_digest
from leasehold.core.words.messages import BackupPage, SnapshotBegin, SnapshotEnd
from leasehold.core.words.records import CheckpointRow, ClusterRecord
from leasehold.durable import NO_SPACE, no_room
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, NotFound, NotInitialised
from leasehold.limits.metastorage import RANGE_PAGE_MAX
from leasehold.metastorage.copied import opened_copy
from leasehold.metastorage.sqlite import FILE_NAME
from leasehold.vault.format import FILE_NAME as VAULT_FILE_NAME
from leasehold.vault.inspect import VaultContent, content

_PASSED_OVER: Final = frozenset(
    {ErrorCode.CORRUPT, ErrorCode.COMPACTED, ErrorCode.NOT_A_BACKUP, ErrorCode.NOT_INITIALISED}
)
"""Errors that say that a place holds no whole state; COMPACTED if its oldest revision is above its newest. Any other
one has to be mended first: what is in use, of a newer version or unreadable may be the newest."""


class SourceKind(StrEnum):
    """What a place is."""

    BACKUP = "BACKUP"
    COORDINATOR = "COORDINATOR"
    NODE = "NODE"


class RecoverySource(msgspec.Struct, frozen=True):
    """A file, or a directory, to recover from."""

    path: Path
    kind: SourceKind


class ExaminedSource(msgspec.Struct, frozen=True, kw_only=True):
    """A place, how far it goes, and the file of a backup with all that it holds; or why it is not whole."""

    source: RecoverySource
    facts: BackupFacts | None = None
    file: Path | None = None
    problem: str | None = None


def sources_at(path: Path) -> list[RecoverySource]:
    """What a path names: one place, or all places in the directory of a whole cluster. Raises `NotFound`."""
    if path.is_file():
        return [RecoverySource(path, SourceKind.BACKUP)]
    inside = sorted(path.iterdir()) if path.is_dir() else []
    found = [source for one in (path, *inside) for source in _directory(one)]
    if not found:
        raise NotFound(
            f"there is nothing in {path} to recover from",
            code=ErrorCode.NO_META_STORAGE,
            hint="name the file of a backup, or the directory of a coordinator, of a node or of a whole cluster",
        )
    return found


def _directory(path: Path) -> Iterator[RecoverySource]:
    for name, kind in ((FILE_NAME, SourceKind.COORDINATOR), (VAULT_FILE_NAME, SourceKind.NODE)):
        # A link to a disk that is not mounted counts: what is there may be the newest.
        if os.path.lexists(path / name) or (path / f"{name}-wal").exists():
            yield RecoverySource(path, kind)


async def examine(source: RecoverySource, file: Path) -> ExaminedSource:
    """Reads and checks all of it; `file` takes its backup if it is not one. Raises `BadDirectory`, code LOCKED while
    a process uses it, NEWER_VERSION, NO_ACCESS or DISK, and `Refused`."""
    saved = source.path if source.kind is SourceKind.BACKUP else file
    try:
        match source.kind:
            case SourceKind.BACKUP:
                pass
            case SourceKind.COORDINATOR:
                await _save_coordinator(source.path, file)
            case SourceKind.NODE:
                with content(source.path) as vault, _writer(file, source.path) as writer:
                    _save_vault(vault, writer)
        _catalog, facts, _size_bytes = read_backup(saved)
    except LeaseholdError as error:
        if error.code not in _PASSED_OVER:
            raise
        return ExaminedSource(source=source, problem=error.text)
    return ExaminedSource(source=source, facts=facts, file=saved)


@contextmanager
def _writer(file: Path, source: Path) -> Generator[BackupWriter]:
    try:
        with file.open("xb") as opened:
            writer = BackupWriter(opened.write)
            yield writer
            writer.finish()
    except OSError as error:
        if error.errno in NO_SPACE:
            raise no_room(source) from error
        raise


async def _save_coordinator(directory: Path, file: Path) -> None:
    async with opened_copy(directory) as storage:
        await check_history(storage)
        catalog = await read_catalog(storage)
        if catalog.cluster is None:
            raise _no_cluster()
        with _writer(file, directory) as writer:
            async for message in Backups(storage, _at_no_time).serve(catalog):
                writer.take(message)


def _at_no_time() -> int:
    return 0


def _save_vault(vault: VaultContent, writer: BackupWriter) -> None:
    revision, cluster = vault.applied, None
    count, digest = 0, 0
    writer.take(SnapshotBegin(revision=revision, keys=0))
    while items := list(islice(vault.items, RANGE_PAGE_MAX)):
        for item in items:
            assert item.value is not None, "a projection has no deletes"
            count += 1
            digest ^= item_digest(item.key, item.value)
            if item.key == keys.CLUSTER:
                cluster = decode_record(ClusterRecord, item.value)
        for page in pages_of(CheckpointRow(item.key, item.value, revision, revision, 1) for item in items):
            writer.take(page)
    if cluster is None:
        raise _no_cluster()
    leader = CheckpointRow(keys.LEADER, encode(unknown_leader(cluster)), revision, revision, 1)
    writer.take(BackupPage(rows=(leader,)))
    writer.take(SnapshotEnd(revision=revision, lineage=vault.lineage, keys=count, digest=digest_bytes(digest)))


def _no_cluster() -> NotInitialised:
    return NotInitialised("it holds nothing of a cluster yet", hint="name another directory")
