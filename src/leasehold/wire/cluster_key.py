"""The cluster key: 32 random bytes, as one line of 64 hex digits in a file that its owner alone can read.

The file is made once and copied to every machine of the cluster. Whoever has the key is a member of the cluster. While
one key takes the place of another, the file has two lines: a process proves itself with the first, and believes both.
"""

import hmac
import os
import re
import secrets
from pathlib import Path
from typing import Final

from leasehold.durable import sync_folder
from leasehold.errors import AlreadyExists, BadDirectory, BadSettings
from leasehold.ids import ClusterId
from leasehold.limits.swim import CLUSTER_KEY_BYTES, CLUSTER_KEY_FILE_BYTES_MAX
from leasehold.private_files import read_secret

_KEYS: Final = re.compile(rb"([0-9a-fA-F]{%d})(?:\s{1,16}([0-9a-fA-F]{%d}))?\s{0,16}" % (2 * (2 * CLUSTER_KEY_BYTES,)))
_TAG: Final = b"leasehold cluster tag/1"


def generate(path: Path) -> None:
    """Makes a key file, durably. Raises `AlreadyExists`, and `BadDirectory` if it can't be written."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise AlreadyExists(
            f"{path} already exists",
            hint="every process of a cluster needs the same key: use this one, or choose another path",
        ) from error
    except OSError as error:
        raise BadDirectory(f"{path} can't be written: {error.strerror}", hint="choose another path") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_hex(CLUSTER_KEY_BYTES).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
    except OSError as error:
        path.unlink(missing_ok=True)  # half a key would be in the way of the next attempt
        raise BadDirectory(f"{path} can't be written: {error.strerror}", hint="check the space on the disk") from error


def read(path: Path) -> tuple[bytes, ...]:
    """The key in a file, or both. Raises `BadSettings`, which never shows what the file holds."""
    content = read_secret(
        path,
        CLUSTER_KEY_FILE_BYTES_MAX,
        lambda text, hint: BadSettings(f"the cluster key {path} {text}", hint=hint),
        "copy it from another machine of the cluster, with mode 0600",
    )
    found = _KEYS.fullmatch(content)
    if found is None or found[1] == found[2]:
        raise BadSettings(
            f"{path} holds no cluster key",
            hint=f"it must be {2 * CLUSTER_KEY_BYTES} hex digits, or two such lines while a key takes the place of"
            " another; copy the file from another machine of the cluster",
        )
    return tuple(bytes.fromhex(one.decode()) for one in found.groups() if one is not None)


def stands_for(key: bytes) -> ClusterId:
    """The cluster's tag in datagrams. It is made of the key alone, since a process sends datagrams before it knows the
    cluster's id."""
    return ClusterId(hmac.digest(key, _TAG, "sha256").hex()[:32])
