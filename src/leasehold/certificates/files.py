"""The directories of authorities and bundles, and the files in them.

An **authority** is `ca.pem` (its certificate), `ca-key.pem`, `issued/SERIAL.pem` for each certificate that it signed,
and `predecessors.pem` if it succeeds another one. A **bundle** is `identity.pem` (the key and certificate of one
process or user, then those of intermediate authorities) and `ca.pem` (the authorities that it trusts).

A directory appears whole, under its name, or not at all. A file is replaced in one step. Only the owner can read them.
"""

import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Final

from leasehold.durable import named_when_whole, sync_folder
from leasehold.error_codes import ErrorCode
from leasehold.errors import AlreadyExists, BadCertificate, Refused, typed
from leasehold.limits.certificates import CERTIFICATE_FILE_BYTES_MAX
from leasehold.private_files import check_unchanged_by_others, read_any, read_secret, read_trusted

CA: Final = "ca.pem"
CA_KEY: Final = "ca-key.pem"
ISSUED: Final = "issued"
PREDECESSORS: Final = "predecessors.pem"
IDENTITY: Final = "identity.pem"

_EDGE: Final = re.compile(rb"-----(BEGIN|END) ([A-Z0-9 ]{1,40})-----\s*")
_SPACE: Final = "check the space on the disk and your rights there"


def read_key_file(path: Path) -> bytes:
    """A file with a private key. Raises `BadCertificate`, also if another user could read or change it."""
    return read_secret(path, CERTIFICATE_FILE_BYTES_MAX, _bad(path), _hint_for_missing(path))


def read_public_file(path: Path) -> bytes:
    """A file whose content says who is trusted. Raises `BadCertificate`, also if another user could change it."""
    return read_trusted(path, CERTIFICATE_FILE_BYTES_MAX, _bad(path), _hint_for_missing(path))


def read_any_file(path: Path) -> bytes:
    """A file, whoever may read or change it. Raises `BadCertificate`."""
    return read_any(path, CERTIFICATE_FILE_BYTES_MAX, _bad(path), _hint_for_missing(path))


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
    check_unchanged_by_others(path, found, _bad(path))


def check_folder(path: Path) -> None:
    """Raises `BadCertificate` unless this is a folder of its own directory, not a link to one, and nobody else can
    write to it."""
    hint = "it must be a folder of its own: restore it from a backup of the authority"
    try:
        found = path.lstat()
    except OSError as error:
        raise BadCertificate(f"{path} can't be read: {error.strerror}", hint=hint) from error
    if not stat.S_ISDIR(found.st_mode):
        what = "a link, which may lead elsewhere" if stat.S_ISLNK(found.st_mode) else "not a directory"
        raise BadCertificate(f"{path} is {what}", hint=hint)
    check_unchanged_by_others(path, found, _bad(path))


def _hint_for_missing(path: Path) -> str:
    if path.name == CA_KEY:
        return "name the directory that `leasehold ca init` made, on the machine that keeps it"
    if path.name == IDENTITY:
        return "`leasehold ca issue CA-DIRECTORY --node NAME --to BUNDLE` makes a bundle"
    return "name a file in PEM format that this user may read"


def _bad(path: Path) -> Callable[[str, str], BadCertificate]:
    return lambda text, hint: BadCertificate(f"{path} {text}", hint=hint)


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
