"""The cluster file of a directory: whatever is in its place, there is one clear error and no traceback."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from leasehold.client.coordinators import Coordinators
from leasehold.client.locate import CLUSTER_FILE, locate, read_cluster_file
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, ExitCode
from leasehold.limits.membership import COORDINATORS_MAX
from leasehold.limits.processes import CLUSTER_FILE_BYTES_MAX

WHOLE = {"format": 3, "cluster_id": "c" * 32, "coordinators": {"coordinator": "127.0.0.1:1"}, "nodes": ["node-1"]}
FIRST = {"format": 1, "cluster_id": "c" * 32, "coordinator": "127.0.0.1:1", "nodes": ["node-1"]}


def refused(directory: Path, code: ErrorCode = ErrorCode.CORRUPT) -> BadDirectory:
    with pytest.raises(BadDirectory) as caught:
        read_cluster_file(directory)
    error = caught.value
    assert (error.code, error.exit_code) == (code, ExitCode.REFUSED)
    assert len(error.text) < len(str(directory)) + 300
    assert error.hint
    return error


def test_a_file_of_any_format_is_read(tmp_path: Path) -> None:
    for content in (WHOLE, FIRST):
        (tmp_path / CLUSTER_FILE).write_text(json.dumps(content))
        assert read_cluster_file(tmp_path).coordinators == {"coordinator": "127.0.0.1:1"}
        assert locate(tmp_path) == ("127.0.0.1:1",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"coordinators": {}}, "0 coordinators"),
        ({"coordinators": {f"c-{one}": "h:1" for one in range(COORDINATORS_MAX + 1)}}, "33 coordinators"),
        ({"coordinators": {"../other": "127.0.0.1:1"}}, "can't have the name '../other'"),
        ({"coordinators": {"coordinator": "nowhere"}}, "can't have the address 'nowhere'"),
        ({"nodes": ["node-1", "../other/node-1"]}, "can't have the name '../other/node-1'"),
        ({"nodes": [".."]}, "can't have the name '..'"),
        ({"nodes": ["/etc"]}, "can't have the name '/etc'"),
        ({"nodes": ["x" * 100_000]}, "can't have the name 'xxx"),
        ({"format": "3"}, "format"),
        ({"x" * 100_000: 1}, "unknown field"),
        (FIRST | {"nodes": ["../other"]}, "can't have the name '../other'"),
        (FIRST | {"coordinator": ""}, "can't have the address ''"),
    ],
)
def test_a_manipulated_file_is_damaged(tmp_path: Path, content: dict[str, Any], said: str) -> None:
    whole = content if "format" in content and content["format"] == 1 else WHOLE | content
    (tmp_path / CLUSTER_FILE).write_text(json.dumps(whole))
    assert said in refused(tmp_path).text
    with pytest.raises(BadDirectory):
        Coordinators(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[" * 5_000, b'{"format": 3, "x": ' + b"[" * 100_000, b'{"a": "\xff"}', b"5", b"[]"]
)
def test_what_is_no_cluster_file_is_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / CLUSTER_FILE).write_bytes(content)
    assert "is damaged" in refused(tmp_path).text


def test_a_pipe_a_folder_and_a_large_file_are_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / CLUSTER_FILE
    os.mkfifo(file)
    assert refused(tmp_path).text == f"{file} is not a file"
    file.unlink()
    file.mkdir()
    assert refused(tmp_path).text == f"{file} is not a file"
    file.rmdir()
    with file.open("wb") as large:
        large.truncate(100_000_000)
    assert f"100000000 bytes, and may have at most {CLUSTER_FILE_BYTES_MAX}" in refused(tmp_path).text


def test_where_no_cluster_is_the_hint_says_how_to_start_one(tmp_path: Path) -> None:
    assert "leasehold up --dir" in refused(tmp_path, ErrorCode.NO_CLUSTER).hint
    assert "leasehold up --dir" in refused(tmp_path / "nothing", ErrorCode.NO_CLUSTER).hint
    (tmp_path / "file").touch()
    assert refused(tmp_path / "file", ErrorCode.BAD_DIRECTORY).text == f"{tmp_path / 'file'} is a file"


def test_a_file_that_can_not_be_read_may_be_whole(tmp_path: Path) -> None:
    (tmp_path / CLUSTER_FILE).symlink_to(tmp_path / CLUSTER_FILE)
    error = refused(tmp_path, ErrorCode.BAD_DIRECTORY)
    assert "can't be read" in error.text
    assert "permissions" in error.hint
