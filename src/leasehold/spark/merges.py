"""MERGE: rows of a frame change, end or add rows of a table by key, in one commit that replaces rows.

All rows whose keys lie in the range of those of the frame are read and put in their own place (`spark/changes.py`),
those that the frame does not name as they are.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from leasehold.client.cluster import Cluster
from leasehold.client.columns import field_named
from leasehold.core.words.literals import render, render_instant
from leasehold.core.words.messages import TableFacts
from leasehold.core.words.records import Field
from leasehold.core.words.statements import fold
from leasehold.core.words.types import Decimal, parse_type
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, Refused
from leasehold.limits.statements import LITERAL_CHARACTERS_MAX
from leasehold.spark.changes import change_rows
from leasehold.spark.local_frames import literal
from leasehold.spark.settings import connected, credentials
from leasehold.spark.types import spark_type

Expression: TypeAlias = str | Column
WhenMatched: TypeAlias = Literal["update", "delete", "ignore"] | Mapping[str, Expression]
WhenNotMatched: TypeAlias = Literal["insert", "ignore"] | Mapping[str, Expression]

_MATCHED: Final = ("update", "delete", "ignore")
_NOT_MATCHED: Final = ("insert", "ignore")
_THERE: Final = "#there"
"""A column that no table has; not null in the rows of one side of a join."""
_RANGED: Final = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "STRING", "DATE", "TIMESTAMP"})
"""Types of keys by whose range files are passed over."""


def merge(
    frame: DataFrame,
    name: str,
    on: Iterable[str],
    *,
    when_matched: WhenMatched = "update",
    when_not_matched: WhenNotMatched = "insert",
    cluster: str | Path | None = None,
    user: str | None = None,
    password: str | None = None,
) -> None:
    """Merges the rows of a frame into the table `database.table`, all or none, by the values of the columns `on`.

    A row of the table whose keys are those of a row of the frame gets the values of all columns that the frame has;
    with "delete" it goes, with "ignore" it stays, and with a dictionary its columns get the values of expressions, in
    whose SQL `target.a` and `source.a` are columns of the two. A row of the frame without such a row is added, unless
    `when_not_matched` is "ignore"; columns that the frame lacks get their default. With a dictionary its key and these
    columns are added. Other columns of the frame than those of the table are for such expressions alone.

    The rest is as in `table`. Raises `BadSettings`, `NotFound`, `Refused`: AMBIGUOUS for two rows of the frame with the
    same keys, BAD_VALUE for a key that is NULL; and Spark's errors as `write`, with CONFLICT if others change these
    rows again and again.
    """
    chosen = [on] if isinstance(on, str) else list(on)
    _check_words(chosen, when_matched, when_not_matched)
    spark = frame.sparkSession
    with connected(spark, cluster, user, password) as connection:
        login = credentials(spark, connection.target, user, password)
        how = MergeHow(chosen, when_matched, when_not_matched)
        Merge(connection, connection.facts(name), how, login).run(frame)


def _check_words(on: Sequence[str], when_matched: object, when_not_matched: object) -> None:
    if not on:
        raise BadSettings("a merge without keys", hint='write on=["id"]')
    if not isinstance(when_matched, Mapping) and when_matched not in _MATCHED:
        raise BadSettings(
            f"when_matched is {when_matched!r}", hint=f"write one of {', '.join(_MATCHED)}, or {{column: expression}}"
        )
    if not isinstance(when_not_matched, Mapping) and when_not_matched not in _NOT_MATCHED:
        raise BadSettings(
            f"when_not_matched is {when_not_matched!r}",
            hint=f"write one of {', '.join(_NOT_MATCHED)}, or {{column: expression}}",
        )


class MergeHow(NamedTuple):
    """How rows are merged: the arguments of `merge`, and the names of the table and of the frame in expressions."""

    on: Sequence[str]
    when_matched: WhenMatched
    when_not_matched: WhenNotMatched
    target: str = "target"
    source: str = "source"


class Merge:
    """One merge into one table."""

    def __init__(self, connection: Cluster, facts: TableFacts, how: MergeHow, login: Mapping[str, str]) -> None:
        self._connection = connection
        self._facts = facts
        self._login = login
        self._how = how
        self._keys = [field_named(one, facts.fields, facts.name) for one in how.on]
        self._changed = self._expressions(how.when_matched)
        self._added = self._expressions(how.when_not_matched)

    def _expressions(self, given: WhenMatched | WhenNotMatched) -> dict[str, Column]:
        """By the column of the table. Raises `NotFound`, `BadSettings`."""
        if not isinstance(given, Mapping):
            return {}
        found = {
            field_named(one, self._facts.fields, self._facts.name).name: F.expr(how) if isinstance(how, str) else how
            for one, how in given.items()
        }
        keys = [one.name for one in self._keys if one.name in found]
        if keys:
            raise BadSettings(f"a merge can't change its key {keys[0]}", hint="leave it out of the dictionary")
        return found

    def run(self, frame: DataFrame) -> None:
        """Raises as `merge`."""
        source = self._named(frame).persist()  # it is read several times, and must be the same each time
        try:
            if self._check(source):
                where = self._range(source)
                change_rows(
                    source.sparkSession,
                    self._connection,
                    self._facts,
                    where,
                    self._login,
                    lambda target: self._merged(target, source),
                )
        finally:
            source.unpersist()

    def _named(self, frame: DataFrame) -> DataFrame:
        """The rows of the frame under the names of the table, keys in its types. Raises `NotFound`."""
        known = {fold(one.name): one.name for one in self._facts.fields}
        if self._how.when_matched == "update" or self._how.when_not_matched == "insert":
            for one in frame.columns:
                field_named(one, self._facts.fields, self._facts.name)
        names = [known.get(fold(one), one) for one in frame.columns]
        missing = [one.name for one in self._keys if one.name not in names]
        if missing:
            raise BadSettings(f"the frame has no column {missing[0]}", hint="name keys that both have")
        named = frame.toDF(*names)
        return named.withColumns({one.name: _of(named, one).cast(spark_type(one.type)) for one in self._keys})

    def _check(self, source: DataFrame) -> bool:
        """Whether there are rows at all. Raises `Refused`: AMBIGUOUS, BAD_VALUE."""
        keys = [_of(source, one) for one in self._keys]
        for field, key in zip(self._keys, keys, strict=True):
            if source.where(key.isNull()).take(1):
                raise Refused(
                    f"the frame has rows without the key {field.name}",
                    code=ErrorCode.BAD_VALUE,
                    hint="leave out these rows, or fill them",
                )
        doubled = source.groupBy(*keys).count().where("count > 1").drop("count").take(1)
        if doubled:
            shown = ", ".join(f"{key} = {value!r}" for key, value in doubled[0].asDict().items())
            raise Refused(
                f"several rows of the frame have the same keys: {shown[:200]}",
                code=ErrorCode.AMBIGUOUS,
                hint="keep one row for each key",
            )
        return bool(source.take(1))

    def _merged(self, target: DataFrame, source: DataFrame) -> DataFrame:
        """The rows that take the place of those of `target`."""
        given = {one.name for one in self._facts.fields} & set(source.columns)
        old_side, new_side = self._how.target, self._how.source
        left = target.withColumn(_THERE, F.lit(True)).alias(old_side)
        right = source.withColumn(_THERE, F.lit(True)).alias(new_side)
        same = [_at(old_side, one.name) == _at(new_side, one.name) for one in self._keys]
        joined = left.join(right, same, "left_outer" if self._how.when_not_matched == "ignore" else "full_outer")
        is_old, is_new = (_at(side, _THERE).isNotNull() for side in (old_side, new_side))
        if self._how.when_matched == "delete":
            joined = joined.where(~(is_old & is_new))
        columns: list[Column] = []
        for field in self._facts.fields:
            old, default = _at(old_side, field.name), literal(field.default, field.type)
            new = _at(new_side, field.name) if field.name in given else default
            updated = new if self._how.when_matched == "update" and field.name in given else old
            changed = self._changed.get(field.name, updated)
            if self._how.when_not_matched != "insert" and field not in self._keys:
                new = self._added.get(field.name, default)
            value = F.when(is_old & is_new, changed).when(is_old, old).otherwise(new)
            columns.append(value.alias(field.name))
        return joined.select(*columns)

    def _range(self, source: DataFrame) -> str | None:
        """Conditions that all rows fulfil whose keys occur in the frame; None where no key has a range."""
        parts = [part for one in self._keys if (part := _between(source, one)) is not None]
        return " AND ".join(parts) or None


def _between(source: DataFrame, field: Field) -> str | None:
    if field.type not in _RANGED and not isinstance(parse_type(field.type), Decimal):
        return None
    key = _of(source, field)
    key = F.unix_micros(key) if field.type == "TIMESTAMP" else key
    ends = source.agg(F.min(key).cast("string"), F.max(key).cast("string")).first()
    assert ends is not None, "an aggregate has a row"
    if any(one is None or len(one) > LITERAL_CHARACTERS_MAX for one in ends):
        return None
    low, high = (_spelled(one, field.type) for one in ends)
    return f"`{field.name}` BETWEEN {low} AND {high}"


def _spelled(text: str, kind: str) -> str:
    match kind:
        case "STRING":
            return render(text, kind)
        case "DATE":
            return f"DATE '{text}'"
        case "TIMESTAMP":
            return f"TIMESTAMP '{render_instant(int(text))}'"
        case _:
            return text


def _of(frame: DataFrame, field: Field) -> Column:
    return frame[f"`{field.name}`"]


def _at(side: str, column: str) -> Column:
    return F.col(f"{side}.`{column}`")
