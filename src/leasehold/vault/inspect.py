"""Reads and checks a vault for people, while no node runs there, and changes nothing in its directory.

The lock is taken, not written. A file without a log beside it is opened as one that never changes. One with a log, as a
killed node leaves it, is copied with the log to a temporary directory first, since reading a log writes.
"""

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from leasehold.core.catalog.shelf import on_demand
from leasehold.core.words.digest import digest_bytes, item_digest
from leasehold.core.words.operations import Change
from leasehold.core.words.records import Allocated, Claiming
from leasehold.durable import NO_SPACE, no_room
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, Corrupt, Indefinite, LeaseholdError, NotFound
from leasehold.ids import ClusterId, Incarnation, LineageHash, NodeId, Revision
from leasehold.limits.vault import VAULT_FINDINGS_MAX
from leasehold.vault.causes import SQLITE_ERRORS, corrupt, explain, is_disk_full
from leasehold.vault.format import (
    FILE_NAME,
    check_structure,
    check_version,
    is_there,
    read_content,
    read_identity,
    stored_applied,
)
from leasehold.vault.lock import LOCK_NAME
from leasehold.vault.logfile import ends_early
from leasehold.vault.rows import read_each

_FAMILIES: Final = """
SELECT CAST(substr(key, 1, 2 + CASE instr(substr(key, 3), X'2F') WHEN 0 THEN length(key)
                                ELSE instr(substr(key, 3), X'2F') END) AS TEXT) AS family,
       count(*), sum(length(key) + length(value))
FROM projection GROUP BY 1 ORDER BY 1
"""
"""Keys up to the `/` after their first word; a key without one is a family by itself."""


