"""SQL of a Spark session over the tables of a cluster: `leasehold.spark.sql`.

| statement | what runs it |
| --- | --- |
| SELECT | Spark, over a frame for each name of a table or view of the cluster (`spark/queries.py`) |
| INSERT .. SELECT, CREATE TABLE .. AS SELECT | Spark, which writes that frame (`spark/writes.py`) |
| MERGE, UPDATE | Spark, which writes rows of the table anew (`spark/merges.py`, `spark/updates.py`) |
| definitions, DELETE, SHOW, DESCRIBE, INSERT .. VALUES | the cluster, as `leasehold sql` |
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from leasehold.client.cluster import Cluster
from leasehold.client.columns import field_named
from leasehold.client.past import AsOf
from leasehold.core.words.messages import Receipt, Rows
from leasehold.error_codes import ErrorCode
from leasehold.errors import AlreadyExists, BadSettings, BadStatement, Refused
from leasehold.limits.units import MILLISECOND_NS
from leasehold.spark.creation import make_table
from leasehold.spark.local_tables import Local
from leasehold.spark.merges import Merge, MergeHow
from leasehold.spark.queries import SparkQuery
from leasehold.spark.settings import connected, credentials
from leasehold.spark.updates import update
from leasehold.spark.writes import Mode, with_types, write_frame
from leasehold.sql.changes import MergeRows, read_merge, read_update
from leasehold.sql.create_query import CreateQuery, read_create_query
from leasehold.sql.front import GRAMMAR, Source, read
from leasehold.sql.insert import InsertQuery, read_insert_query
from leasehold.sql.kind import StatementKind, kind_of
from leasehold.sql.references import SparkSelect, read_references

_OURS: Final = frozenset(key.split()[0] for key in GRAMMAR) | {"DESC"}
_QUERIES: Final = frozenset({"FROM", "TABLE", "VALUES"})
"""What other queries of Spark begin with."""
_TEMPORARY: Final = frozenset({"TEMP", "TEMPORARY", "GLOBAL"})
_NAMES_HINT: Final = "leasehold.spark.attach(spark) names the tables for spark.sql"
_RECEIPT: Final[Mapping[str, DataType]] = {
    "statement": StringType(),
    "statement_id": StringType(),
    "revision": LongType(),
    "outcome": StringType(),
    "elapsed_ms": DoubleType(),
    "bound_ms": DoubleType(),
    "notes": ArrayType(StringType()),
}
"""Columns of the answer to a definition, as in the JSON of `leasehold sql`."""


def sql(
    spark: SparkSession,
    text: str,
    *,
    as_of: AsOf | None = None,
    local: Local = "auto",
    cluster: str | Path | None = None,
    user: str | None = None,
    password: str | None = None,
) -> DataFrame:
    """Runs one statement: a SELECT over tables and views of the cluster as `database.table`, or what changes them.

    Names that the cluster does not have are Spark's own. All that a SELECT reads is of one revision. `as_of` is an
    earlier one, and `VERSION AS OF 12` or `TIMESTAMP AS OF '2026-06-15T12:30:00Z'` behind a name is one for that name.
    `local`, `cluster`, `user` and `password` are as in `table`. `INSERT INTO .. SELECT` has written all rows once it
    returns, and `INSERT OVERWRITE .. SELECT` has put them in the place of all rows of the table. MERGE and UPDATE have
    changed rows as `merge` does. All of these answer an empty frame, as in Spark. A definition answers one row with its
    outcome. SHOW, DESCRIBE and INSERT .. VALUES answer rows of text.

    Raises as `table` and `Cluster.sql`; `BadStatement` for a text that can't be read and for statements of Spark alone,
    `NotFound` for a name that neither has, and Spark's `AnalysisException` for what Spark refuses.
    """
    kind = kind_of(text)
    inserted = read_insert_query(text) if kind is StatementKind.INSERT else None
    made = read_create_query(text) if kind is StatementKind.DEFINITION else None
    has_query = bool(inserted or made) or kind in {StatementKind.SELECT, StatementKind.MERGE}
    if as_of is not None and not has_query:
        raise BadSettings("as_of is for a SELECT", hint="leave it out")
    if not has_query and kind is not StatementKind.UPDATE:
        _check_ours(text)
        with connected(spark, cluster, user, password) as connection:
            answer = connection.sql(text)
        return _receipt(spark, answer) if isinstance(answer, Receipt) else _rows(spark, answer)
    with connected(spark, cluster, user, password) as connection:
        login = credentials(spark, connection.target, user, password)

        def rows(source: Source, first: int = 0) -> DataFrame:
            return SparkQuery(spark, connection, _parsed(source, first), as_of, local, login).frame()

        if kind is StatementKind.SELECT:
            return rows(read(text))
        if inserted is not None:
            _insert(connection, rows(inserted.source, inserted.first), inserted, login)
        elif made is not None:
            _make(connection, rows(made.source, made.first), made, login)
        elif kind is StatementKind.MERGE:
            merged = read_merge(text)
            _merge(connection, rows(read(merged.source)), merged, login)
        else:
            update(spark, connection, read_update(text), login)
        return spark.createDataFrame([], StructType([]))


def _parsed(source: Source, first: int) -> SparkSelect:
    try:
        return read_references(source, first)
    except BadStatement as error:
        raise BadStatement(error.text, hint=f"if Spark can read it: {_NAMES_HINT}") from error


def _make(connection: Cluster, frame: DataFrame, made: CreateQuery, login: Mapping[str, str]) -> None:
    try:
        make_table(connection, frame, str(made.table), made.how, login)
    except AlreadyExists:
        if not made.if_not_exists:
            raise


def _merge(connection: Cluster, frame: DataFrame, merged: MergeRows, login: Mapping[str, str]) -> None:
    how = MergeHow(merged.on, merged.when_matched, merged.when_not_matched, merged.target_alias, merged.source_alias)
    Merge(connection, connection.facts(str(merged.table)), how, login).run(frame)


def _insert(connection: Cluster, frame: DataFrame, inserted: InsertQuery, login: Mapping[str, str]) -> None:
    """Writes the columns of a frame to those that an INSERT names, or to all, in their order. Raises `Refused` with
    code COLUMN_COUNT, `NotFound`."""
    facts = connection.facts(str(inserted.table))
    fields = [field_named(one, facts.fields, facts.name) for one in inserted.columns] or list(facts.fields)
    if len(fields) != len(frame.columns):
        raise Refused(
            f"the SELECT has {len(frame.columns)} columns, for {len(fields)} of {facts.name}",
            code=ErrorCode.COLUMN_COUNT,
            hint="name the columns: INSERT INTO database.table (a, b) SELECT ..",
        )
    named = with_types(frame.toDF(*(one.name for one in fields)), fields)
    mode: Mode = "overwrite" if inserted.overwrites else "append"
    write_frame(connection, named, facts.name, mode, login)


def _check_ours(text: str) -> None:
    """Raises `BadStatement` for what only Spark runs."""
    first, *others = read(text).forms
    if first in _QUERIES:
        raise BadStatement(
            f"a query begins with SELECT here, not with {first}", hint="write SELECT * FROM database.table"
        )
    if first == "EXPLAIN" and others[:1] in (["SELECT"], ["WITH"], ["("]):
        raise BadStatement("EXPLAIN is for statements that change something", hint="call .explain() of the frame")
    made = others[2:] if others[:2] == ["OR", "REPLACE"] else others
    if first not in _OURS or (first == "CREATE" and made and made[0] in _TEMPORARY):
        raise BadStatement("this is not a statement of Leasehold", hint=f"use spark.sql; {_NAMES_HINT}")


# ---------------------------------------------------------------- answers


def _receipt(spark: SparkSession, receipt: Receipt) -> DataFrame:
    row = (
        receipt.text,
        receipt.statement_id,
        receipt.revision,
        receipt.outcome.value,
        receipt.elapsed_ns / MILLISECOND_NS,
        receipt.bound_ns / MILLISECOND_NS,
        list(receipt.notes),
    )
    return spark.createDataFrame([row], _schema(_RECEIPT))


def _rows(spark: SparkSession, rows: Rows) -> DataFrame:
    texts = [tuple(map(_text, row)) for row in rows.rows]
    return spark.createDataFrame(texts, _schema(dict.fromkeys(rows.columns, StringType())))


def _schema(columns: Mapping[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def _text(value: str | int | bool | None) -> str | None:
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)
