"""One process per directory, as processes see it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.errors import BadDirectory
from leasehold.vault.lock import DirectoryLock

HOLD = (
    "import sys\n"
    "from pathlib import Path\n"
    "from leasehold.vault.lock import DirectoryLock\n"
    "lock = DirectoryLock(Path(sys.argv[1]))\n"
    "sys.stdout.write('held\\n'); sys.stdout.flush()\n"
    "sys.stdin.read()\n"
)


def test_the_second_process_is_told_who_holds_it_and_gets_it_after_a_kill(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BadDirectory) as caught:
            DirectoryLock(tmp_path)
        assert caught.value.code == "LOCKED"
        assert f"process {holder.pid}" in caught.value.text
        assert str(tmp_path) in caught.value.text
        assert caught.value.hint
        holder.kill()
    lock = DirectoryLock(tmp_path)
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    lock.release()
    lock.release()


def test_the_directory_is_made(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b" / "lock").exists()
    lock.release()


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadDirectory) as caught:
        DirectoryLock(tmp_path / "file")
    assert caught.value.code == "NO_ACCESS"
    assert "file" in caught.value.text
