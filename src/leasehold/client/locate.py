"""Finding a cluster: addresses as they are, or the directory of a cluster on this machine."""

from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, BadSettings, typed
from leasehold.ids import NODE_ADDRESS, NODE_NAME, ClusterId
from leasehold.limits.membership import COORDINATORS_MAX
from leasehold.limits.processes import CLUSTER_FILE_BYTES_MAX, CONFIG_SHOWN_MAX
from leasehold.private_files import read_if_there

CLUSTER_FILE = "cluster.json"
COORDINATOR: Final = "coordinator"
"""The name and the folder of the coordinator in a cluster on this machine that has one."""
TARGET_DEFAULT: Final = "leasehold-data"
"""The directory of `leasehold up`, if it is given none."""
KEY_FILE = "cluster.key"
"""The cluster key of a cluster on this machine, beside its cluster file."""
_RESTORE: Final = "restore it, or use another --dir"

CLUSTER_FILE_VERSION: Final = 3


class ClusterFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `leasehold up` writes to its directory: how to reach the cluster, and which processes belong to it."""

    format: int
    cluster_id: ClusterId
    coordinators: dict[str, str]
    """The address of each, by its name."""
    nodes: tuple[str, ...]
    tls: bool = False
    """Whether its servers use TLS, with the certificates beside this file. Since format 3."""


class _Format(msgspec.Struct, frozen=True):
    """What tells the format of any cluster file."""

    format: int = 0


class _FirstClusterFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Format 1, of a cluster with one coordinator."""

    format: int
    cluster_id: ClusterId
    coordinator: str
    nodes: tuple[str, ...]


def read_cluster_file(directory: Path) -> ClusterFile:
    """The cluster file of a directory. Raises `BadDirectory` if there is none, it is damaged, or of a newer version."""
    path = directory / CLUSTER_FILE
    blob = _content(directory, path)
    try:
        version = msgspec.json.decode(blob, type=_Format).format
        if version > CLUSTER_FILE_VERSION:
            raise BadDirectory(
                f"{directory} is of format {version}, this program reads up to {CLUSTER_FILE_VERSION}",
                code=ErrorCode.NEWER_VERSION,
                hint="run the newer version of leasehold",
            )
        if version == 1:
            first = msgspec.json.decode(blob, type=_FirstClusterFile)
            addresses = {COORDINATOR: first.coordinator}
            file = ClusterFile(format=1, cluster_id=first.cluster_id, coordinators=addresses, nodes=first.nodes)
        else:
            file = msgspec.json.decode(blob, type=ClusterFile)
        _check(file)
    except RecursionError as error:
        raise _damaged(path, "it is nested too deeply") from error
    except (ValueError, msgspec.MsgspecError) as error:
        raise _damaged(path, str(error)) from error
    return file


def _content(directory: Path, path: Path) -> bytes:
    try:
        content = read_if_there(path, CLUSTER_FILE_BYTES_MAX, partial(_unusable, path), _RESTORE)
    except BadDirectory as error:
        if isinstance(error.__cause__, OSError):  # the file may be whole
            raise BadDirectory(error.text, hint="check its permissions") from error.__cause__
        raise
    if content is not None:
        return content
    if directory.exists() and not directory.is_dir():
        raise BadDirectory(f"{directory} is a file", hint="choose another --dir")
    raise BadDirectory(
        f"there is no cluster in {directory}",
        code=ErrorCode.NO_CLUSTER,
        hint=f"start one with `leasehold up --dir {typed(directory)}`",
    )


def _check(file: ClusterFile) -> None:
    """Raises `ValueError`. The name of a process is that of its folder, so it must not lead elsewhere."""
    if not 1 <= len(file.coordinators) <= COORDINATORS_MAX:
        raise ValueError(f"it has {len(file.coordinators)} coordinators, and may have 1 to {COORDINATORS_MAX}")
    for name in (*file.coordinators, *file.nodes):
        if NODE_NAME.fullmatch(name) is None:
            raise ValueError(f"a process can't have the name {name!r}")
    for address in file.coordinators.values():
        if NODE_ADDRESS.fullmatch(address) is None:
            raise ValueError(f"a coordinator can't have the address {address!r}")


def _damaged(path: Path, why: str) -> BadDirectory:
    return _unusable(path, f"is damaged: {why[:CONFIG_SHOWN_MAX]}", _RESTORE)


def _unusable(path: Path, text: str, hint: str) -> BadDirectory:
    return BadDirectory(f"{path} {text}", code=ErrorCode.CORRUPT, hint=hint)


def locate(target: str | Path) -> tuple[str, ...]:
    """The `host:port` of each coordinator: `target` itself, with commas between several, or what the cluster file of a
    directory says."""
    addresses = tuple(str(target).split(","))
    if all(map(_is_address, addresses)):
        return addresses
    directory = Path(target)
    if not directory.is_dir():
        raise BadSettings(
            f"{str(target)!r} is neither host:port nor the directory of a cluster",
            hint="start a cluster with `leasehold up`, or name its coordinators as host:port,host:port",
        )
    return tuple(read_cluster_file(directory).coordinators.values())


def coordinator_names(target: str | Path) -> dict[str, str]:
    """The name of each coordinator by its address, as far as `target` is a directory that knows them."""
    directory = Path(target)
    if not (directory / CLUSTER_FILE).exists():
        return {}
    return {address: name for name, address in read_cluster_file(directory).coordinators.items()}


def _is_address(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    return bool(colon and host) and "/" not in text and port.isdigit()
