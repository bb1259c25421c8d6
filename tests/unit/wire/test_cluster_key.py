"""The cluster key's file: made once, read only if nobody else can."""

import os
from pathlib import Path

import pytest

from leasehold.errors import AlreadyExists, BadDirectory, BadSettings
from leasehold.limits.swim import CLUSTER_KEY_BYTES, CLUSTER_KEY_FILE_BYTES_MAX
from leasehold.wire import cluster_key

SECRET = "ab" * CLUSTER_KEY_BYTES


def written(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_a_key_that_was_made_is_read(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for path in (one, other):
        cluster_key.generate(path)
        assert path.stat().st_mode & 0o777 == 0o600
        assert [len(one) for one in cluster_key.read(path)] == [CLUSTER_KEY_BYTES]
    assert cluster_key.read(one) == cluster_key.read(one) != cluster_key.read(other)


def test_what_people_copy_is_read_with_or_without_the_end_of_the_line(tmp_path):
    for content in (SECRET, SECRET.upper(), SECRET + "\n", SECRET + "\r\n"):
        assert cluster_key.read(written(tmp_path / "key", content.encode())) == (bytes.fromhex(SECRET),)


def test_while_a_key_takes_the_place_of_another_the_file_has_both(tmp_path):
    other = "cd" * CLUSTER_KEY_BYTES
    for end in ("", "\n", "\r\n"):
        path = written(tmp_path / "key", f"{SECRET}\n{other}{end}".encode())
        assert cluster_key.read(path) == (bytes.fromhex(SECRET), bytes.fromhex(other))


def test_a_cluster_is_called_by_its_key_which_that_does_not_tell(tmp_path):
    one, other = bytes(CLUSTER_KEY_BYTES), b"k" * CLUSTER_KEY_BYTES
    assert cluster_key.stands_for(one) == "d32663fa0ebc1055085fb55ac69e42d2" != cluster_key.stands_for(other)


def test_a_key_file_is_never_overwritten(tmp_path):
    path = written(tmp_path / "key", SECRET.encode())
    with pytest.raises(AlreadyExists) as refused:
        cluster_key.generate(path)
    assert refused.value.hint
    assert path.read_text() == SECRET
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AlreadyExists):
        cluster_key.generate(path)
    assert not (tmp_path / "elsewhere").exists()


def test_a_key_that_can_not_be_written_is_told(tmp_path):
    with pytest.raises(BadDirectory, match="can't be written") as refused:
        cluster_key.generate(tmp_path / "nowhere" / "key")
    assert refused.value.hint


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o644, 0o777])
def test_a_key_that_others_can_open_is_refused(tmp_path, mode):
    path = written(tmp_path / "key", SECRET.encode(), mode)
    with pytest.raises(BadSettings, match=f"{mode:04o}") as refused:
        cluster_key.read(path)
    assert f"chmod go-rwx {path}" in refused.value.hint


def test_a_key_with_fewer_rights_is_fine(tmp_path):
    assert cluster_key.read(written(tmp_path / "key", SECRET.encode(), 0o400))


def test_a_credential_of_systemd_may_show_its_acl_in_the_bits_of_the_group(tmp_path, monkeypatch):
    path = written(tmp_path / "key", SECRET.encode(), 0o440)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "other"))
    with pytest.raises(BadSettings):
        cluster_key.read(path)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert cluster_key.read(path)
    for mode in (0o460, 0o444, 0o450):
        path.chmod(mode)
        with pytest.raises(BadSettings):
            cluster_key.read(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        SECRET[:-1].encode(),
        SECRET.encode() + b"0",
        SECRET.encode() + b"\n" + SECRET.encode(),
        b"\n".join(number * 2 * CLUSTER_KEY_BYTES for number in (b"1", b"2", b"3")),
        b"g" + SECRET[1:].encode(),
        bytes(CLUSTER_KEY_BYTES),
        b"\xff" * 64,
    ],
)
def test_what_is_no_key_is_refused_without_being_shown(tmp_path, content):
    path = written(tmp_path / "key", content)
    with pytest.raises(BadSettings, match="holds no cluster key") as refused:
        cluster_key.read(path)
    assert SECRET[:16] not in refused.value.text + refused.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_key_of_another_user_is_refused(tmp_path):
    path = written(tmp_path / "key", SECRET.encode())
    os.chown(path, 12_345, -1)
    with pytest.raises(BadSettings, match="uid 12345"):
        cluster_key.read(path)


def test_what_is_no_file_or_too_large_is_refused(tmp_path):
    with pytest.raises(BadSettings, match=f"at most {CLUSTER_KEY_FILE_BYTES_MAX}"):
        cluster_key.read(written(tmp_path / "long", SECRET.encode() + b" " * CLUSTER_KEY_FILE_BYTES_MAX))
    with pytest.raises(BadSettings, match="No such file"):
        cluster_key.read(tmp_path / "key")
    with pytest.raises(BadSettings, match="not a file"):
        cluster_key.read(tmp_path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(BadSettings, match="not a file"):
        cluster_key.read(tmp_path / "pipe")
