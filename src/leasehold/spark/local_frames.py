"""Files of segments as a DataFrame, read by Spark's own Parquet reader, without a node.

A file is read in the types in which it is stored, under the names that it has (`#7`), which no other column ever gets.
All else is done by the plan of the query: casts, first values, names, conditions, and leaving out hidden rows. Spark
pushes down the filters of a query through all of this, and skips by the statistics of the right column and type.

| what could go wrong | what is done |
| --- | --- |
| a NULL that was written becomes a first value | it is a literal, only where the files lack the column |
| Spark skips rows that fulfil a filter (`core/data/read_groups.py`) | such a column is hidden from filters |
| a damaged page, a missing file | checksums are verified; the settings that ignore both are overridden |
| days before 1582 read by the Julian calendar, as a setting may say | overridden |
| a folder whose name has `[` or `*` | escaped: Spark takes a path for a pattern |

For Spark, columns that come from files may all be null, those that are NOT NULL in the table too.
"""

import re
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from leasehold.core.data.read_groups import expiry_day
from leasehold.core.words.messages import FileColumn, ReadGroup, ScanPlan
from leasehold.core.words.records import DeleteRecord, Field
from leasehold.core.words.types import Decimal, parse_type
from leasehold.spark.types import spark_schema, spark_type
from leasehold.storage.schema import arrow_type, name_by_id

_OPTIONS: Final = {
    "datetimeRebaseMode": "CORRECTED",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "parquet.page.verify-checksum.enabled": "true",
}
_PATTERN: Final = re.compile(r"[\\{}\[\]*?]")


def local_frame(
    spark: SparkSession, plan: ScanPlan, folders: Sequence[Sequence[Path]], others: DataFrame | None = None
) -> DataFrame:
    """The rows of a grouped plan (`core/data/read_groups.py`), in its columns: those in the `folders` of each group,
    and `others`, which come from elsewhere. A folder holds nothing but files of segments of its group."""
    assert plan.grouped is not None, "the plan was asked for with its groups"
    frames = [
        _Reading(plan, group).frame(spark, paths)
        for group, paths in zip(plan.grouped.groups, folders, strict=True)
        if paths
    ]
    frames += [] if others is None else [others]
    return reduce(DataFrame.unionAll, frames or [spark.createDataFrame([], spark_schema(plan.fields))])


class _Reading:
    """Reads the files of one group."""

    def __init__(self, plan: ScanPlan, group: ReadGroup) -> None:
        assert plan.grouped is not None, "`local_frame` has looked"
        self._plan = plan
        self._group = group
        self._telling = {one.id: one for one in plan.grouped.fields}
        self._fields = self._telling | {one.field.id: one.field for one in plan.where}
        self._fields |= {one.id: one for one in plan.fields}
        self._columns = {one.field: one for one in group.columns}
        self._deletes = [one for one in plan.grouped.deletes if one.number in group.deletes]
        self._clock = plan.grouped.clock if group.may_expire else None

    def frame(self, spark: SparkSession, folders: Sequence[Path]) -> DataFrame:
        stored = [StructField(name_by_id(one.field), spark_type(one.type)) for one in self._group.columns if one.type]
        frame = spark.read.schema(StructType(stored)).options(**_OPTIONS).parquet(*map(_escaped, folders))
        hidden = [self._taken(one) for one in self._deletes]
        if self._clock is not None:
            hidden.append(self._expired(self._telling[self._clock]))
        for one in hidden:
            frame = frame.where(~sf.coalesce(one, sf.lit(False)))
        for one in self._plan.where:
            frame = frame.where(fulfilled(self._value(one.field), one.field, one.operator, one.values))
        as_asked = [one.id for one in self._plan.fields] == [one.field for one in self._group.columns]
        if as_asked and all(map(self._is_plain, self._group.columns)):
            return frame.toDF(*(one.name for one in self._plan.fields))  # one question to Java for all columns
        return frame.select(*(self._value(one).alias(one.name) for one in self._plan.fields))

    def _is_plain(self, column: FileColumn) -> bool:
        """Whether Spark reads the values of the column as they are."""
        return column.type == self._fields[column.field].type and not column.is_opaque

    def _value(self, field: Field) -> Column:
        """The column in the type of `field`, which is a later one than that of the files, if it is another."""
        column = self._columns[field.id]
        if column.type is None:
            return literal(field.initial, field.type)
        found = sf.col(f"`{name_by_id(field.id)}`")
        if column.is_opaque:
            found = _opaque(found, column.type)
        return found if column.type == field.type else found.cast(spark_type(field.type))

    def _taken(self, delete: DeleteRecord) -> Column:
        fields = ((self._telling[one.field], one) for one in delete.where)
        found = (fulfilled(self._value(field), field, one.operator, (one.value,)) for field, one in fields)
        return reduce(Column.__and__, found)

    def _expired(self, clock: Field) -> Column:
        assert self._plan.cutoff is not None, "rows expire by it"
        earliest_us = self._plan.cutoff.earliest_us
        assert earliest_us is not None, "rows expire by it"
        earliest = expiry_day(earliest_us) if clock.type == "DATE" else earliest_us
        return fulfilled(self._value(clock), clock, "<", (str(earliest),))


def stored_schema(group: ReadGroup) -> pa.Schema:
    """The columns of the files of a group that are read, in Arrow's types."""
    return pa.schema([(name_by_id(one.field), arrow_type(one.type)) for one in group.columns if one.type])


def fulfilled(column: Column, field: Field, operator: str, values: Sequence[str]) -> Column:
    """Whether rows fulfil a condition, as `storage/comparisons.py` decides it; null where a NULL is compared. The
    values are literals of the field's type."""
    literals = [literal(one, field.type) for one in values]
    match operator:
        case "IS NULL":
            return column.isNull()
        case "IS NOT NULL":
            return column.isNotNull()
        case "IN":
            return column.isin(*literals)
        case "STARTS WITH":
            return column.startswith(literals[0])
        case "=":
            return column == literals[0]
        case "<":
            return column < literals[0]
        case "<=":
            return column <= literals[0]
        case ">":
            return column > literals[0]
        case ">=":
            return column >= literals[0]
        case _:
            raise AssertionError(operator)


def _opaque(column: Column, kind: str) -> Column:
    """The same values, by a function through which Spark pushes no filter."""
    match kind:
        case "DATE":
            return sf.date_from_unix_date(sf.unix_date(column))
        case "TIMESTAMP":
            return sf.timestamp_micros(sf.unix_micros(column))
        case _:
            return column * sf.lit(1).cast(spark_type(kind))


def literal(text: str | None, type_text: str) -> Column:
    """A literal as `core/words/literals.py` spells it, whatever the settings and the time zone of the session are."""
    kind = spark_type(type_text)
    if text is None:
        return sf.lit(None).cast(kind)
    if isinstance(parse_type(type_text), Decimal):
        return sf.lit(text).cast(kind)
    match type_text:
        case "STRING":
            return sf.lit(text)
        case "BOOLEAN":
            return sf.lit(text == "true")
        case "BINARY":
            return sf.unhex(sf.lit(text))
        case "DATE":
            return sf.date_from_unix_date(sf.lit(int(text)))
        case "TIMESTAMP":
            return sf.timestamp_micros(sf.lit(int(text)).cast("bigint"))
        case "FLOAT" | "DOUBLE":
            return sf.lit(float(text)).cast(kind)
        case _:
            return sf.lit(int(text)).cast(kind)


def _escaped(folder: Path) -> str:
    return "file:" + _PATTERN.sub(r"\\\g<0>", str(folder.absolute()))
