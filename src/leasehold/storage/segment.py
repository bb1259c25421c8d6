"""Segments: the rows of one Parquet file, which `storage/segment_encoder.py` has written.

`read_segment` reads them under any later schema: it finds columns by field id, never by name or place. Given conditions
(`read_rows`), it passes over the row groups that have no row which fulfils them.

Three checks find a damaged file. The SHA-256 in the manifest covers every byte (`verify_segment`). Every read checks
the CRC of each Parquet page, and the row counts of the footer. The footer itself has no checksum but the SHA-256.
"""

import errno
import hashlib
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from leasehold.core.words.messages import FieldFilter
from leasehold.core.words.records import Field
from leasehold.core.words.skipping import may_fulfil
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt, Definite, NotFound, Refused
from leasehold.limits.flight import FLIGHT_BATCH_BYTES
from leasehold.limits.scrub import SCRUB_PIECE_BYTES
from leasehold.limits.segments import (
    BATCH_ROWS,
    BATCH_VALUES_MAX,
    FOOTER_GROWTH,
    SCAN_READ_BYTES,
)
from leasehold.storage.schema import CAST_ERRORS, arrow_schema, cast_exactly, column_of, count_true, field_number
from leasehold.storage.statistics import bounds

_FOOTER_END_BYTES: Final = 8
"""A file ends with the length of its footer in four bytes, and four letters."""
VALUE_BYTES: Final = 16
"""The most that a value takes in memory, without the characters of a string."""


class Most(NamedTuple):
    """Of a batch."""

    rows: int = BATCH_ROWS
    bytes: int = FLIGHT_BATCH_BYTES
    values: int = BATCH_VALUES_MAX


class FileRows(NamedTuple):
    """Rows of a file, in its order."""

    batch: pa.RecordBatch
    """All columns that were asked for."""
    rows: int
    """How many rows of the file these are, with those before them that were passed over."""


MOST: Final = Most()


def read_segment(
    path: Path, fields: Sequence[Field], *, row_offset: int = 0, most: Most = MOST
) -> Iterator[pa.RecordBatch]:
    """The rows of a segment from `row_offset` on, in exactly `arrow_schema(fields)`.

    Columns are found by field id: a renamed one under its new name, a widened one cast, one added later as its first
    value in every row, a dropped one left out. Without fields the batches only count rows. A batch has at most
    `most.rows` rows, and fewer where all columns of the file, or those that it lacks, would take more than about
    `most.bytes`, or where all columns together would have more than `most.values` values. The file is opened at once.

    Raises `NotFound` if there is no file, and here or later `Corrupt` for damaged bytes, `Refused` with code
    SCHEMA_CHANGED for values that don't fit the wanted type, `Definite` with code BUSY or a `MemoryError` for want of
    memory.
    """
    return (one.batch for one in read_rows(path, fields, row_offset=row_offset, most=most))