class KeyFamily(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that begin alike."""

    prefix: str
    keys: int
    size_bytes: int
    """Of keys and values alone."""


class VaultSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a vault holds, without its secrets."""

    path: Path
    format_version: int
    size_bytes: int
    """Of the file and its log."""
    state: str
    """CLAIMING, ALLOCATED, JOINING, or NEW without an identity."""
    node: NodeId | None
    cluster_id: ClusterId | None
    incarnation: Incarnation | None
    """The newest known one; while JOINING, the one before."""
    token_sha256: str | None
    """The first 8 hex digits: enough to tell two nodes apart, too few to be one."""
    applied: Revision
    durable: Revision
    """As it was last noted: the applied revision at the last sync."""
    lineage: LineageHash
    coordinators: tuple[str, ...]
    families: tuple[KeyFamily, ...]


def inspect(directory: Path) -> VaultSummary:
    """Reads what a vault holds. Raises `NotFound` with code NO_VAULT, `BadDirectory` with code LOCKED while a process
    uses the directory, NEWER_VERSION for a vault of a newer program, NO_ACCESS and DISK for one that can't be read, and
    `Corrupt` for one that is damaged."""
    with _opened(directory) as (database, path):
        return _summary(database, path)


class VaultContent(msgspec.Struct, frozen=True, kw_only=True):
    """The projection of a vault; `items` are read, and verified, while it is open."""

    applied: Revision
    lineage: LineageHash
    items: Iterator[Change]


@contextmanager
def content(directory: Path) -> Generator[VaultContent]:
    """Opens the projection. Raises as `inspect`, and so do its items: `Corrupt` at their end at the latest."""
    with _opened(directory) as (database, path):
        check_structure(database, path, "integrity_check")
        applied, _durable = stored_applied(database, path)
        read_identity(database, path, applied)
        items = read_each(database, path, applied)
        yield VaultContent(applied=applied.revision, lineage=applied.lineage, items=items)


class CheckedVault(msgspec.Struct, frozen=True, kw_only=True):
    """What a check of a vault has found."""

    findings: tuple[str, ...]
    """All damage, up to VAULT_FINDINGS_MAX; empty for a sound vault."""
    revision: Revision | None
    """The applied revision. Newer ones were never here, or are lost without a trace."""
    log: str | None = None
    """The part of the log that is not read, after a crash or because of damage."""


def examine(directory: Path) -> CheckedVault:
    """Checks every item against its checksum. Raises as `inspect`, but damage is a finding."""
    try:
        with _opened(directory) as (database, path):
            findings: list[str] = []
            revisions: list[Revision] = []
            checks: tuple[Callable[[], object], ...] = (
                lambda: findings.extend(_structure(database)),
                lambda: read_identity(database, path, stored_applied(database, path)[0]),
                lambda: _coordinators(database, path),
                lambda: findings.extend(_items(database, path, revisions.append)),
            )
            for check in checks:
                try:
                    with _explained(path):
                        check()
                except Corrupt as error:
                    findings.append(error.text)
            log = path.with_name(f"{FILE_NAME}-wal")
            early = ends_early(database, log) if _has_log(path) else None
            return CheckedVault(
                findings=tuple(dict.fromkeys(findings))[:VAULT_FINDINGS_MAX],
                revision=revisions[0] if revisions else None,
                log=None if early is None else f"{log} ends early: {early}",
            )
    except Corrupt as error:
        return CheckedVault(findings=(error.text,), revision=None)


# ------------------------------------------------------------ opening


@contextmanager
def _opened(directory: Path) -> Generator[tuple[sqlite3.Connection, Path], None, None]:
    path = directory / FILE_NAME
    log = directory / f"{FILE_NAME}-wal"
    with _locked(directory):
        if not is_there(path):
            raise NotFound(
                f"there is no vault in {directory}", code=ErrorCode.NO_VAULT, hint="name the directory of a node"
            )
        with _explained(path), TemporaryDirectory(prefix="leasehold-vault-") as scratch:
            if _has_log(path):
                for one in (path, log):
                    shutil.copyfile(one, Path(scratch) / one.name)
                address = f"{(Path(scratch) / FILE_NAME).as_uri()}?mode=rw"
            else:
                address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
            with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as database:
                check_version(database, path)
                yield database, path


def _has_log(path: Path) -> bool:
    # A log of no bytes holds nothing; SQLite would still want to write beside it.
    log = path.with_name(f"{FILE_NAME}-wal")
    return log.exists() and log.stat().st_size > 0


@contextmanager
def _locked(directory: Path) -> Generator[None, None, None]:
    """No node starts meanwhile. The lock's file is neither made nor written."""
    try:
        file = os.open(directory / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        yield  # no process has ever used it, or it is a copy
        return
    except OSError as error:
        raise BadDirectory(
            f"can't use the directory {directory}: {error.strerror}",
            code=ErrorCode.NO_ACCESS,
            hint="check its owner and mode",
        ) from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BadDirectory(
                f"the directory {directory} is in use by another process",
                code=ErrorCode.LOCKED,
                hint="stop the node that runs there first; `leasehold status` shows a running node",
            ) from error
        yield
    finally:
        os.close(file)


@contextmanager
def _explained(path: Path) -> Generator[None]:
    """Errors of SQLite, msgspec and the file system as ours."""
    try:
        yield
    except msgspec.MsgspecError as error:
        raise corrupt(path, str(error)) from error
    except (*SQLITE_ERRORS, OSError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: sqlite3.DatabaseError | UnicodeDecodeError | OSError) -> LeaseholdError:
    if is_disk_full(error) or (isinstance(error, OSError) and error.errno in NO_SPACE):
        return no_room(f"the vault {path}")
    found = explain(path, error)
    # Nothing is written here, so nothing is undecided.
    return BadDirectory(found.text, code=found.code, hint=found.hint) if isinstance(found, Indefinite) else found


# ------------------------------------------------------------ reading


def _summary(database: sqlite3.Connection, path: Path) -> VaultSummary:
    version = check_version(database, path)
    applied, durable = stored_applied(database, path)
    record = read_identity(database, path, applied)
    owner = None if record is None or isinstance(record, Claiming) else record
    files = [one for one in (path, path.with_name(f"{FILE_NAME}-wal")) if one.exists()]
    return VaultSummary(
        path=path,
        format_version=version,
        size_bytes=sum(one.stat().st_size for one in files),
        state="NEW" if record is None else type(record).__name__.upper(),
        node=None if owner is None else owner.node,
        cluster_id=None if owner is None else owner.cluster_id,
        incarnation=owner.incarnation if isinstance(owner, Allocated) else None if owner is None else owner.previous,
        token_sha256=None if record is None else sha256(record.token.encode()).hexdigest()[:8],
        applied=applied.revision,
        durable=durable,
        lineage=applied.lineage,
        coordinators=_coordinators(database, path),
        families=tuple(
            KeyFamily(prefix=prefix, keys=count, size_bytes=size_bytes)
            for prefix, count, size_bytes in database.execute(_FAMILIES)
        ),
    )


def _coordinators(database: sqlite3.Connection, path: Path) -> tuple[str, ...]:
    content = read_content(database, path, "coordinators")
    return msgspec.msgpack.decode(content, type=tuple[str, ...]) if content else ()


def _structure(database: sqlite3.Connection) -> list[str]:
    found = database.execute(f"PRAGMA integrity_check({VAULT_FINDINGS_MAX})").fetchall()
    return [f"the file: {text}" for (text,) in found if text != "ok"]


def _items(database: sqlite3.Connection, path: Path, on_revision: Callable[[Revision], None]) -> list[str]:
    """Each row against its hash, all of them against the digests."""
    applied, _durable = stored_applied(database, path)
    on_revision(applied.revision)
    findings: list[str] = []
    whole = eager = 0
    for key, value, hashed in database.execute("SELECT key, value, hash FROM projection"):
        if not isinstance(key, bytes) or not isinstance(value, bytes):
            findings.append(f"an item of the projection can't be read: {str(key)[:80]!r}")
            continue
        counted = item_digest(key, value)
        if hashed != digest_bytes(counted):
            findings.append(f"the item {key!r} does not match its checksum")
        whole ^= counted
        eager ^= 0 if on_demand(key) else counted
        if len(findings) >= VAULT_FINDINGS_MAX:
            return findings
    if not findings and (whole, eager) != (applied.digest, applied.eager):
        findings.append("the projection does not match its checksum: items are lost, or not of this revision")
    return findings
