"""The rows of a SELECT on stdout or in a file: what `leasehold sql` runs in its own process."""

import contextlib
import datetime as dt
import io
import json
import math
import os
import sys
from collections.abc import Generator, Iterator
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from leasehold.cli.entry import EXIT_INTERRUPTED
from leasehold.cli.interrupt import ended_by
from leasehold.cli.login import connected
from leasehold.cli.output import RowsOutput, RowsReadLine, ending_unread, note, show_table
from leasehold.client.cluster import Cluster
from leasehold.client.query import QueryResult
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, Refused
from leasehold.limits.queries import QUERY_PROCESS_BYTES_MAX, QUERY_ROWS_SHOWN_MAX
from leasehold.wire.memory import bound_memory

_UTC: Final = "+00:00"


def show_query(
    directory: Path, user: str | None, text: str, output: RowsOutput, to: Path | None, timeout: str | None
) -> None:
    """Runs a SELECT, and shows its rows as `output` says, or writes them `to` a file. Ctrl-C ends it at once.

    The file appears, or is replaced, once all rows are written. A terminal shows the progress, unless it shows the rows
    as they come.
    """
    if output is RowsOutput.TABLE and to is not None:
        raise BadSettings("-o table can't be written to a file", hint="choose -o csv, -o json or -o parquet")
    if output is RowsOutput.PARQUET and to is None and sys.stdout.isatty():
        raise BadSettings("Parquet can't be shown on a terminal", hint="give --to FILE, or redirect the output")
    part = None if to is None else _part_of(to)

    def end() -> int:
        if part is not None:
            with contextlib.suppress(OSError):
                part.unlink()
        return EXIT_INTERRUPTED

    with (
        _bounded(),
        connected(Cluster, directory, user, timeout=timeout) as cluster,
        ended_by(end),
        RowsReadLine(is_shown=to is not None or output is RowsOutput.TABLE or not sys.stdout.isatty()) as reading,
        cluster.query(text, on_read=reading.update) as answer,
    ):
        if output is RowsOutput.TABLE:
            _show(answer, reading)
        elif to is None:
            with ending_unread():
                _write(answer, output, sys.stdout.buffer)
                sys.stdout.buffer.flush()
        else:
            with _file(to, part) as out:
                rows = _write(answer, output, out)
            reading.done()
            note(f"{rows} rows written to {to}")


@contextlib.contextmanager
def _bounded() -> Generator[None]:
    """Bounds the memory of this process: somebody else may have made a view whose values have gigabytes each."""
    bound_memory(QUERY_PROCESS_BYTES_MAX)
    try:
        yield
    except MemoryError as error:
        raise Refused(
            f"the rows of this SELECT need more memory than {QUERY_PROCESS_BYTES_MAX} bytes",
            code=ErrorCode.QUERY_TOO_LARGE,
            hint="read fewer rows or shorter values; cluster.query(..) in Python has no such bound",
        ) from error


# ---------------------------------------------------------------- for people


def _show(answer: QueryResult, reading: RowsReadLine) -> None:
    """The first rows as a table; stderr says how many more there are."""
    rows: list[list[str]] = []
    more = 0
    for batch in answer:
        shown = batch.slice(0, QUERY_ROWS_SHOWN_MAX - len(rows))
        rows.extend([_text(value) for value in row] for row in _values(shown))
        more += batch.num_rows - shown.num_rows
    reading.done()
    show_table(answer.schema.names, rows)
    if more:
        note(f"{more} more rows; -o csv, -o json and -o parquet show all rows, LIMIT selects fewer")