def read_rows(
    path: Path,
    fields: Sequence[Field],
    where: tuple[FieldFilter, ...] = (),
    *,
    row_offset: int = 0,
    most: Most = MOST,
) -> Iterator[FileRows]:
    """As `read_segment`, but for the row groups that have no row that fulfils all conditions, by their statistics.

    With conditions the file must have been held against its hash: pyarrow ends the process on some damaged footers.
    """
    assert row_offset >= 0
    assert most.rows > 0
    with _reading(path):
        file = pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False, buffer_size=SCAN_READ_BYTES)
        names = _names_by_id(path, file)
    wanted = [(one, names.get(one.id)) for one in fields]
    lacking_bytes = sum(VALUE_BYTES + len((one.initial or "").encode()) for one, name in wanted if name is None)
    fitting_rows = max(1, most.bytes // max(1, lacking_bytes))
    fitting_rows = min(fitting_rows, max(1, most.values // max(1, len(wanted))))
    most = most._replace(rows=min(most.rows, fitting_rows))
    return _batches(path, file, wanted, _GroupTest(file, names, where), skip=row_offset, most=most)


def footer_bytes(path: Path) -> int:
    """About what the footer of a file takes in the memory of its readers, at most: Arrow decodes all of it, however few
    columns are read. Raises as `verify_segment`."""
    with _reading(path), path.open("rb", buffering=0) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        end = os.pread(file.fileno(), _FOOTER_END_BYTES, max(0, size_bytes - _FOOTER_END_BYTES))
    return FOOTER_GROWTH * min(size_bytes, int.from_bytes(end[:4], "little"))


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
    path: Path,
    file: pq.ParquetFile,
    wanted: list[tuple[Field, str | None]],
    test: "_GroupTest",
    *,
    skip: int,
    most: Most,
) -> Iterator[FileRows]:
    present = list(dict.fromkeys(name for _, name in wanted if name is not None))
    projection = _Projection(wanted)
    passed_over = 0
    with file:
        for group, rows in enumerate(_row_counts(path, file)):
            if skip >= rows:
                skip -= rows
                continue
            if not test.may_match(group):
                passed_over += rows - skip
                skip = 0
                continue
            seen = 0
            fitting_rows = max(1, most.bytes * rows // max(1, file.metadata.row_group(group).total_byte_size))
            for raw in _decoded(path, file, group, rows, present, batch_rows=min(most.rows, fitting_rows)):
                seen += raw.num_rows
                if skip >= raw.num_rows:
                    skip -= raw.num_rows
                    continue
                # An error in here is no damage of the file.
                batch = projection.of(raw.slice(skip) if skip else raw)
                yield FileRows(batch, passed_over + batch.num_rows)
                skip = passed_over = 0
            if seen != rows:
                raise _corrupt(path, f"row group {group} holds {seen} rows where the footer says {rows}")
    if passed_over:
        yield FileRows(pa.RecordBatch.from_pylist([], schema=projection.schema), passed_over)


class _GroupTest:
    """Tells which row groups of a file may have rows that fulfil all conditions."""

    def __init__(self, file: pq.ParquetFile, names: dict[int, str], where: tuple[FieldFilter, ...]) -> None:
        self._metadata = file.metadata
        schema = file.schema_arrow
        places = {name: place for place, name in enumerate(schema.names)} if where else {}
        self._tests = [
            (one.field, places[names[one.field.id]], may_fulfil(one.field, one.operator, one.values))
            for one in where
            if one.field.id in names and not _is_up_to_nan(one)
        ]
        self._kinds = {place: schema.field(place).type for _, place, _ in self._tests}

    def may_match(self, group: int) -> bool:
        if not self._tests:
            return True
        found = self._metadata.row_group(group)
        for field, place, test in self._tests:
            chunk = found.column(place).statistics
            if chunk is not None and not test(
                bounds(field, self._kinds[place], [chunk], found.num_rows), found.num_rows
            ):
                return False
        return True


def _is_up_to_nan(one: FieldFilter) -> bool:
    """Whether NaN fulfils it, which the bounds in a file leave out."""
    return one.field.type in {"FLOAT", "DOUBLE"} and one.operator in {">", ">="}


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


class _Projection:
    """Makes the columns that are wanted of the batches of one file: what is the same for all of them is found once."""

    def __init__(self, wanted: list[tuple[Field, str | None]]) -> None:
        self._wanted = wanted
        self.schema = arrow_schema([field for field, _ in wanted])
        self._places: list[int | None] | None = None
        self._is_as_wanted = False

    def of(self, raw: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of the file as the reader wants it."""
        if not self._wanted:
            return raw.select([]).replace_schema_metadata(None)
        places = self._places or self._look(raw.schema)
        found = raw.columns
        columns = [None if place is None else found[place] for place in places]
        if not self._is_as_wanted:
            columns = [
                self._lacking(field, raw.num_rows) if column is None else _as_asked(column, field, kind)
                for column, (field, _), kind in zip(columns, self._wanted, self.schema.types, strict=True)
            ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _look(self, raw_schema: pa.Schema) -> list[int | None]:
        """Where the columns are in the batches of the file, which all have this schema."""
        by_name = {name: place for place, name in enumerate(raw_schema.names)}
        kinds = raw_schema.types
        self._places = places = [None if name is None else by_name[name] for _, name in self._wanted]
        self._is_as_wanted = all(
            place is not None and kinds[place] == kind for place, kind in zip(places, self.schema.types, strict=True)
        )
        return places

    def _lacking(self, field: Field, rows: int) -> pa.Array:
        if field.nullable or field.initial is not None:
            return column_of(field.initial, field.type, rows)
        raise _changed_since(f"column {field.name} is NOT NULL, and these rows have none with its field id")


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
