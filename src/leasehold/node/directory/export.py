"""Exports a segment of a node's own disk as a Parquet file with the column names of its table."""

import os
from pathlib import Path

import msgspec

from leasehold.core.catalog.catalog import live_fields
from leasehold.core.data.hidden_rows import Hidings
from leasehold.core.words.records import SegmentFormat
from leasehold.durable import named_when_whole
from leasehold.error_codes import ErrorCode
from leasehold.errors import AlreadyExists, Corrupt, NotFound, Refused
from leasehold.ids import SegmentId
from leasehold.limits.segments import ROW_GROUP_BYTES, SEGMENT_BYTES_MAX
from leasehold.node.directory.standalone import Standalone
from leasehold.node.disk.masks import shown
from leasehold.storage.row_room import RowRoom
from leasehold.storage.segment import read_segment, verify_segment
from leasehold.storage.segment_encoder import SegmentEncoder
from leasehold.vault.format import FILE_NAME


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """The file that was written. `hidden` of its rows are deleted or expired."""

    table: str
    segment: SegmentId
    columns: tuple[str, ...]
    rows: int
    hidden: int
    size_bytes: int
    sha256: bytes


def export_segment(standalone: Standalone, segment: SegmentId, target: Path) -> Exported:
    """Writes all rows of a segment to the new file `target`, completely or not at all, after its checksum was read.

    Raises `NotFound` for a segment or table that the projection does not know, `AlreadyExists` if `target` exists,
    `Corrupt` for a damaged segment, `Refused` (NOT_WRITTEN) if the file can't be written, or is in a node's directory.
    """
    record = standalone.segment(segment)
    table = standalone.catalog.tables.get(record.table)
    if table is None:
        raise NotFound(
            f"the table of segment {segment} was dropped, so its columns are not known",
            hint="copy the file of the segment instead, whose columns are named by field id",
        )
    if os.path.lexists(target):
        raise _exists(target)
    _check_no_node(target)
    path = standalone.files.path(record.table, record.bucket, record.id)
    verify_segment(path, size_bytes=record.size_bytes, sha256=record.sha256)
    fields = live_fields(table)
    hiding = Hidings().of(table, record, standalone.catalog)
    left = 0
    with named_when_whole(target, exists=_exists, hint="choose another --to") as unnamed:
        # This process does nothing else, so a footer may take what memory it needs.
        encoder = SegmentEncoder(
            fields,
            unnamed.file.write,
            in_format=SegmentFormat.COLUMN_NAMES,
            footer_bytes_max=SEGMENT_BYTES_MAX,
            room=RowRoom(ROW_GROUP_BYTES, SEGMENT_BYTES_MAX),
        )
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
    """A node takes files in its directory for its own, by their names."""
    where = target.parent.resolve()
    for folder in (where, *where.parents):
        if os.path.lexists(folder / FILE_NAME):
            raise Refused(
                f"{target} lies in the directory of a node, {folder}",
                code=ErrorCode.NOT_WRITTEN,
                hint="choose another --to, outside of it",
            )


def _exists(target: Path) -> AlreadyExists:
    return AlreadyExists(f"{target} already exists", hint="choose another --to")
