"""Segments: Arrow rows as the bytes of one Parquet file, and back.

`SegmentEncoder` hands the bytes on in chunks while it encodes, so that one encoding feeds the local disk and the peers,
and every replica has the same bytes under one SHA-256. `read_segment` reads them under any later schema: it finds
columns by field id, never by name or place.

Three checks find a damaged file. The SHA-256 in the manifest covers every byte (`verify_segment`). Every read checks
the CRC of each Parquet page, and the row counts of the footer. The footer itself has no checksum but the SHA-256.
"""

import errno
import hashlib
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from leasehold.core.data.appends import EncodedSegment
from leasehold.core.words.records import Field
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt, Definite, NotFound, Refused
from leasehold.limits.flight import FLIGHT_BATCH_BYTES
from leasehold.limits.replication import FORWARD_CHUNK_BYTES
from leasehold.limits.scrub import SCRUB_PIECE_BYTES
from leasehold.limits.segments import (
    BATCH_ROWS,
    BATCH_VALUES_MAX,
    DICTIONARY_SAMPLE_ROWS,
    ENCODER_BATCHES_MAX,
    PAGE_BYTES,
    ROW_GROUP_BYTES,
    ROW_GROUP_ROWS,
    SCAN_READ_BYTES,
    SEGMENT_BYTES_MAX,
    WRITE_ROWS_MAX,
)
from leasehold.storage.chunk_sink import ChunkSink
from leasehold.storage.schema import CAST_ERRORS, arrow_schema, cast_exactly, column_of, count_true, field_number
from leasehold.storage.statistics import column_statistics

VALUE_BYTES: Final = 16
"""The most that a value takes in memory, without the characters of a string."""


# ---------------------------------------------------------------- writing


