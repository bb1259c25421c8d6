"""The directories that a process makes for itself."""

import os
from pathlib import Path

import pytest

from leasehold.errors import BadDirectory
from leasehold.local.files import make_directory


def test_what_is_made_is_its_owner_s_alone_and_what_was_there_stays(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_directory(tmp_path / "a" / "b")
    assert [one.stat().st_mode & 0o777 for one in (tmp_path, tmp_path / "a", tmp_path / "a" / "b")] == [
        0o755,
        0o700,
        0o700,
    ]
    (tmp_path / "a").chmod(0o750)
    make_directory(tmp_path / "a")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o750


def test_what_is_made_outlives_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a node syncs in a directory is gone with the directory's own name (INV-ID-3)."""
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(str(Path(f"/proc/self/fd/{file}").readlink())))
    make_directory(tmp_path / "a" / "b")
    assert synced == [str(tmp_path), str(tmp_path / "a")]
    make_directory(tmp_path / "a" / "b")
    assert len(synced) == 2


def test_a_file_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(BadDirectory):
            make_directory(directory)
