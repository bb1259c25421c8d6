"""SQL of a Spark session over the tables of a cluster: `leasehold.spark.sql`.

| statement | what runs it |
| --- | --- |
| SELECT | Spark, over a frame for each name of a table or view of the cluster |
| definitions, DELETE, SHOW, DESCRIBE, INSERT .. VALUES | the cluster, as `leasehold sql` |

**All names of a SELECT are read at one revision.** If it reads one table, that is the present, as `table` reads it.
Otherwise it is the newest revision that the cluster has answered with while the names were looked up; each table is
read as of that revision. Once all frames are made the names are looked up again. If a table was altered meanwhile, all
begins anew, so that the columns are those of that revision too.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

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
from leasehold.client.past import AsOf, read_time
from leasehold.core.words.messages import Receipt, Rows, TableFacts, ViewFacts
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, BadStatement, NotFound, Refused
from leasehold.limits.units import MILLISECOND_NS
from leasehold.spark.local_tables import Local
from leasehold.spark.settings import connected, credentials
from leasehold.spark.tables import read_table, read_view, temporary_names
from leasehold.sql.binder import words
from leasehold.sql.front import GRAMMAR, Source, read
from leasehold.sql.kind import StatementKind, kind_of
from leasehold.sql.references import Reference, SparkSelect, read_references, rewritten
from leasehold.wire.entropy import SystemEntropy

ALTERED_MAX: Final = 3
"""How often a SELECT is read whose tables are altered at the same time."""

_Relation: TypeAlias = TableFacts | ViewFacts

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

    Names that the cluster has not are Spark's own. All that a SELECT reads is of one revision; `as_of` is an earlier
    one, and `VERSION AS OF 12` or `TIMESTAMP AS OF '2026-06-15T12:30:00Z'` behind a name is one for that name. `local`,
    `cluster`, `user` and `password` are as in `table`. A definition answers one row with its outcome. SHOW, DESCRIBE
    and INSERT .. VALUES answer rows of text.

    Raises as `table` and `Cluster.sql`; `BadStatement` for a text that can't be read and for statements of Spark alone,
    `NotFound` for a name that neither has, and Spark's `AnalysisException` for what Spark refuses.
    """
    kind = kind_of(text)
    if kind is not StatementKind.SELECT and as_of is not None:
        raise BadSettings("as_of is for a SELECT", hint="leave it out")
    with connected(spark, cluster, user, password) as connection:
        if kind is StatementKind.SELECT:
            login = credentials(spark, connection.target, user, password)
            return _Query(spark, connection, _parsed(read(text)), as_of, local, login).frame()
        _check_ours(text)
        answer = connection.sql(text)
        return _receipt(spark, answer) if isinstance(answer, Receipt) else _rows(spark, answer)


# ---------------------------------------------------------------- SELECT


class _Query:
    """A SELECT that becomes a frame."""

    def __init__(
        self,
        spark: SparkSession,
        connection: Cluster,
        select: SparkSelect,
        as_of: AsOf | None,
        local: Local,
        login: Mapping[str, str],
    ) -> None:
        self._spark = spark
        self._connection = connection
        self._select = select
        self._as_of = as_of
        self._local: Local = local
        self._login = login

    def frame(self) -> DataFrame:
        for _ in range(ALTERED_MAX):
            found = self._look_up()
            frame = self._made(found)
            if _versions(self._look_up()) == _versions(found):
                return frame
        raise Refused(
            "the tables of the SELECT are altered again and again", code=ErrorCode.BUSY, hint="run it again later"
        )

    def _look_up(self) -> dict[int, _Relation]:
        """The references, by their place, that name something of the cluster."""
        known: dict[str, _Relation | None] = {}
        for one in self._select.references:
            name = str(one.name)
            if name not in known:
                known[name] = self._relation(name)
        named = {place: known[str(one.name)] for place, one in enumerate(self._select.references)}
        return {place: one for place, one in named.items() if one is not None}

    def _relation(self, name: str) -> _Relation | None:
        """What the cluster has under a name; None for what Spark has. Raises `NotFound`."""
        try:
            return self._connection.facts(name)
        except NotFound:
            if self._spark.catalog.tableExists(name):
                return None
            self._connection.plan_query([name])  # its error has the nearest name
            raise
        except Refused as error:
            if error.code != ErrorCode.IS_VIEW:
                raise
            return self._connection.view_facts(name)

    def _made(self, found: Mapping[int, _Relation]) -> DataFrame:
        shared = self._as_of
        if shared is None and sum(len(one.tables) if isinstance(one, ViewFacts) else 1 for one in found.values()) > 1:
            shared = int(max(one.revision for one in found.values()))
        called = words(map(str, found), SystemEntropy().hex_128())
        names = {place: called[str(place)] for place in found}
        with temporary_names(self._spark) as give_name:
            for place, relation in found.items():
                reference = self._select.references[place]
                as_of = _as_of(reference)
                give_name(names[place], self._read(relation, shared if as_of is None else as_of))
            return self._spark.sql(rewritten(self._select, names))

    def _read(self, relation: _Relation, as_of: AsOf | None) -> DataFrame:
        if isinstance(relation, ViewFacts):
            return read_view(
                self._spark, self._connection, relation, as_of=as_of, local=self._local, options=self._login
            )
        return read_table(
            self._spark, self._connection, relation.name, as_of=as_of, local=self._local, options=self._login
        )


def _parsed(source: Source) -> SparkSelect:
    try:
        return read_references(source)
    except BadStatement as error:
        raise BadStatement(error.text, hint=f"if Spark can read it: {_NAMES_HINT}") from error


def _as_of(reference: Reference) -> AsOf | None:
    if reference.time is not None:
        return read_time(reference.time, f"TIMESTAMP AS OF behind {reference.name}")
    return reference.revision


def _versions(found: Mapping[int, _Relation]) -> dict[int, tuple[object, ...]]:
    """What changes if a table is altered or dropped, or a view made anew."""
    return {
        place: (one.table, one.schema_version, one.generation)
        if isinstance(one, TableFacts)
        else (one.views, one.tables)
        for place, one in found.items()
    }


# ---------------------------------------------------------------- other statements


def _check_ours(text: str) -> None:
    """Raises `BadStatement` for what only Spark runs."""
    source = read(text)
    first, *others = source.forms
    if first in _QUERIES:
        raise BadStatement(
            f"a query begins with SELECT here, not with {first}", hint="write SELECT * FROM database.table"
        )
    if first == "EXPLAIN" and others[:1] in (["SELECT"], ["WITH"], ["("]):
        raise BadStatement("EXPLAIN is for statements that change something", hint="call .explain() of the frame")
    if first not in _OURS or (first == "CREATE" and _TEMPORARY & set(others[:3])):
        raise BadStatement(
            "this is a statement of Spark, and none of Leasehold",
            hint=f"use spark.sql; {_NAMES_HINT}",
        )


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
