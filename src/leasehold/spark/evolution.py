"""Columns of a table after the schema of a DataFrame: those of a new table, and those that a write adds or widens.

A table is altered by the statements that a person would write, with the rights of the user, before any task runs.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql.types import DataType, NullType, StructField, StructType, TimestampNTZType

from leasehold.client.cluster import Cluster
from leasehold.core.words.messages import TableFacts
from leasehold.core.words.statements import fold
from leasehold.core.words.types import parse_type, widens
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import IDENTIFIER
from leasehold.spark.options import alters
from leasehold.spark.types import NAMES_SHOWN, check_writable, spelling

_ODD_SHOWN: Final = 60
"""Characters of a type that an error repeats."""


def column_list(columns: Iterable[StructField]) -> str:
    """`` (`a` BIGINT, ..) `` for a statement; every column may be NULL. Raises `Refused` with code BAD_SCHEMA and lists
    each column that no table can have, with what to write instead."""
    spelled: list[str] = []
    problems: list[str] = []
    for one in columns:
        kind = spelling(one.dataType)
        if IDENTIFIER.fullmatch(one.name) is None:
            problems.append(f"{one.name[:_ODD_SHOWN]!r} can't be a name")
        elif kind is None:
            shown = one.dataType.simpleString()[:_ODD_SHOWN]
            problems.append(f"{one.name} is {shown}: write {_instead(one.dataType, one.name)}")
        else:
            spelled.append(f"`{one.name}` {kind}")
    if problems:
        raise Refused(
            f"no table has such columns: {'; '.join(problems[:NAMES_SHOWN])}",
            code=ErrorCode.BAD_SCHEMA,
            hint="select and cast the columns before the write",
        )
    return f"({', '.join(spelled)})"


def fitting(cluster: Cluster, table: str, rows: StructType, options: Mapping[str, str]) -> TableFacts:
    """The table that rows of this schema go to; it is altered if the options of the write say so. Raises as `evolve`,
    and `Refused` with code ROWS_DO_NOT_FIT with every column that does not fit."""
    facts = cluster.facts(table)
    if alters(options):
        facts = evolve(cluster, facts, rows)
    check_writable(rows, facts.fields, table=facts.name)
    return facts


def evolve(cluster: Cluster, facts: TableFacts, rows: StructType) -> TableFacts:
    """Adds the columns of `rows` that the table lacks, and widens those whose type does not hold theirs. Raises as
    `column_list`, and as the ALTER TABLE statements that do it."""
    known = {fold(one.name): one for one in facts.fields}
    added = [one for one in rows.fields if fold(one.name) not in known]
    altered: list[str] = []
    if added:
        altered.append(f"ADD COLUMNS IF NOT EXISTS {column_list(added)}")
    for one in rows.fields:
        field, kind = known.get(fold(one.name)), spelling(one.dataType)
        if field is not None and kind is not None and widens(parse_type(field.type), parse_type(kind)):
            altered.append(f"ALTER COLUMN {field.name} TYPE {kind}")
    for what in altered:
        cluster.sql(f"ALTER TABLE {facts.name} {what}")
    return cluster.facts(facts.name) if altered else facts


def _instead(kind: DataType, name: str) -> str:
    match kind:
        case NullType():
            return f"CAST({name} AS STRING), or the type it should have"
        case TimestampNTZType():
            return f"CAST({name} AS TIMESTAMP)"
        case _ if kind.typeName() in {"array", "map", "struct", "variant"}:
            return f"to_json({name})"
        case _:
            return f"CAST({name} AS STRING)"
