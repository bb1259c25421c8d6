"""Restores a meta storage from the file of a backup, into an empty place.

The file is read twice: once to check all of it and what it means, then to write it. What is lost since the backup may
have been seen by nodes and clients. So the restored state begins the next generation, with its first revision
(`core.membership.generations`), unless a person knows that nothing is lost. In both cases the terms jump.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from leasehold.coordinator.generation import BegunGeneration, next_generation
from leasehold.coordinator.stored_catalog import check_format
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.membership.generations import check_clock, restored_leader
from leasehold.core.recovery.backup import BackupFacts, BackupReader, damaged, is_watched
from leasehold.core.words.lineage import GENESIS
from leasehold.core.words.operations import Change
from leasehold.core.words.records import CheckpointRow
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import Revision
from leasehold.metastorage.restore_target import RestoredState, RestoreTarget


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What was restored; `begun` is the generation that it begins, None if it goes on in its own."""

    facts: BackupFacts
    begun: BegunGeneration | None


async def restore(
    file: Path,
    target: RestoreTarget,
    *,
    wall_s: int,
    longest_lease_ns: int | None,
    is_replayable: bool = True,
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> Restored:
    """Checks the file and the target, then writes. `longest_lease_ns` is as in `begin_generation`; None goes on in the
    generation of the backup. `on_progress` gets the number of keys that are written, and of all.

    If the file is not replayable, it does not say what its revision has changed. Then the history begins with the first
    revision of the new generation, so that no node replays the one before.

    Raises `Refused` with code NOT_A_BACKUP, NO_ACCESS or CLOCK_SET_BACK, `Corrupt`, and as `RestoreTarget`.
    """
    catalog, facts, size_bytes = read_backup(file)
    check_clock(facts.cluster, wall_s)
    begun, changes = None, ()
    if longest_lease_ns is not None:
        begun, changes = next_generation(catalog, wall_s=wall_s, longest_lease_ns=longest_lease_ns)
    assert is_replayable or begun is not None
    after = facts.cluster if begun is None else begun.cluster
    first = () if is_replayable else changes
    """The changes of the new generation, if its first revision is the one that is restored."""
    revision = Revision(facts.end.revision + bool(first))
    state = RestoredState(
        revision=revision,
        size_bytes=size_bytes,
        leader=restored_leader(facts.leader, facts.cluster, after, wall_s),
        changes=changes if is_replayable else (),
    )
    await target.check(state.size_bytes)
    with _opened(file) as read:
        reader = BackupReader(read)
        pages = _pages(reader, facts, on_progress)
        await target.write(state, _changed(pages, first, revision) if first else pages)
    return Restored(facts=facts, begun=begun)


def read_backup(file: Path) -> tuple[Catalog, BackupFacts, int]:
    """What a whole file holds, and its size in bytes. Raises `Refused` with code NOT_A_BACKUP or NO_ACCESS, and
    `Corrupt`."""
    with _opened(file) as read:
        reader = BackupReader(read)
        return _catalog(reader), reader.check.facts(), reader.size_bytes


def _changed(
    pages: Iterator[tuple[CheckpointRow, ...]], changes: tuple[Change, ...], revision: Revision
) -> Iterator[tuple[CheckpointRow, ...]]:
    """The rows as these changes, of keys that are there, leave them at `revision`."""
    values = {change.key: change.value for change in changes}
    for rows in pages:
        yield tuple(
            CheckpointRow(row.key, values.pop(row.key), row.created, revision, row.version + 1)
            if row.key in values
            else row
            for row in rows
        )
    assert not values, "a generation begins with new values of records that every cluster has"


def _catalog(reader: BackupReader) -> Catalog:
    """The catalog in a backup: each record is read, so damage is found while another backup can be taken."""
    items = (
        Change(row.key, row.value)
        for rows in reader.rows()
        for row in rows
        if row.value is not None and is_watched(row.key)
    )
    catalog = Catalog.restored(Revision(0), GENESIS, items)
    end = reader.check.facts().end
    catalog = msgspec.structs.replace(catalog, revision=end.revision, lineage=end.lineage)
    check_format(catalog)
    if catalog.counters is None or catalog.settings is None or catalog.largest_lease is None:
        raise damaged("it lacks records that every cluster has")
    return catalog


def _pages(
    reader: BackupReader, facts: BackupFacts, on_progress: Callable[[int, int], None]
) -> Iterator[tuple[CheckpointRow, ...]]:
    """The rows of the watched range, of a file that was read before."""
    for rows in reader.rows():
        watched = tuple(row for row in rows if is_watched(row.key))
        if watched:
            yield watched
            on_progress(reader.check.keys, facts.end.keys)
    if reader.check.facts() != facts:
        raise damaged("it was replaced while it was read")


@contextmanager
def _opened(file: Path) -> Generator[Callable[[int], bytes]]:
    """Reads a regular file. Raises `Refused` with code NOT_A_BACKUP or NO_ACCESS."""
    try:
        if not file.is_file():
            what = "does not exist" if not file.exists() else "is not a file"
            raise Refused(f"{file} {what}", code=ErrorCode.NOT_A_BACKUP, hint="name a file of `leasehold backup`")
        opened = file.open("rb")
    except OSError as error:
        raise _unreadable(file, error) from error
    with opened:
        yield partial(_read, opened.read, file)


def _read(read: Callable[[int], bytes], file: Path, size: int) -> bytes:
    try:
        return read(size)
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: OSError) -> Refused:
    hint = "check its owner and mode, and the disk"
    return Refused(f"{file} can't be read: {error.strerror}", code=ErrorCode.NO_ACCESS, hint=hint)
