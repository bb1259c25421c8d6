"""Resetting a node's directory: nothing is lost, and however it is cut off nobody starts in between."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from leasehold.cli.output import Output
from leasehold.cli.reset import reset_directory
from leasehold.core.words.records import Allocated
from leasehold.errors import BadDirectory, Corrupt, LeaseholdError, NotFound, Refused
from leasehold.ids import ClusterId, Incarnation, NodeId, Token
from leasehold.node.agent.remedies import with_remedy
from leasehold.node.directory.reset import MARKER, check_no_reset, check_node_directory, check_vault_or_new, reset
from leasehold.vault.lock import DirectoryLock
from leasehold.vault.store import SqliteVault

OWN = Allocated(token=Token("a" * 32), node=NodeId(7), cluster_id=ClusterId("c" * 32), incarnation=Incarnation(3))
SEGMENT = Path("segments", "2", "0", f"{'1' * 32}-{'2' * 32}.parquet")


class Crash(BaseException):
    """The process ends here."""


@pytest.fixture
async def directory(tmp_path: Path) -> Path:
    """A node's directory as a killed process leaves it: the vault still has its log."""
    running, killed = tmp_path / "running", tmp_path / "node-7"
    vault = await SqliteVault.open(running)
    await vault.write_identity(OWN)
    await vault.write_coordinators(("127.0.0.1:7000",))
    for name in (SEGMENT, Path("trash", "old.parquet"), Path("servelog", "serve-0000000001.log"), Path("log")):
        (running / name).parent.mkdir(parents=True, exist_ok=True)
        (running / name).write_bytes(name.name.encode())
    (running / "staging").mkdir()
    shutil.copytree(running, killed)
    await vault.close()
    assert (killed / "vault.db-wal").exists()
    return killed


@pytest.fixture
def another_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system other than that of `tmp_path`."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system here")
    with TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


