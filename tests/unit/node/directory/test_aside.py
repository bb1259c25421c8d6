"""What a directory held before its vault begins anew: all of it is kept, and nothing is lost if that is cut off."""

import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.messages import ClusterFacts, Message, NewestIncarnation, WhoAreYou
from leasehold.core.words.operations import RevisionChanges, StoredProjection
from leasehold.core.words.records import Allocated, ClusterRecord, IdentityRecord
from leasehold.errors import BadDirectory, Refused
from leasehold.ids import ClusterId, Generation, Incarnation, LineageHash, NodeId, Revision, Term, Token
from leasehold.limits.node_disk import RESETS_MAX
from leasehold.node.directory.adoption import Adopted, adopt_directory
from leasehold.node.directory.aside import SCRATCH, set_aside
from leasehold.node.directory.standalone import Standalone
from leasehold.vault.lock import LOCK_NAME
from leasehold.vault.store import SqliteVault
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy

CLUSTER = ClusterId("c" * 32)
OWN = Allocated(token=Token("a" * 32), node=NodeId(7), cluster_id=CLUSTER, incarnation=Incarnation(3))
NEWEST = NewestIncarnation(incarnation=Incarnation(9), name="n7")
RECOVERED = ClusterFacts(cluster_id=CLUSTER, generation=Generation(5), term=Term(1), leader=True)
FOLLOWED = RevisionChanges(
    Revision(4),
    (put(keys.CLUSTER, ClusterRecord(cluster_id=CLUSTER, generation=Generation(1), format_version=1)),),
)
NAME = f"{'1' * 32}-{'2' * 32}.parquet"
ROWS = (Path("segments", "2", "0", NAME), Path("trash", f"2-1-{NAME}"), Path("trash", "3.0", "0", NAME))


class Crash(BaseException):
    """The process ends here."""


@pytest.fixture
async def directory(tmp_path: Path) -> Path:
    """A node's directory as a killed process leaves it: the vault still has its log."""
    running, killed = tmp_path / "running", tmp_path / "node-7"
    vault = await SqliteVault.open(running)
    await vault.write_identity(OWN)
    await vault.apply((FOLLOWED,), LineageHash(b"h" * 32))
    for path in (*ROWS, Path("servelog", "serve-0000000001.log")):
        (running / path).parent.mkdir(parents=True, exist_ok=True)
        (running / path).write_bytes(str(path).encode())
    (running / "staging").mkdir()
    shutil.copytree(running, killed)
    await vault.close()
    assert (killed / "vault.db-wal").stat().st_size > 0
    return killed


@pytest.fixture
async def vault(directory: Path) -> AsyncIterator[SqliteVault]:
    """It is open while things are set aside."""
    vault = await SqliteVault.open(directory)
    yield vault
    await vault.close()


async def held(directory: Path) -> tuple[IdentityRecord | None, StoredProjection]:
    vault = await SqliteVault.open(directory)
    try:
        return await vault.identity(), await vault.projection()
    finally:
        await vault.close()


def files(directory: Path) -> dict[str, tuple[int, bytes]]:
    """What lies there apart from what was set aside: of each file the inode and the bytes."""
    paths = (path.relative_to(directory) for path in directory.rglob("*") if path.is_file())
    return {
        str(path): ((directory / path).stat().st_ino, (directory / path).read_bytes())
        for path in paths
        if not path.parts[0].startswith("before-adopt")
    }


def names(path: Path) -> set[str]:
    return {one.name for one in path.iterdir()}


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def set_asides(directory: Path) -> list[Path]:
    return sorted(directory.glob("before-adopt*"))


async def whole(kept: Path) -> None:
    """All of the rows, and what tells whose they are."""
    for path in ROWS:
        assert (kept / path).read_bytes() == str(path).encode()
    assert names(kept) - {LOCK_NAME} == {"segments", "trash", "vault.db"}
    assert mode(kept) == 0o700
    assert mode(kept / "vault.db") == 0o600
    record, projection = await held(kept)
    assert (record, projection.applied) == (OWN, FOLLOWED.revision)
    assert [one.key for one in projection.items] == [keys.CLUSTER]


async def test_all_rows_are_kept_without_taking_space(directory: Path, vault: SqliteVault) -> None:
    before = files(directory)
    kept = set_aside(directory)
    assert kept == directory / "before-adopt-1"
    assert files(directory) == before
    assert all((kept / path).samefile(directory / path) for path in ROWS)
    assert await vault.identity() == OWN, "the vault is open yet"
    (directory / ROWS[0]).unlink()
    await whole(kept)
    assert set_aside(directory) == directory / "before-adopt-2"


async def test_standalone_mode_works_in_what_was_set_aside(directory: Path, vault: SqliteVault) -> None:
    kept = set_aside(directory)
    standalone = await Standalone.open(kept)
    assert standalone.node == OWN.node
    assert standalone.summary().superfluous.count == 1
    await standalone.close()


