"""The small files of processes on one machine: who may read them, and what is under their name before."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.errors import BadDirectory
from leasehold.local.files import check_not_writable_by_others, write_address, write_gossip_address, write_whole


@pytest.fixture(params=[0o000, 0o022, 0o277])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_umask")
def test_only_the_owner_may_read_and_write_what_is_written(tmp_path: Path) -> None:
    write_whole(tmp_path / "pid", b"1")
    write_address(tmp_path, "127.0.0.1:1")
    write_gossip_address(tmp_path, "127.0.0.1:2")
    assert {one.name: oct(one.stat().st_mode & 0o777) for one in tmp_path.iterdir()} == {
        "pid": "0o600",
        "address": "0o600",
        "gossip": "0o600",
    }


def test_a_file_that_was_open_to_others_is_not_afterwards(tmp_path: Path) -> None:
    file = tmp_path / "address"
    file.write_text("before")
    file.chmod(0o666)
    write_whole(file, b"after")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"after", 0o600)


@pytest.mark.parametrize("linked", ["pid", "pid.new"])
def test_no_link_is_followed(tmp_path: Path, linked: str) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (tmp_path / linked).symlink_to(precious)
    write_whole(tmp_path / "pid", b"1")
    assert precious.read_text() == "kept"
    assert not (tmp_path / "pid").is_symlink()
    assert (tmp_path / "pid").read_bytes() == b"1"


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o707, 0o1777, 0o720])
def test_a_directory_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(BadDirectory) as caught:
        check_not_writable_by_others(tmp_path)
    assert caught.value.code == "WRITABLE_BY_OTHERS"
    assert f"{mode:04o}" in caught.value.text
    assert f"chmod go-w {tmp_path}" in caught.value.hint
    tmp_path.chmod(mode & ~0o022)
    check_not_writable_by_others(tmp_path)
