"""Statistics of a segment's columns for the manifest, so that a scan can skip the segment. Parquet has bounds for each
row group; here they are joined."""

from decimal import Decimal
from math import isfinite

import pyarrow as pa
import pyarrow.parquet as pq

from leasehold.core.words.records import ColumnStatistics, Field
from leasehold.limits.segments import STATISTIC_CHARACTERS_MAX


def column_statistics(
    field: Field, kind: pa.DataType, place: int, written: pq.FileMetaData, *, comparable: bool
) -> ColumnStatistics:
    """Joins the bounds of the row groups, of a column whose bounds the file keeps.

    Bounds are true or false, integers, floats, strings; DATE in days and TIMESTAMP in microseconds since 1970 UTC as
    integers; DECIMAL as its exact decimal text with all digits of its scale. A long string is cut to a bound that
    still holds. None stands for: BINARY, a column with a NaN, an infinite bound, a column of nulls only.
    """
    chunks = [written.row_group(group).column(place).statistics for group in range(written.num_row_groups)]
    return bounds(field, kind, chunks, written.num_rows, comparable=comparable)


def bounds(
    field: Field, kind: pa.DataType, chunks: list[pq.Statistics], rows: int, *, comparable: bool = True
) -> ColumnStatistics:
    """As `column_statistics`, of the row groups with these statistics and so many rows."""
    nulls = sum(one.null_count for one in chunks)
    minimum = maximum = None
    # A row group of nulls has no bounds and needs none; one with values must have them.
    known = all(one.has_min_max or one.num_values == 0 for one in chunks)
    if comparable and known and nulls < rows and not pa.types.is_binary(kind):
        bounded = [one for one in chunks if one.has_min_max]
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            minimum, maximum = min(one.min_raw for one in bounded), max(one.max_raw for one in bounded)
        else:
            minimum, maximum = min(one.min for one in bounded), max(one.max for one in bounded)
    return ColumnStatistics(
        field=field.id, nulls=nulls, minimum=_as_scalar(minimum, lower=True), maximum=_as_scalar(maximum, lower=False)
    )


def _as_scalar(bound: object, *, lower: bool) -> bool | int | float | str | None:
    match bound:
        case bool() | int():
            return bound
        case float():
            return bound + 0.0 if isfinite(bound) else None  # + 0.0 makes -0.0 the zero that equals it
        case Decimal():
            return f"{bound:f}"
        case str():
            return cut_bound(bound, lower=lower)
        case _:
            return None


def cut_bound(bound: str, *, lower: bool) -> str | None:
    """A bound of at most STATISTIC_CHARACTERS_MAX characters that holds wherever `bound` does, by code points. A prefix
    is a lower bound, an upper one with its last character raised by one; None if all its characters are the highest
    one."""
    if len(bound) <= STATISTIC_CHARACTERS_MAX:
        return bound
    prefix = bound[:STATISTIC_CHARACTERS_MAX]
    if lower:
        return prefix
    prefix = prefix.rstrip("\U0010ffff")
    if not prefix:
        return None
    # The surrogates between U+D7FF and U+E000 are no characters.
    raised = 0xE000 if prefix[-1] == "\ud7ff" else ord(prefix[-1]) + 1
    return prefix[:-1] + chr(raised)
