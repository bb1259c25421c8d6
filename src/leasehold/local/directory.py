"""The directory of a cluster on one machine, before anything is started in it."""

from pathlib import Path

from leasehold.client.locate import CLUSTER_FILE, COORDINATOR, KEY_FILE
from leasehold.client.trust import TLS_FOLDER
from leasehold.errors import BadDirectory
from leasehold.local.files import check_not_writable_by_others, make_directory, names_in
from leasehold.local.gossip import KEY_SCRATCH
from leasehold.local.members import MEMBERS_FILE, PASSWORD_FILE


def make_cluster_directory(directory: Path) -> None:
    """Makes the directory, unless it is there. Raises `BadDirectory` for one that holds other files than a cluster's,
    or that others can write to."""
    if directory.exists() and not directory.is_dir():
        raise BadDirectory(f"{directory} is a file", hint="choose another --dir")
    if not (directory / CLUSTER_FILE).exists() and directory.is_dir():
        strange = [name for name in names_in(directory) if not _ours(name)]
        if strange:
            raise BadDirectory(
                f"{directory} holds other files, such as {strange[0]!r}",
                hint="choose an empty or new directory with --dir",
            )
    make_directory(directory)
    check_not_writable_by_others(directory)


def _ours(name: str) -> bool:
    written = {CLUSTER_FILE, MEMBERS_FILE, PASSWORD_FILE}
    own = {*written, *(f"{one}.new" for one in written), KEY_FILE, KEY_SCRATCH, TLS_FOLDER, "up.lock"}
    return name in own or name.startswith(("node-", COORDINATOR, "meta-"))