def contents(directory: Path) -> dict[str, bytes]:
    """What a reset must not lose, by name, wherever it lies."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.name: path.read_bytes() for path in files if path.name != "lock" and not path.name.startswith(MARKER)}


def places(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*"))


async def opened(directory: Path) -> object:
    """What a start finds there."""
    vault = await SqliteVault.open(directory)
    try:
        return await vault.identity()
    finally:
        await vault.close()


def refused(call: Callable[[], Any]) -> LeaseholdError:
    with pytest.raises(LeaseholdError) as caught:
        call()
    assert caught.value.hint
    return caught.value


async def test_the_next_start_is_another_node_and_nothing_is_lost(directory: Path) -> None:
    before = contents(directory)
    moved = reset(directory)
    assert moved.folder == directory / "before-reset-1"
    assert set(moved.names) == {"vault.db", "vault.db-wal", "vault.db-shm", "segments", "staging", "trash"}
    assert (moved.folder / SEGMENT).exists()
    assert contents(directory) == before
    assert (directory / "servelog").exists(), "it tells of what was released, by whatever id"
    assert (directory / "log").exists()
    assert await opened(directory) is None
    assert await opened(moved.folder) == OWN, "what was put aside is whole"


def test_a_vault_that_can_t_be_read_is_put_aside_too(directory: Path) -> None:
    (directory / "vault.db").unlink()
    (directory / "vault.db").mkdir()
    reset_directory(directory, yes=True, output=Output.JSON)
    assert (directory / "before-reset-1" / "vault.db").is_dir()
    assert not (directory / "vault.db").exists()


async def test_each_reset_has_a_folder_of_its_own(directory: Path) -> None:
    reset(directory)
    await opened(directory)
    assert reset(directory).folder == directory / "before-reset-2"
    assert refused(lambda: reset(directory)).code == "NO_NODE"


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

    for name in ("rename", "mkdir", "unlink", "fsync"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))


async def test_a_reset_that_is_cut_off_anywhere_is_finished_by_the_next(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, steps = contents(directory), 0
    while True:
        steps += 1
        copy = tmp_path / f"copy-{steps}"
        shutil.copytree(directory, copy)
        with monkeypatch.context() as patch:
            crashes_at(steps, patch)
            try:
                reset(copy)
            except Crash:
                pass
            else:
                break
        assert contents(copy) == before
        await nobody_starts_anew(copy)
        if (copy / "vault.db").exists() or (copy / MARKER).exists():
            assert reset(copy).folder == copy / "before-reset-1"
        assert contents(copy) == before
        assert not (copy / "segments").exists()
        assert await opened(copy) is None
    assert steps > 12, "the marker, the folder, six moves and their syncs"


async def nobody_starts_anew(directory: Path) -> None:
    """Either it is the node that it was, or nothing starts, and that without `check_no_reset` as well."""
    look = directory.with_name(directory.name + "-look")
    shutil.copytree(directory, look)
    if (look / "vault.db").exists():
        assert await opened(look) == OWN
        return
    assert (look / MARKER).exists() or not (look / "segments").exists()
    if (look / MARKER).exists():
        assert refused(lambda: check_no_reset(look)).code == "RESET_UNFINISHED"
        with pytest.raises(Corrupt):
            await opened(look)


def test_a_directory_without_a_vault_can_be_reset_as_well(tmp_path: Path) -> None:
    (tmp_path / SEGMENT.parent).mkdir(parents=True)
    (tmp_path / SEGMENT).write_bytes(b"rows")
    assert reset(tmp_path).names == ("segments",)


def test_no_directory_but_a_nodes_is_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    (tmp_path / "meta.db").write_text("a coordinator's")
    for folder in ("trash", "staging", "segments"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "thesis.parquet").write_text("precious too")
    before = sorted(tmp_path.rglob("*"))
    for directory in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NotFound):
            reset(directory)
    assert sorted(tmp_path.rglob("*")) == before


async def test_nothing_is_moved_where_a_folder_is_on_another_disk(directory: Path, another_disk: Path) -> None:
    shutil.move(directory / "segments", another_disk / "segments")
    (directory / "segments").symlink_to(another_disk / "segments")
    before = places(directory)
    assert refused(lambda: reset(directory)).code == "OTHER_DISK"
    assert places(directory) == before
    assert await opened(directory) == OWN


def test_only_a_new_directory_may_lack_a_vault(directory: Path, tmp_path: Path) -> None:
    check_vault_or_new(directory)
    check_vault_or_new(tmp_path / "nowhere")
    (directory / "vault.db").unlink()
    assert "leasehold node adopt" in refused(lambda: check_vault_or_new(directory)).hint
    shutil.rmtree(directory / "segments")
    error = refused(lambda: check_vault_or_new(directory))
    assert (error.code, "trash" in error.text, "another --dir" in error.hint) == ("NO_VAULT", True, True)
    (directory / "trash" / "old.parquet").unlink()
    check_vault_or_new(directory)


def test_a_directory_that_can_not_be_looked_into_is_named(tmp_path: Path) -> None:
    """Here its name is longer than one can be: a mode does not keep the superuser out."""
    there = tmp_path / ("x" * 300)
    for look in (check_no_reset, check_node_directory):
        error = refused(lambda look=look: look(there))
        assert (error.code, f"directory {there}:" in error.text) == ("NO_ACCESS", True)


async def test_I5_a_link_that_leads_to_no_vault_is_not_a_first_start(tmp_path: Path) -> None:
    """The disk that it leads to is not mounted now."""
    (tmp_path / "vault.db").symlink_to(tmp_path / "away" / "vault.db")
    check_vault_or_new(tmp_path)
    with pytest.raises(BadDirectory) as caught:
        await SqliteVault.open(tmp_path)
    assert caught.value.code == "NO_ACCESS"
    assert (tmp_path / "vault.db").is_symlink()


def test_what_a_hint_says_to_type_can_be_typed() -> None:
    told = with_remedy(Refused("no", code="REMOVED"), name="n1", directory="/old disk/$n")
    assert "`leasehold node reset --dir '/old disk/$n'`" in told.hint


def test_a_running_nodes_directory_is_refused_and_untouched(directory: Path) -> None:
    lock = DirectoryLock(directory)
    before = sorted(directory.rglob("*"))
    try:
        with pytest.raises(BadDirectory) as caught:
            reset(directory)
        assert caught.value.code == "LOCKED"
        assert sorted(directory.rglob("*")) == before
    finally:
        lock.release()


def test_a_damaged_marker_is_refused(directory: Path) -> None:
    for damaged in (b"", b"../../etc", b"before-reset-x", b"\xff"):
        (directory / MARKER).write_bytes(damaged)
        assert refused(lambda: reset(directory)).code == "CORRUPT"
    assert (directory / "vault.db").exists()


def test_what_came_there_meanwhile_replaces_nothing(directory: Path) -> None:
    (directory / MARKER).write_bytes(b"before-reset-1")
    (directory / "before-reset-1").mkdir()
    (directory / "before-reset-1" / "segments").mkdir()
    with pytest.raises(Refused) as caught:
        reset(directory)
    assert caught.value.code == "RESET_UNFINISHED"
    assert (directory / SEGMENT).exists()
