"""A process ends once the files that it uses are no longer those of its directory."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from leasehold.cli import serve
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory


def delete_all(lock: Path) -> None:
    shutil.rmtree(lock.parent)


def delete_lock(lock: Path) -> None:
    lock.unlink()


def replace(lock: Path) -> None:
    """As a copy of the directory that is put in its place."""
    aside = lock.parent.with_name("aside")
    shutil.copytree(lock.parent, aside)
    shutil.rmtree(lock.parent)
    aside.rename(lock.parent)


@pytest.mark.parametrize("change", [delete_all, delete_lock, replace])
async def test_a_process_without_its_directory_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    lock = tmp_path / "one" / "lock"
    lock.parent.mkdir()
    lock.touch()
    inode = lock.open("rb")  # the lock is held, so no later file has its number
    monkeypatch.setattr(serve, "DIRECTORY_LOOK_NS", 1_000_000)
    watching = asyncio.create_task(serve.fail_without(lock))
    with inode, pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(watching), 0.05)
    change(lock)
    with pytest.raises(BadDirectory, match="was deleted or replaced") as refused:
        await watching
    assert refused.value.code == ErrorCode.DIRECTORY_GONE


async def test_a_process_whose_directory_is_gone_already_ends(tmp_path: Path) -> None:
    with pytest.raises(BadDirectory):
        await serve.fail_without(tmp_path / "one" / "lock")
