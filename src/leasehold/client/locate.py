"""Finding a cluster: an address as it is, or the directory of a cluster on this machine."""

import json
from pathlib import Path

import msgspec

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, BadSettings, typed
from leasehold.ids import ClusterId
from leasehold.limits.messages import FORMAT_VERSION

CLUSTER_FILE = "cluster.json"
KEY_FILE = "cluster.key"
"""The cluster key of a cluster on this machine, beside its cluster file."""


class ClusterFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `leasehold up` leaves in its directory: how to reach the cluster, and which processes belong to it."""

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
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise BadDirectory(
                f"{directory} is of format {version}, this program reads up to {FORMAT_VERSION}",
                code=ErrorCode.NEWER_VERSION,
                hint="run the newer version of leasehold",
            )
        return msgspec.json.decode(blob, type=ClusterFile)
    except (ValueError, AttributeError, msgspec.MsgspecError) as error:
        raise BadDirectory(
            f"{path} is damaged: {error}", code=ErrorCode.CORRUPT, hint="restore it, or use another --dir"
        ) from error


def locate(target: str | Path) -> str:
    """The coordinator's `host:port`: `target` itself, or what the cluster file of a directory says."""
    text = str(target)
    host, colon, port = text.rpartition(":")
    if colon and host and "/" not in text and port.isdigit():
        return text
    directory = Path(target)
    if not directory.is_dir():
        raise BadSettings(
            f"{text!r} is neither host:port nor the directory of a cluster",
            hint="start a cluster with `leasehold up`, or name its coordinator as host:port",
        )
    return read_cluster_file(directory).coordinator
