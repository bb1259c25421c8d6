"""The file of a backup on disk: whole or not there, and for its owner alone."""

import os
import stat
from pathlib import Path

import pytest

from leasehold.client.backup import backup_file
from leasehold.errors import AlreadyExists, Refused, Unreachable


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_it_appears_when_it_is_whole(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with backup_file(tmp_path / "b", force=False) as out:
            out.write(b"first attempt, which is longer")
            out.clear()
            out.write(b"second")
            assert not (tmp_path / "b").exists()
    finally:
        os.umask(before)
    assert content(tmp_path) == {"b": b"second"}
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Unreachable), backup_file(tmp_path / "b", force=True) as out:
        out.write(b"half")
        raise Unreachable("gone")
    with pytest.raises(Unreachable), backup_file(tmp_path / "b", force=True) as out:
        out.write(b"half")
        out.give_up()
        assert content(tmp_path) == {}
        raise Unreachable("gone")
    assert content(tmp_path) == {}


def test_a_file_is_replaced_by_force_alone(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"old")
    (tmp_path / "d").mkdir()
    (tmp_path / "to nowhere").symlink_to(tmp_path / "nowhere")
    for name in ("b", "d", "to nowhere"):
        with pytest.raises(AlreadyExists), backup_file(tmp_path / name, force=False):
            raise AssertionError("it is refused before")
    with pytest.raises(AlreadyExists, match="directory"), backup_file(tmp_path / "d", force=True):
        raise AssertionError("it is refused before")
    with backup_file(tmp_path / "b", force=True) as out:
        out.write(b"new")
    assert (tmp_path / "b").read_bytes() == b"new"


@pytest.mark.parametrize("force", [False, True])
def test_only_a_file_is_replaced(tmp_path: Path, force: bool) -> None:
    """For root the file would also take the place of a device, such as /dev/null."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link"):
        with (
            pytest.raises(AlreadyExists, match="is not a file") as raised,
            backup_file(tmp_path / name, force=force),
        ):
            raise AssertionError("it is refused before")
        assert "--force" not in raised.value.hint
    assert (tmp_path / "pipe").is_fifo()


def test_a_file_that_appears_meanwhile_stays(tmp_path: Path) -> None:
    with pytest.raises(AlreadyExists), backup_file(tmp_path / "b", force=False) as out:
        out.write(b"mine")
        (tmp_path / "b").write_bytes(b"of another")
    assert content(tmp_path) == {"b": b"of another"}


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="can't be written") as raised, backup_file(tmp_path / "n" / "b", force=False):
        raise AssertionError("it is refused before")
    assert raised.value.code == "NOT_WRITTEN"