class SegmentEncoder:
    """Encodes batches of one schema as one Parquet file; one thread at a time uses it.

    `write` gets the bytes of the file in order, in chunks of mostly FORWARD_CHUNK_BYTES, never more. At most one row
    group is in memory, of `row_group_rows` rows or about ROW_GROUP_BYTES. An error of `write` is raised by the method
    that called it. After any error nothing more is handed on, and only `abort` may follow.
    """

    def __init__(
        self,
        fields: Sequence[Field],
        write: Callable[[bytes], object],
        *,
        row_group_rows: int = ROW_GROUP_ROWS,
        bytes_max: int = SEGMENT_BYTES_MAX,
    ) -> None:
        assert 1 <= row_group_rows <= ROW_GROUP_ROWS
        self._fields = tuple(fields)
        self._schema = arrow_schema(fields)
        self._row_group_rows = row_group_rows
        self._sink = ChunkSink(write, bytes_max)
        # Arrow writes a page and its header at a time; a call into Python for each would cost a tenth of the encoding.
        self._stream = pa.BufferedOutputStream(pa.PythonFile(self._sink, mode="w"), FORWARD_CHUNK_BYTES)
        self._writer: pq.ParquetWriter | None = None
        self._written: list[pq.FileMetaData] = []
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._with_nan: set[int] = set()
        self._floats = [place for place, kind in enumerate(self._schema.types) if pa.types.is_floating(kind)]
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes the rows of `batch`, whose schema is exactly `arrow_schema(fields)`. Raises `Refused` with code
        SEGMENT_TOO_LARGE over `bytes_max`."""
        assert not self._sink.closed, "a finished or aborted segment takes no rows"
        assert batch.schema.equals(self._schema, check_metadata=True), "conform() comes first"
        for start in range(0, batch.num_rows, self._row_group_rows):
            self._hold(batch.slice(start, self._row_group_rows))

    def finish(self) -> EncodedSegment:
        """Hands on the rest of the file and describes it. A segment without rows is a file as well."""
        assert not self._sink.closed, "a segment is finished once"
        self._write_row_group()
        writer = self._writer or self._open()
        writer.close()
        self._stream.flush()
        self._sink.close()
        return EncodedSegment(
            sha256=self._sink.sha256.digest(),
            rows=self.rows,
            size_bytes=self._sink.size_bytes,
            statistics=tuple(
                column_statistics(field, kind, place, self._written[0], comparable=place not in self._with_nan)
                for place, (field, kind) in enumerate(zip(self._fields, self._schema.types, strict=True))
            ),
        )

    def abort(self) -> None:
        """Drops everything; nothing more is handed on. Idempotent, and without effect on a finished segment."""
        self._sink.close()
        self._pending.clear()

    def _hold(self, batch: pa.RecordBatch) -> None:
        if self._pending_rows + batch.num_rows > self._row_group_rows:
            self._write_row_group()
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        self._pending_bytes += batch.nbytes
        self.rows += batch.num_rows
        if self._pending_rows >= self._row_group_rows or self._pending_bytes >= ROW_GROUP_BYTES:
            self._write_row_group()
        elif len(self._pending) > ENCODER_BATCHES_MAX:
            self._pending = [pa.concat_batches(self._pending)]

    def _write_row_group(self) -> None:
        if not self._pending:
            return
        rows = pa.Table.from_batches(self._pending, self._schema)
        writer = self._writer or self._open()
        writer.write_table(rows, row_group_size=self._row_group_rows)
        # The bounds that Parquet keeps leave NaN out; Spark orders it above all numbers, so it voids them.
        self._with_nan.update(place for place in self._floats if count_true("is_nan", rows.column(place)))
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def _open(self) -> pq.ParquetWriter:
        timestamps = [field.name for field in self._schema if pa.types.is_timestamp(field.type)]
        self._writer = pq.ParquetWriter(
            self._stream,
            self._schema,
            write_batch_size=self._rows_at_once(),
            compression="zstd",
            compression_level=1,
            # The stubs say bool; a list of names is documented as well.
            use_dictionary=self._repetitive(),  # pyright: ignore[reportArgumentType]
            column_encoding=dict.fromkeys(timestamps, "DELTA_BINARY_PACKED") or None,
            write_page_index=True,
            write_page_checksum=True,
            store_schema=False,
            metadata_collector=self._written,
        )
        return self._writer

    def _rows_at_once(self) -> int:
        """Parquet looks only between so many rows whether a page is full, and a reader decodes whole pages."""
        if not self._pending:
            return WRITE_ROWS_MAX
        return max(1, min(WRITE_ROWS_MAX, PAGE_BYTES * self._pending_rows // max(1, self._pending_bytes)))

    def _repetitive(self) -> list[str] | bool:
        """The string columns whose first rows repeat themselves."""
        if not self._pending:
            return False
        sample = pa.Table.from_batches(self._pending, self._schema).slice(0, DICTIONARY_SAMPLE_ROWS)
        names = [
            field.name
            for field, column in zip(self._schema, sample.columns, strict=True)
            if pa.types.is_string(field.type)
            and pc.call_function("count_distinct", [column]).as_py() * 2 <= sample.num_rows
        ]
        return names or False


# ---------------------------------------------------------------- reading


class _Most(NamedTuple):
    """Of a batch, in rows and in bytes."""

    rows: int
    size: int


def read_segment(
    path: Path,
    fields: Sequence[Field],
    *,
    row_offset: int = 0,
    batch_rows: int = BATCH_ROWS,
    batch_values_max: int = BATCH_VALUES_MAX,
    batch_bytes: int = FLIGHT_BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The rows of a segment from `row_offset` on, in exactly `arrow_schema(fields)`, at most `batch_rows` at a time.

    Columns are found by field id: a renamed one under its new name, a widened one cast, one added later as its first
    value in every row, a dropped one left out. Without fields the batches only count rows. A batch has fewer rows where
    all columns of the file, or those that it lacks, would take more than about `batch_bytes`, or where all columns
    together would have more than `batch_values_max` values. The file is opened at once.

    Raises `NotFound` if there is no file, and here or later `Corrupt` for damaged bytes, `Refused` with code
    SCHEMA_CHANGED for values that don't fit the wanted type, `Definite` with code BUSY or a `MemoryError` for want of
    memory.
    """
    assert row_offset >= 0
    assert batch_rows > 0
    with _reading(path):
        file = pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False, buffer_size=SCAN_READ_BYTES)
        names = _names_by_id(path, file)
    wanted = [(one, names.get(one.id)) for one in fields]
    lacking_bytes = sum(VALUE_BYTES + len((one.initial or "").encode()) for one, name in wanted if name is None)
    fitting_rows = max(1, batch_bytes // max(1, lacking_bytes))
    fitting_rows = min(fitting_rows, max(1, batch_values_max // max(1, len(wanted))))
    most = _Most(min(batch_rows, fitting_rows), batch_bytes)
    return _batches(path, file, wanted, skip=row_offset, most=most)


def verify_segment(path: Path, *, size_bytes: int, sha256: bytes) -> None:
    """Compares a file with the manifest, byte by byte. Raises `Corrupt` if it differs, `NotFound` if there is none,
    `Definite` if it can't be read."""
    with _reading(path):
        _check_size(path, size_bytes)
        with path.open("rb", buffering=0) as file:
            found = hashlib.file_digest(file, "sha256").digest()
    _check_hash(path, found, sha256)


def verified_pieces(path: Path, *, size_bytes: int, sha256: bytes) -> Iterator[int]:
    """As `verify_segment`, one piece of at most SCRUB_PIECE_BYTES after the other; yields the length of each. The bytes
    come from the disk: what the kernel has of the file in memory is dropped before and after."""
    with _reading(path):
        _check_size(path, size_bytes)
        digest = hashlib.sha256()
        with path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while piece := file.read(SCRUB_PIECE_BYTES):
                digest.update(piece)
                yield len(piece)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    _check_hash(path, digest.digest(), sha256)


def _check_size(path: Path, size_bytes: int) -> None:
    found_bytes = path.stat().st_size
    if found_bytes != size_bytes:
        raise _corrupt(path, f"it has {found_bytes} bytes where the manifest says {size_bytes}")


def _check_hash(path: Path, found: bytes, sha256: bytes) -> None:
    if found != sha256:
        raise _corrupt(path, f"its SHA-256 is {found.hex()} where the manifest says {sha256.hex()}")


def _names_by_id(path: Path, file: pq.ParquetFile) -> dict[int, str]:
    names: dict[int, str] = {}
    for field in file.schema_arrow:
        number = field_number(field)
        if number is None or names.setdefault(number, field.name) != field.name:
            raise _corrupt(path, f"column {field.name!r} has no field id of its own")
    if len(set(names.values())) != file.metadata.num_columns:
        raise _corrupt(path, "two columns have one name")
    return names


def _batches(
    path: Path, file: pq.ParquetFile, wanted: list[tuple[Field, str | None]], *, skip: int, most: _Most
) -> Iterator[pa.RecordBatch]:
    present = list(dict.fromkeys(name for _, name in wanted if name is not None))
    with file:
        for group, rows in enumerate(_row_counts(path, file)):
            if skip >= rows:
                skip -= rows
                continue
            seen = 0
            fitting_rows = max(1, most.size * rows // max(1, file.metadata.row_group(group).total_byte_size))
            for raw in _decoded(path, file, group, rows, present, batch_rows=min(most.rows, fitting_rows)):
                seen += raw.num_rows
                if skip >= raw.num_rows:
                    skip -= raw.num_rows
                    continue
                # An error in here is no damage of the file.
                batch = _projected(raw.slice(skip), wanted)
                skip = 0
                yield batch
            if seen != rows:
                raise _corrupt(path, f"row group {group} holds {seen} rows where the footer says {rows}")


def _row_counts(path: Path, file: pq.ParquetFile) -> list[int]:
    # No column is asked of the metadata: on a damaged footer pyarrow's accessor for columns ends the whole process.
    counts = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    if sum(counts) != file.metadata.num_rows or any(count < 0 for count in counts):
        raise _corrupt(path, f"its row groups hold {counts[:16]} rows, the whole {file.metadata.num_rows}")
    return counts


def _decoded(
    path: Path, file: pq.ParquetFile, group: int, rows: int, names: list[str], *, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """The batches of one row group of `rows` rows; row groups are read one by one, so that only one is in memory."""
    if not names:
        for start in range(0, rows, batch_rows):
            counted = pa.nulls(min(batch_rows, rows - start))
            yield pa.RecordBatch.from_arrays([counted], ["counted"]).select([])
        return
    with _reading(path):
        stream = file.iter_batches(batch_rows, row_groups=[group], columns=names)
    while True:
        with _reading(path):
            batch = next(stream, None)
        if batch is None:
            return
        yield batch


def _projected(raw: pa.RecordBatch, wanted: list[tuple[Field, str | None]]) -> pa.RecordBatch:
    if not wanted:
        return raw.select([]).replace_schema_metadata(None)
    columns: list[pa.Array] = []
    schema = arrow_schema([field for field, _ in wanted])
    for (field, name), kind in zip(wanted, schema.types, strict=True):
        if name is not None:
            columns.append(_as_asked(raw.column(name), field, kind))
        elif field.nullable or field.initial is not None:
            columns.append(column_of(field.initial, field.type, raw.num_rows))
        else:
            raise _changed_since(f"column {field.name} is NOT NULL, and these rows have none with its field id")
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _as_asked(column: pa.Array, field: Field, kind: pa.DataType) -> pa.Array:
    """The column in the type `kind`, which may be wider than the file's, or narrower if all values fit."""
    if column.type == kind:
        return column
    try:
        found = cast_exactly(column, kind)
        if not pa.types.is_float32(kind):
            return found
        # A cast to FLOAT rounds, which is for writers.
        changed = column.filter(pc.call_function("not_equal", [found.cast(column.type), column]))
        if not count_true("is_finite", changed):
            return found
    except CAST_ERRORS:
        pass
    raise _changed_since(f"column {field.name} holds {column.type} values that are no {field.type}")


def _changed_since(text: str) -> Refused:
    """The error for a schema that the rows were not written with; the file itself is not damaged."""
    return Refused(text, code=ErrorCode.SCHEMA_CHANGED, hint="start the scan again")


@contextmanager
def _reading(path: Path) -> Generator[None]:
    """Foreign errors as ours. Arrow reports damage as an OSError without an errno; one with it is the system's."""
    try:
        yield
    except MemoryError as error:  # Arrow's is an ArrowException as well
        raise Definite(
            f"there is no memory to read segment file {path}",
            code=ErrorCode.BUSY,
            hint="another replica may serve; or try again with fewer streams or columns at once",
        ) from error
    except FileNotFoundError as error:
        raise NotFound(
            f"segment file {path} does not exist", code=ErrorCode.SEGMENT_MISSING, hint="read it from another replica"
        ) from error
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno not in {None, errno.EIO}:
            raise Definite(
                f"segment file {path} can't be read: {error.strerror}",
                code=ErrorCode.DISK_ERROR,
                hint="check the disk and the limits of the process, then try again",
            ) from error
        raise _corrupt(path, str(error).split("\n", 1)[0][:300]) from error


def _corrupt(path: Path, why: str) -> Corrupt:
    return Corrupt(
        f"segment file {path} is damaged: {why}", hint="the node fetches it again from another replica of its bucket"
    )