def crashes_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on the `step`th change to the disk, or wait for it, is not made: the process ends instead."""
    left = [step]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise Crash
            return real(*arguments, **named)

        return call

    for name in ("rename", "mkdir", "link", "fsync", "rmdir", "unlink"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))


@pytest.mark.parametrize("left_over", [False, True])
async def test_cut_off_anywhere_it_has_changed_nothing_and_is_done_by_the_next(
    directory: Path, vault: SqliteVault, monkeypatch: pytest.MonkeyPatch, left_over: bool
) -> None:
    before, steps = files(directory), 0
    while True:
        steps += 1
        if left_over:
            (directory / SCRATCH / "segments").mkdir(parents=True)
            (directory / SCRATCH / "vault.db").write_bytes(b"half")
        with monkeypatch.context() as patch:
            crashes_at(steps, patch)
            try:
                set_aside(directory)
            except Crash:
                pass
            else:
                break
        assert files(directory) == before
        for kept in set_asides(directory):
            if kept.name != SCRATCH:
                await whole(kept)
                shutil.rmtree(kept)
        await whole(set_aside(directory))
        assert set_asides(directory) == [directory / "before-adopt-1"], "nothing half-filled is left"
        assert files(directory) == before
        shutil.rmtree(directory / "before-adopt-1")
    await whole(directory / "before-adopt-1")
    assert steps > 18 + 4 * left_over, "seven folders, three links, the vault, the rename, and their syncs"


async def test_a_directory_without_segments_keeps_its_vault(directory: Path, vault: SqliteVault) -> None:
    for name in ("segments", "trash"):
        shutil.rmtree(directory / name)
    assert names(set_aside(directory)) == {"vault.db"}


async def test_so_many_folders_are_kept_and_no_more(directory: Path, vault: SqliteVault) -> None:
    for number in range(1, RESETS_MAX):
        (directory / f"before-adopt-{number}").mkdir()
    set_aside(directory)
    with pytest.raises(Refused) as caught:
        set_aside(directory)
    assert (caught.value.code, "before-adopt-*" in caught.value.hint) == ("TOO_MANY_RESETS", True)


async def test_where_the_vault_can_not_be_copied_it_is_told_and_nothing_changes(
    directory: Path, vault: SqliteVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(sqlite3.Connection):
        def backup(self, target: sqlite3.Connection, **_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

    def connect(path: str | Path, **options: Any) -> sqlite3.Connection:
        return Full(path, **options)

    before = files(directory)
    with monkeypatch.context() as patch:
        patch.setattr("leasehold.vault.copy.sqlite3.connect", connect)
        with pytest.raises(BadDirectory) as caught:
            set_aside(directory)
    assert "disk is full" in caught.value.text
    assert caught.value.hint
    assert files(directory) == before
    await whole(set_aside(directory))


class Coordinator:
    """Of a cluster that was recovered from an older state. Implements `Transport` and `Connection`."""

    checks_peers = False
    certificate_ends_s = None

    def connect(self, address: str) -> "Coordinator":
        assert address
        return self

    async def call(self, request: Message, *, timeout_ns: int) -> Message:
        assert timeout_ns > 0
        return RECOVERED if isinstance(request, WhoAreYou) else NEWEST

    async def close(self) -> None:
        pass


async def adopt(directory: Path) -> Adopted:
    return await adopt_directory(
        directory,
        ("c1:1",),
        transport=Coordinator(),  # type: ignore[arg-type]
        clock=BoottimeClock(),
        entropy=SystemEntropy(),
        on_wait=lambda _: None,
    )


async def test_an_adopted_directory_has_forgotten_what_is_kept(directory: Path) -> None:
    adopted = await adopt(directory)
    assert adopted.kept == directory / "before-adopt-1"
    record, projection = await held(directory)
    assert isinstance(record, Allocated)
    assert (record.incarnation, record.unverified, projection.applied) == (NEWEST.incarnation, True, 0)
    await whole(adopted.kept)
    again = await adopt(directory)
    assert (again.changed, again.kept) == (False, None)


async def test_where_no_link_can_be_made_nothing_is_adopted(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(source: str, *_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted", source)

    held_before = await held(directory)
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", no_links)
        with pytest.raises(BadDirectory) as caught:
            await adopt(directory)
    assert (caught.value.code, str(ROWS[0]) in caught.value.text) == ("NOT_SET_ASIDE", True)
    assert await held(directory) == held_before
    assert [path.name for path in set_asides(directory)] == [SCRATCH]
    adopted = await adopt(directory)
    assert adopted.kept is not None
    await whole(adopted.kept)
    assert not (directory / SCRATCH).exists()
