"""Finding a cluster: addresses as they are, or the directory of a cluster on this machine."""

import json
from pathlib import Path
from typing import Final

import msgspec

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, BadSettings, typed
from leasehold.ids import ClusterId

CLUSTER_FILE = "cluster.json"
COORDINATOR: Final = "coordinator"
"""The name and the folder of the coordinator in a cluster on this machine that has one."""
TARGET_DEFAULT: Final = "leasehold-data"
"""The directory of `leasehold up`, if it is given none."""
KEY_FILE = "cluster.key"
"""The cluster key of a cluster on this machine, beside its cluster file."""


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


class _FirstClusterFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Format 1, of a cluster with one coordinator."""

    format: int
    cluster_id: ClusterId
    coordinator: str
    nodes: tuple[str, ...]


def read_cluster_file(directory: Path) -> ClusterFile:
    """The cluster file of a directory. Raises `BadDirectory` if there is none, it is damaged, or of a newer version."""
    path = directory / CLUSTER_FILE
    try:
        blob = path.read_bytes()
    except FileNotFoundError as error:
        text = f"there is no cluster in {directory}"
        raise BadDirectory(
            text, code=ErrorCode.NO_CLUSTER, hint=f"start one with `leasehold up --dir {typed(directory)}`"
        ) from error
    except OSError as error:
        raise BadDirectory(f"{path} can't be read: {error.strerror}", hint="check its permissions") from error
    try:
        version = json.loads(blob).get("format", 0)
        if isinstance(version, int) and version > CLUSTER_FILE_VERSION:
            raise BadDirectory(
                f"{directory} is of format {version}, this program reads up to {CLUSTER_FILE_VERSION}",
                code=ErrorCode.NEWER_VERSION,
                hint="run the newer version of leasehold",
            )
        if version == 1:
            first = msgspec.json.decode(blob, type=_FirstClusterFile)
            addresses = {COORDINATOR: first.coordinator}
            return ClusterFile(format=1, cluster_id=first.cluster_id, coordinators=addresses, nodes=first.nodes)
        return msgspec.json.decode(blob, type=ClusterFile)
    except (ValueError, AttributeError, msgspec.MsgspecError) as error:
        raise BadDirectory(
            f"{path} is damaged: {error}", code=ErrorCode.CORRUPT, hint="restore it, or use another --dir"
        ) from error


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
