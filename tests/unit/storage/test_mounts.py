"""The folders of a node are on one mount: another disk, and a folder of the same disk mounted there, are refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.storage.files import SegmentFiles
from leasehold.storage.mounts import check_one_mount

OPENING = """
import sys
from pathlib import Path
from leasehold.errors import BadDirectory
from leasehold.storage.files import SegmentFiles
try:
    SegmentFiles(Path(sys.argv[1])).open()
except BadDirectory as error:
    print(error.code, bool(error.hint), error.text)
"""


def test_plain_folders_and_a_new_directory_are_on_one_mount(tmp_path: Path) -> None:
    check_one_mount(tmp_path)
    SegmentFiles(tmp_path).open()
    check_one_mount(tmp_path)


@pytest.mark.parametrize("mount", ["mount -t tmpfs tmpfs", "mount --bind {elsewhere}"])
def test_a_folder_that_is_a_mount_is_refused_and_nothing_is_removed(tmp_path: Path, mount: str) -> None:
    isolated = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    node, elsewhere = tmp_path / "a node", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (node / "staging").mkdir(parents=True)
    (node / "staging" / "half").write_text("written")
    (node / "segments").mkdir()
    mounted = f"{mount.format(elsewhere=elsewhere)} '{node}/segments'"
    try:
        subprocess.run([*isolated, mounted], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this system lets nobody mount in a namespace of his own")
    ran = subprocess.run(
        [*isolated, f'{mounted} && "$@"', "sh", sys.executable, "-c", OPENING, str(node)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert ran.stdout.startswith(f"OTHER_DISK True {node / 'segments'}"), ran.stdout
    assert (node / "staging" / "half").exists()
    assert not (node / "trash").exists()
