"""The directories of authorities and bundles, and the files in them.

An **authority** is `ca.pem` (its certificate), `ca-key.pem`, `issued/SERIAL.pem` for each certificate that it signed,
and `predecessors.pem` if it succeeds another one. A **bundle** is `identity.pem` (the key and certificate of one
process or user, then those of intermediate authorities) and `ca.pem` (the authorities that it trusts).

A directory appears whole, under its name, or not at all. A file is replaced in one step. Only the owner can read them.
"""

import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Final

from leasehold.durable import named_when_whole, sync_folder
from leasehold.error_codes import ErrorCode
from leasehold.errors import AlreadyExists, BadCertificate, Refused, typed
from leasehold.limits.certificates import CERTIFICATE_FILE_BYTES_MAX

CA: Final = "ca.pem"
CA_KEY: Final = "ca-key.pem"
ISSUED: Final = "issued"
PREDECESSORS: Final = "predecessors.pem"
IDENTITY: Final = "identity.pem"

_WRITERS: Final = stat.S_IWGRP | stat.S_IWOTH
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_EDGE: Final = re.compile(rb"-----(BEGIN|END) ([A-Z0-9 ]{1,40})-----\s*")
_SPACE: Final = "check the space on the disk and your rights there"


def read_key_file(path: Path) -> bytes:
    """A file with a private key. Raises `BadCertificate`, also if another user could read or change it."""
    return _read(path, _OTHERS)


def read_public_file(path: Path) -> bytes:
    """A file whose content says who is trusted. Raises `BadCertificate`, also if another user could change it."""
    return _read(path, _WRITERS)


def read_any_file(path: Path) -> bytes:
    """A file, whoever may read or change it. Raises `BadCertificate`."""
    return _read(path, None)


def check_directory(path: Path) -> None:
    """Raises `BadCertificate` if there is no such directory, or another user could replace files in it."""
    try:
        found = path.stat()
    except OSError as error:
        raise BadCertificate(
            f"{path} can't be read: {error.strerror}",
            hint=f"`leasehold ca issue CA-DIRECTORY --node NAME --to {typed(path)}` makes a bundle",
        ) from error
    if not stat.S_ISDIR(found.st_mode):
        raise BadCertificate(f"{path} is not a directory", hint="name the directory of a bundle or of an authority")
    _check_access(path, found, _WRITERS)


def _read(path: Path, forbidden: int | None) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise BadCertificate(f"{path} can't be read: {error.strerror}", hint=_hint_for_missing(path)) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise BadCertificate(f"{path} is not a file", hint="name a file in PEM format")
        if forbidden is not None:
            _check_access(path, found, forbidden)
        if found.st_size > CERTIFICATE_FILE_BYTES_MAX:
            raise BadCertificate(
                f"{path} has {found.st_size} bytes: a file of certificates has at most {CERTIFICATE_FILE_BYTES_MAX}",
                hint="name a file in PEM format",
            )
        return os.read(descriptor, CERTIFICATE_FILE_BYTES_MAX)
    except OSError as error:
        raise BadCertificate(f"{path} can't be read: {error.strerror}", hint="check the disk") from error
    finally:
        os.close(descriptor)


def _hint_for_missing(path: Path) -> str:
    if path.name == CA_KEY:
        return "name the directory that `leasehold ca init` made, on the machine that keeps it"
    if path.name == IDENTITY:
        return "`leasehold ca issue CA-DIRECTORY --node NAME --to BUNDLE` makes a bundle"
    return "name a file that exists and that this user may read"


def _check_access(path: Path, found: os.stat_result, forbidden: int) -> None:
    if found.st_uid not in {0, os.geteuid()}:
        raise BadCertificate(
            f"{path} belongs to another user (uid {found.st_uid})",
            hint=f"run it as that user, or `chown {os.geteuid()} {typed(path)}`",
        )
    if found.st_mode & forbidden:
        what = "read" if forbidden & stat.S_IROTH else "change"
        letters = "rwx" if forbidden & stat.S_IROTH else "w"
        raise BadCertificate(
            f"other users can {what} {path}: its mode is {stat.S_IMODE(found.st_mode):04o}",
            hint=f"`chmod go-{letters} {typed(path)}` takes that right away",
        )


def pem_blocks(path: Path, content: bytes) -> list[tuple[str, bytes]]:
    """The label and the text of each PEM block in the content of a file. Raises `BadCertificate`."""
    blocks: list[tuple[str, bytes]] = []
    label: bytes | None = None
    lines: list[bytes] = []
    for line in content.splitlines(keepends=True):
        edge = _EDGE.fullmatch(line)
        if edge is not None and (edge[1], label) not in {(b"BEGIN", None), (b"END", edge[2])}:
            break
        if edge is not None and edge[1] == b"BEGIN":
            label, lines = edge[2], []
        if label is not None:
            lines.append(line)
        if edge is not None and edge[1] == b"END":
            blocks.append((edge[2].decode(), b"".join(lines)))
            label = None
    else:
        if label is None:
            return blocks
    raise BadCertificate(f"{path} is damaged: a PEM block in it does not end", hint="copy the file again")


def check_is_new(target: Path) -> None:
    """Raises `AlreadyExists` unless `target` can become a new directory: nothing is there, or an empty directory."""
    try:
        is_empty = not target.is_symlink() and not any(target.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise _exists(target) from error
    if not is_empty or target.name in {"", ".."}:
        raise _exists(target)


def create_directory(target: Path, files: Mapping[str, bytes], folders: Sequence[str] = ()) -> None:
    """Makes a directory that holds these files and empty folders; an empty directory may be in its place.

    Raises `AlreadyExists`, and `Refused` (NOT_WRITTEN).
    """
    check_is_new(target)
    scratch = target.with_name(f"{target.name}.{os.getpid()}.new")
    try:
        scratch.mkdir(mode=0o700)
        try:
            for name in folders:
                (scratch / name).mkdir(mode=0o700)
            for name, content in files.items():
                write_file(scratch / name, content)
            scratch.rename(target)
        except BaseException:
            rmtree(scratch, ignore_errors=True)
            raise
        sync_folder(target.parent)
    except OSError as error:
        raise Refused(f"{target} can't be made: {error.strerror}", code=ErrorCode.NOT_WRITTEN, hint=_SPACE) from error


def write_file(target: Path, content: bytes, *, replaces: bool = False) -> None:
    """Writes a file durably. Raises `AlreadyExists`, and `Refused` (NOT_WRITTEN)."""
    with named_when_whole(target, exists=_exists, hint=_SPACE, replaces=replaces) as unnamed:
        unnamed.file.write(content)


def _exists(path: Path) -> AlreadyExists:
    return AlreadyExists(
        f"{path} already exists", hint="choose another path; `leasehold ca renew` replaces the certificate of a bundle"
    )
