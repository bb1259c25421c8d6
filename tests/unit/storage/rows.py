"""Builders shared by the tests of this folder: fields, and rows of every type with their extremes."""

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from hypothesis import strategies as st

from leasehold.core.data.appends import EncodedSegment
from leasehold.core.words.records import Field, SegmentFormat, UseState
from leasehold.ids import FieldId
from leasehold.storage.schema import arrow_schema, arrow_type
from leasehold.storage.segment_encoder import SegmentEncoder

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def field(number: int, name: str, kind: str, *, nullable: bool = True) -> Field:
    return Field(id=FieldId(number), name=name, type=kind, nullable=nullable, state=UseState.IN_USE)


def whole(bits: int) -> st.SearchStrategy[int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.integers(low, high) | st.sampled_from([low, high, 0, -1])


VALUES: dict[str, st.SearchStrategy[object]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": whole(8),
    "SMALLINT": whole(16),
    "INT": whole(32),
    "BIGINT": whole(64),
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.floats(),
    "DECIMAL(38,10)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}e-10")),
    "DECIMAL(9,2)": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(f"{n}e-2")),
    "STRING": st.text(max_size=60),
    "BINARY": st.binary(max_size=60),
    "DATE": whole(32),
    "TIMESTAMP": whole(64),
}


def column(kind: str, values: list[object]) -> pa.Array:
    """`values` as the Arrow column of a table's type; dates and timestamps as the integers behind them."""
    wanted = arrow_type(kind)
    if kind == "DATE":
        return pa.array(values, pa.int32()).view(wanted)
    if kind == "TIMESTAMP":
        return pa.array(values, pa.int64()).view(wanted)
    return pa.array(values, wanted)


def batch_of(fields: list[Field], columns: list[list[object]]) -> pa.RecordBatch:
    arrays = [column(one.type, values) for one, values in zip(fields, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(fields))


@st.composite
def batches(draw: st.DrawFn, kind: str, *, nulls: bool = True) -> list[pa.RecordBatch]:
    values = VALUES[kind] | st.none() if nulls else VALUES[kind]
    drawn = draw(st.lists(st.lists(values, max_size=20), max_size=4))
    return [batch_of([field(1, "x", kind, nullable=nulls)], [one]) for one in drawn]


def encode(
    path: Path,
    fields: list[Field],
    rows: list[pa.RecordBatch],
    *,
    in_format: SegmentFormat = SegmentFormat.FIELD_IDS,
    row_group_rows: int = 1_000,
) -> EncodedSegment:
    with path.open("wb") as file:
        encoder = SegmentEncoder(fields, file.write, in_format=in_format, row_group_rows=row_group_rows)
        for one in rows:
            encoder.write(one)
        return encoder.finish()


def same(one: pa.Table | pa.RecordBatch, other: pa.Table | pa.RecordBatch) -> bool:
    """Equal in schema and in every value, where NaN equals NaN."""
    if one.schema != other.schema or one.num_rows != other.num_rows:
        return False
    pairs = zip(one.columns, other.columns, strict=True)
    return all(repr(a.to_pylist()) == repr(b.to_pylist()) for a, b in ((plain(a), plain(b)) for a, b in pairs))


def plain(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Timestamps and dates as the integers behind them: Python's own end with the year 9999."""
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.int64())
    return values.cast(pa.int32()) if pa.types.is_date(values.type) else values
