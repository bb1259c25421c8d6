"""Arrow rows as the bytes of one Parquet file; `storage/segment.py` reads them back.

`SegmentEncoder` hands the bytes on in chunks while it encodes, so that one encoding feeds the local disk and the peers,
and every replica has the same bytes under one SHA-256.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from leasehold.core.data.appends import EncodedSegment
from leasehold.core.words.records import ColumnStatistics, Field, SegmentFormat
from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite, Refused
from leasehold.ids import FieldId
from leasehold.limits.replication import FORWARD_CHUNK_BYTES
from leasehold.limits.segments import (
    CHUNK_BOUND_BYTES_MAX,
    CHUNK_BYTES,
    CHUNK_INDEXED_BYTES,
    DICTIONARY_SAMPLE_ROWS,
    ENCODER_BATCHES_MAX,
    FOOTER_LARGE_BYTES,
    PAGE_BYTES,
    PAGE_INDEX_COLUMNS_MAX,
    PLAIN_BYTES_MAX,
    ROW_GROUP_BYTES,
    ROW_GROUP_BYTES_MIN,
    ROW_GROUP_ROWS,
    SCAN_FIRST_BYTES_MAX,
    SEGMENT_BYTES_MAX,
    SEGMENT_FOOTER_BYTES_MAX,
    WRITE_ROWS_MAX,
)
from leasehold.storage.chunk_sink import ChunkSink
from leasehold.storage.held_rows import HeldRows
from leasehold.storage.row_room import RowRoom
from leasehold.storage.schema import arrow_schema, count_true, physical_name
from leasehold.storage.statistics import column_statistics


class SegmentEncoder:
    """Encodes batches of one schema as one Parquet file; one thread at a time uses it.

    `in_format` says how the file names its columns: segments by the newest format, files for people by column names.
    `write` gets the bytes of the file in order, in chunks of mostly FORWARD_CHUNK_BYTES, never more. At most one row
    group is in memory, of `row_group_rows` rows or about ROW_GROUP_BYTES; it is smaller while the encoders that share
    `room` hold much together. An error of `write` is raised by the method that called it. After any error nothing more
    is handed on, and only `abort` may follow.

    Of columns of strings and bytes, the file keeps the bounds of those in `bounded`, by default of all; of all other
    columns it always does. Parquet's writer keeps what the footer will say of each finished row group. A file for which
    that would be more than `footer_bytes_max` is refused, and so is a row group for which `room` has no place left.
    """

    def __init__(
        self,
        fields: Sequence[Field],
        write: Callable[[bytes], object],
        *,
        in_format: SegmentFormat = SegmentFormat.FIELD_IDS,
        row_group_rows: int = ROW_GROUP_ROWS,
        bytes_max: int = SEGMENT_BYTES_MAX,
        footer_bytes_max: int = SEGMENT_FOOTER_BYTES_MAX,
        bounded: Collection[FieldId] | None = None,
        room: RowRoom | None = None,
    ) -> None:
        assert 1 <= row_group_rows <= ROW_GROUP_ROWS
        self._fields = tuple(fields)
        self._schema = arrow_schema(fields)
        self._format = in_format
        self._names = [physical_name(one, in_format) for one in fields]
        texts = [place for place, kind in enumerate(self._schema.types) if _is_text(kind)]
        self._unbounded = {one for one in texts if bounded is not None and fields[one].id not in bounded}
        """The columns without bounds in the file."""
        self._bounded_texts = [one for one in texts if one not in self._unbounded]
        self._has_page_index = len(self._names) <= PAGE_INDEX_COLUMNS_MAX
        self._is_ended = False
        self._footer_bytes = 0
        """What `room` counts for the finished row groups of this file."""
        self._footer_bytes_max = footer_bytes_max
        self._row_group_rows = row_group_rows
        self._room = room or RowRoom(ROW_GROUP_BYTES)
        self._sink = ChunkSink(write, bytes_max)
        # Arrow writes a page and its header at a time; a call into Python for each would cost a tenth of the encoding.
        self._stream = pa.BufferedOutputStream(pa.PythonFile(self._sink, mode="w"), FORWARD_CHUNK_BYTES)
        self._writer: pq.ParquetWriter | None = None
        self._written: list[pq.FileMetaData] = []
        self._pending = HeldRows(ENCODER_BATCHES_MAX)
        self._counted_bytes = 0
        """What `room` counts for this encoder."""
        self._holds_large_value = False
        self._with_nan: set[int] = set()
        self._floats = [place for place, kind in enumerate(self._schema.types) if pa.types.is_floating(kind)]
        self._repeats_strings = any(map(pa.types.is_string, self._schema.types))
        """Whether it does, or may where the file has not begun."""
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes the rows of `batch`, whose schema is exactly `arrow_schema(fields)`. Raises `Refused` with code
        SEGMENT_TOO_LARGE over `bytes_max` or `footer_bytes_max`, and `Definite` with code BUSY for want of room."""
        assert not self._sink.closed, "a finished or aborted segment takes no rows"
        assert batch.schema.equals(self._schema, check_metadata=True), "conform() comes first"
        for start in range(0, batch.num_rows, self._row_group_rows):
            self._hold(batch.slice(start, self._row_group_rows))

    def finish(self) -> EncodedSegment:
        """Hands on the rest of the file and describes it. A segment without rows is a file as well."""
        assert not self._sink.closed, "a segment is finished once"
        self._write_row_group(is_last=True)  # peers may be slow to take it, so others don't wait for it
        writer = self._writer or self._open()
        with self._ending():
            writer.close()
            self._stream.flush()
            self._sink.close()
            statistics = self._statistics()
            self._end()
        return EncodedSegment(
            sha256=self._sink.sha256.digest(),
            rows=self.rows,
            size_bytes=self._sink.size_bytes,
            statistics=statistics,
            format=self._format,
        )

    def abort(self) -> None:
        """Drops everything; nothing more is handed on. Idempotent, and without effect on a finished segment."""
        self._sink.close()
        self._forget()
        with self._ending():  # an abandoned writer makes its footer all the same
            self._end()

    def _ending(self) -> AbstractContextManager[object]:
        is_large = self._footer_bytes > FOOTER_LARGE_BYTES
        return self._room.large_footers if is_large and not self._is_ended else nullcontext()

    def _end(self) -> None:
        self._is_ended = True
        self._writer = None
        self._written.clear()
        self._room.drop_footers(self._footer_bytes)
        self._footer_bytes = 0

    def _statistics(self) -> tuple[ColumnStatistics, ...]:
        return tuple(
            column_statistics(field, kind, place, self._written[0], comparable=place not in self._with_nan)
            for place, (field, kind) in enumerate(zip(self._fields, self._schema.types, strict=True))
            if place not in self._unbounded
        )

    def _hold(self, batch: pa.RecordBatch) -> None:
        if self._pending.rows + batch.num_rows > self._row_group_rows:
            self._write_row_group()
        pending = self._pending
        pending.add(batch)
        self._count()
        self.rows += batch.num_rows
        if self._room.is_full:
            pending.shrink()  # a row group of few rows would cost every reader more
            self._count()
        is_large = pending.value_bytes >= ROW_GROUP_BYTES_MIN and self._room.is_full
        # A file does not say how long the values of a dictionary are, so a reader may decode a whole row group at once.
        is_large |= pending.value_bytes >= SCAN_FIRST_BYTES_MAX and self._repeats_strings
        self._holds_large_value |= _has_large_value(batch)
        is_large |= self._holds_large_value
        if pending.rows >= self._row_group_rows or is_large:
            self._write_row_group()

    def _write_row_group(self, *, is_last: bool = False) -> None:
        if not self._pending.batches:
            return
        rows = pa.Table.from_batches(self._pending.batches, self._schema)
        self._count_footer(rows, is_last)
        writer = self._writer or self._open()
        with self._room.large_values if self._holds_large_value else nullcontext():
            writer.write_table(rows.rename_columns(self._names), row_group_size=self._row_group_rows)
        # The bounds that Parquet keeps leave NaN out; Spark orders it above all numbers, so it voids them.
        self._with_nan.update(place for place in self._floats if count_true("is_nan", rows.column(place)))
        self._forget()

    def _forget(self) -> None:
        self._pending = HeldRows(ENCODER_BATCHES_MAX)
        self._holds_large_value = False
        self._count()

    def _count(self) -> None:
        self._room.add(self._pending.size_bytes - self._counted_bytes)
        self._counted_bytes = self._pending.size_bytes

    def _count_footer(self, rows: pa.Table, is_last: bool) -> None:
        """Counts what the writer will keep of a row group with these rows. A file may have one in any case."""
        size = rows.num_columns * self._chunk_bytes()
        for place in self._bounded_texts:
            column = rows.column(place)
            pages = 1 + column.nbytes // PAGE_BYTES if self._has_page_index else 0
            # The lowest and the highest value, twice: Parquet copies them when the file ends.
            size += 2 * _longest(column, CHUNK_BOUND_BYTES_MAX) * (2 + pages)
        own_bytes = self._footer_bytes + size
        if self._footer_bytes and own_bytes > self._footer_bytes_max:
            raise Refused(
                f"a segment of {rows.num_columns} columns would have too many small row groups",
                code=ErrorCode.SEGMENT_TOO_LARGE,
                hint="write the rows in several segments",
            )
        # The last one does not wait in memory for more rows.
        if not self._room.add_footer(size, own_bytes=0 if is_last else own_bytes):
            raise Definite(
                "the writes of this node have too many small row groups together",
                code=ErrorCode.BUSY,
                hint="another replica may serve; or try again with fewer streams at once",
            )
        self._footer_bytes = own_bytes

    def _chunk_bytes(self) -> int:
        return CHUNK_INDEXED_BYTES if self._has_page_index else CHUNK_BYTES

    def _open(self) -> pq.ParquetWriter:
        schema = pa.schema([one.with_name(name) for one, name in zip(self._schema, self._names, strict=True)])
        # What makes a large file smaller takes longer than all else in a small one.
        is_plain = self._pending.value_bytes <= PLAIN_BYTES_MAX
        repetitive = False if is_plain else self._repetitive()
        self._repeats_strings = bool(repetitive)
        timestamps = [] if is_plain else [one.name for one in schema if pa.types.is_timestamp(one.type)]
        self._writer = pq.ParquetWriter(
            self._stream,
            schema,
            write_batch_size=self._rows_at_once(),
            compression="none" if is_plain else "zstd",
            compression_level=None if is_plain else 1,
            # The stubs say bool; a list of names is documented as well, here and below.
            use_dictionary=repetitive,  # pyright: ignore[reportArgumentType]
            column_encoding=dict.fromkeys(timestamps, "DELTA_BINARY_PACKED") or None,
            write_statistics=self._bounded_names() if self._unbounded else True,  # pyright: ignore[reportArgumentType]
            write_page_index=self._has_page_index and not is_plain,
            write_page_checksum=True,
            store_schema=False,
            metadata_collector=self._written,
        )
        return self._writer

    def _bounded_names(self) -> list[str]:
        return [name for place, name in enumerate(self._names) if place not in self._unbounded]

    def _rows_at_once(self) -> int:
        """Parquet looks only between so many rows whether a page is full, and a reader decodes whole pages."""
        if not self._pending.batches:
            return WRITE_ROWS_MAX
        return max(1, min(WRITE_ROWS_MAX, PAGE_BYTES * self._pending.rows // max(1, self._pending.value_bytes)))

    def _repetitive(self) -> list[str] | bool:
        """The string columns whose first rows repeat themselves. There are rows."""
        sample = pa.Table.from_batches(self._pending.batches, self._schema).slice(0, DICTIONARY_SAMPLE_ROWS)
        names = [
            name
            for name, column in zip(self._names, sample.columns, strict=True)
            if pa.types.is_string(column.type)
            and pc.call_function("count_distinct", [column]).as_py() * 2 <= sample.num_rows
        ]
        return names or False


def _has_large_value(batch: pa.RecordBatch) -> bool:
    """Whether a value is larger than a page, which has to hold it whole."""
    return batch.nbytes > PAGE_BYTES and any(
        _longest(column) > PAGE_BYTES for column in batch.columns if _is_text(column.type)
    )


def _longest(column: pa.Array | pa.ChunkedArray, bytes_max: int | None = None) -> int:
    """The bytes of the longest value, of those that have at most `bytes_max`."""
    sizes = pc.call_function("binary_length", [column])
    if bytes_max is not None:
        sizes = sizes.filter(pc.call_function("less_equal", [sizes, pa.scalar(bytes_max, sizes.type)]))
    return pc.call_function("max", [sizes]).as_py() or 0


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_binary(kind)
