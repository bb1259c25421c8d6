"""One segment of a node's own disk as a Parquet file for anybody, with the column names of the projection's schema."""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from leasehold.core.catalog.catalog import live_fields
from leasehold.core.data.hidden_rows import Hidings
from leasehold.durable import sync_folder
from leasehold.error_codes import ErrorCode
from leasehold.errors import AlreadyExists, Corrupt, NotFound, Refused
from leasehold.ids import SegmentId
from leasehold.node.directory.standalone import Standalone
from leasehold.node.disk.masks import shown
from leasehold.storage.segment import SegmentEncoder, read_segment, verify_segment
from leasehold.vault.format import FILE_NAME


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What the file holds. `hidden` of its rows no scan shows any more: a DELETE took them, or they have expired."""

    table: str
    segment: SegmentId
    columns: tuple[str, ...]
    rows: int
    hidden: int
    size_bytes: int
    sha256: bytes


def export_segment(standalone: Standalone, segment: SegmentId, target: Path) -> Exported:
    """Writes all rows of a segment to `target`, which is there whole or not at all, and never replaces anything.

    The file of the segment is held against its SHA-256 first. Raises `NotFound` for a segment or table that the
    projection does not know, `AlreadyExists` if `target` is there, `Corrupt` for a damaged file, `Refused` with code
    NOT_WRITTEN if the file can't be written, or would lie in a node's directory.
    """
    record = standalone.segment(segment)
    table = standalone.catalog.tables.get(record.table)
    if table is None:
        raise NotFound(
            f"the table of segment {segment} was dropped, so its columns are not known",
            hint="copy the file of the segment instead",
        )
    if os.path.lexists(target):
        raise _exists(target)
    _check_no_node(target)
    path = standalone.files.path(record.table, record.bucket, record.id)
    verify_segment(path, size_bytes=record.size_bytes, sha256=record.sha256)
    fields = live_fields(table)
    hiding = Hidings().of(table, record, standalone.catalog)
    left = 0
    with _whole(target) as file:
        encoder = SegmentEncoder(fields, file.write)
        for batch in read_segment(path, (*fields, *hiding.fields)):
            encoder.write(batch.select(range(len(fields))))
            left += shown(hiding, batch, len(fields)).num_rows
        encoded = encoder.finish()
        if encoded.rows != record.rows:
            raise Corrupt(
                f"segment file {path} holds {encoded.rows} rows where the manifest says {record.rows}",
                hint="read it from another replica",
            )
    return Exported(
        table=standalone.table_name(table.id),
        segment=segment,
        columns=tuple(field.name for field in fields),
        rows=encoded.rows,
        hidden=encoded.rows - left,
        size_bytes=encoded.size_bytes,
        sha256=encoded.sha256,
    )


def _check_no_node(target: Path) -> None:
    """A node takes files in its directory for its own: by their names they would be its log, or a reset under way."""
    where = target.parent.resolve()
    for folder in (where, *where.parents):
        if os.path.lexists(folder / FILE_NAME):
            raise Refused(
                f"{target} lies in the directory of a node, {folder}",
                code=ErrorCode.NOT_WRITTEN,
                hint="choose another --to, outside of it",
            )


class _File:
    """A file being written, by its descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, chunk: bytes) -> None:
        rest = memoryview(chunk)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]


@contextmanager
def _whole(target: Path) -> Generator[_File]:
    """A file that gets its name once it is complete and on the disk, unless the name is taken by then."""
    scratch = target.with_name(f"{target.name}.{os.getpid()}.new")
    try:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            yield _File(descriptor)
            os.fsync(descriptor)
            # A rename would replace what is there.
            target.hardlink_to(scratch)
        finally:
            os.close(descriptor)
            with suppress(FileNotFoundError):
                scratch.unlink()
        sync_folder(target.parent)
    except FileExistsError as error:
        raise _exists(Path(str(error.filename2 or error.filename))) from error
    except OSError as error:
        raise Refused(
            f"{target} can't be written: {error.strerror}", code=ErrorCode.NOT_WRITTEN, hint="choose another --to"
        ) from error


def _exists(target: Path) -> AlreadyExists:
    return AlreadyExists(f"{target} already exists", hint="choose another --to")