def _text(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case bytes():
            return value.hex()
        case dt.datetime():
            return value.isoformat(sep=" ").replace(_UTC, "Z")
        case _:
            return str(value)


def _values(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """The rows; not as dicts, since two columns may have one name."""
    return zip(*(_listed(column) for column in batch.columns), strict=True)


def _listed(column: pa.Array) -> list[Any]:
    try:
        return column.to_pylist()
    except OverflowError:
        return [_python_value(one) for one in column]


def _python_value(value: pa.Scalar) -> Any:
    """The value; a date or timestamp that Python can't hold as text, since its last year is 9999."""
    try:
        return value.as_py()
    except OverflowError:
        match value:
            case pa.MapScalar():
                return [(_python_value(one["key"]), _python_value(one["value"])) for one in value.values]
            case pa.ListScalar() | pa.LargeListScalar() | pa.FixedSizeListScalar():
                return [_python_value(one) for one in value.values]
            case pa.StructScalar():
                return {name: _python_value(one) for name, one in value.items()}
            case pa.UnionScalar():
                return _python_value(value.value)
            case pa.TimestampScalar() if value.type.tz is not None:
                # With a time zone, Arrow shows a wrong year for one after 32767.
                text = value.cast(pa.timestamp(value.type.unit)).cast(pa.string()).as_py()
                return text if text.startswith("<") else f"{text}Z"
            case _:
                return value.cast(pa.string()).as_py()


# ---------------------------------------------------------------- for programs


def _write(answer: QueryResult, output: RowsOutput, out: IO[bytes]) -> int:
    """Writes all rows, batch by batch; returns how many."""
    match output:
        case RowsOutput.JSON:
            return _write_json(answer, out)
        case RowsOutput.CSV:
            return _write_csv(answer, out)
        case RowsOutput.PARQUET | RowsOutput.TABLE:
            try:
                return _write_parquet(answer, out)
            except pa.ArrowNotImplementedError as error:
                text = f"Parquet can't hold these rows: {error}"
                raise Refused(text, code=ErrorCode.BAD_TYPE, hint="CAST the column to another type") from error


def _write_parquet(answer: QueryResult, out: IO[bytes]) -> int:
    rows = 0
    with parquet.ParquetWriter(pa.PythonFile(out, mode="w"), answer.schema) as writer:
        for batch in answer:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _write_csv(answer: QueryResult, out: IO[bytes]) -> int:
    """Writes each batch by itself, since a column may be text in one batch alone."""
    rows = 0
    sink = pa.PythonFile(out, mode="w")
    names = answer.schema.names
    csv.write_csv(pa.schema([pa.field(name, pa.string()) for name in names]).empty_table(), sink)
    for batch in answer:
        columns = [_csv_column(one) for one in batch.columns]
        csv.write_csv(pa.RecordBatch.from_arrays(columns, names), sink, csv.WriteOptions(include_header=False))
        rows += batch.num_rows
    return rows


def _csv_column(column: pa.Array) -> pa.Array:
    """A column that Arrow writes to CSV as it is meant."""
    kind, is_a = column.type, pa.types
    if is_a.is_timestamp(kind) and kind.tz is not None:
        # As in `_python_value`: with a time zone, Arrow writes a wrong date for one that it can't show.
        text = column.cast(pa.timestamp(kind.unit)).cast(pa.string())
        far = pc.call_function("starts_with", [text], pc.MatchSubstringOptions("<"))
        if not pc.call_function("any", [far]).as_py():
            return column
        return pc.call_function("if_else", [far, text, pc.call_function("binary_join_element_wise", [text, "Z", ""])])
    own = is_a.is_boolean(kind) or is_a.is_integer(kind) or is_a.is_floating(kind) or is_a.is_decimal(kind)
    if own or pa.string() == kind or (is_a.is_temporal(kind) and not is_a.is_interval(kind)):
        return column
    return pa.array([None if value is None else _text(value) for value in _listed(column)], pa.string())


def _write_json(answer: QueryResult, out: IO[bytes]) -> int:
    """One object as SHOW answers it, on one line."""
    text = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
    try:
        text.write(f'{{"columns": {json.dumps(answer.schema.names, ensure_ascii=False)}, "rows": [')
        rows = 0
        for batch in answer:
            lines = (json.dumps([_plain(value) for value in row], ensure_ascii=False) for row in _values(batch))
            if batch.num_rows:
                text.write(("" if rows == 0 else ", ") + ", ".join(lines))
            rows += batch.num_rows
        text.write("]}\n")
    finally:
        text.detach()
    return rows


def _plain(value: Any) -> Any:
    """A value for JSON. Numbers that JSON can't hold, dates and timestamps become text."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return value.hex()
        case Decimal():
            return f"{value:f}"
        case dt.datetime():
            return value.isoformat().replace(_UTC, "Z")
        case dt.date() | dt.time():
            return value.isoformat()
        case list():
            return [_plain(one) for one in value]
        case dict():
            return {str(key): _plain(one) for key, one in value.items()}
        case _:
            return str(value)


# ---------------------------------------------------------------- files


def _part_of(to: Path) -> Path | None:
    """The file beside `to` that holds the rows until all are written; None if `to` is a device or a pipe."""
    if to.exists() and not to.is_file():
        return None
    return to.with_name(f".{to.name}.{os.getpid()}.part")


@contextlib.contextmanager
def _file(to: Path, part: Path | None) -> Generator[IO[bytes]]:
    if part is None:
        with to.open("wb") as out:
            yield out
        return
    try:
        with part.open("xb") as out:
            yield out
        part.replace(to)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
