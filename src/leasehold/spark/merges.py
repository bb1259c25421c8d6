"""MERGE: rows of a frame change, end or add rows of a table by key, in one commit that replaces rows.

All rows whose keys lie in the range of those of the frame are read and put in their own place (`spark/updates.py`),
those that the frame does not name as they are. A small frame without expressions is merged by this process alone
(`client/merge.py`): that takes a third of the time of Spark, whose tasks only carry rows to and fro.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from leasehold.client.cluster import Cluster
from leasehold.client.columns import field_named
from leasehold.client.merge import (
    Matched,
    NotMatched,
    ambiguous,
    between,
    check_words,
    has_exact_values,
    has_range,
    merge_rows,
    without_key,
)
from leasehold.client.table import conditions
from leasehold.core.words.messages import TableFacts
from leasehold.core.words.records import Field
from leasehold.core.words.statements import fold
from leasehold.errors import BadSettings
from leasehold.limits.clients import MERGE_ALONE_BYTES_MAX, MERGE_BROADCAST_BYTES_MAX
from leasehold.spark.local_frames import literal
from leasehold.spark.local_tables import last_plan
from leasehold.spark.session_kinds import known_bytes
from leasehold.spark.settings import connected, credentials
from leasehold.spark.types import spark_type
from leasehold.spark.updates import change_rows
from leasehold.spark.writes import with_types

Expression: TypeAlias = str | Column
WhenMatched: TypeAlias = Matched | Mapping[str, Expression]
WhenNotMatched: TypeAlias = NotMatched | Mapping[str, Expression]

_THERE: Final = "#there"
"""A column that no table has; not null in the rows of one side of a join."""


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
    same keys, BAD_VALUE for a key that is NULL, CONFLICT if others change these rows again and again; and as `write`.
    """
    chosen = [on] if isinstance(on, str) else list(on)
    words = ["ignore" if isinstance(one, Mapping) else one for one in (when_matched, when_not_matched)]
    check_words(chosen, *words, also=", or {column: expression}")
    spark = frame.sparkSession
    with connected(spark, cluster, user, password) as connection:
        login = credentials(spark, connection.target, user, password)
        how = MergeHow(chosen, when_matched, when_not_matched)
        Merge(connection, connection.facts(name), how, login).run(frame)


class MergeHow(NamedTuple):
    """How rows are merged: the arguments of `merge`, and the names of the table and of the frame in expressions."""

    on: Sequence[str]
    when_matched: WhenMatched
    when_not_matched: WhenNotMatched
    target: str = "target"
    source: str = "source"


class _Span(NamedTuple):
    """The values of one key in a frame."""

    field: Field
    filled: int
    """How many are not NULL."""
    least: str | None
    """As text; None if it has no range."""
    greatest: str | None


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
            rows, spans = self._spans(source)
            if not rows:
                return
            ranges = (between(one.field, one.least, one.greatest) for one in spans)
            where = " AND ".join(one for one in ranges if one is not None) or None
            if self._merged_alone(source, where):
                return
            self._check(source, rows, spans)
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

    def _spans(self, source: DataFrame) -> tuple[int, list[_Span]]:
        """How many rows there are, and what their keys are like, by one look at them."""
        wanted = [F.count("*")]
        for one in self._keys:
            key = _of(source, one)
            order = F.unix_micros(key) if one.type == "TIMESTAMP" else key
            ends = [F.min(order), F.max(order)] if has_range(one) else [F.lit(None), F.lit(None)]
            wanted += [F.count(key), *(end.cast("string") for end in ends)]
        found = source.agg(*(column.alias(f"c{place}") for place, column in enumerate(wanted))).first()
        assert found is not None, "an aggregate has a row"
        parts = (found[place : place + 3] for place in range(1, len(found), 3))
        return found[0], [_Span(field, *part) for field, part in zip(self._keys, parts, strict=True)]

    def _check(self, source: DataFrame, rows: int, spans: Sequence[_Span]) -> None:
        """Raises `Refused`: AMBIGUOUS, BAD_VALUE."""
        for one in spans:
            if one.filled < rows:
                raise without_key(one.field)
        keys = [_of(source, one) for one in self._keys]
        doubled = source.groupBy(*keys).count().where("count > 1").drop("count").take(1)
        if doubled:
            raise ambiguous(doubled[0].asDict())

    def _merged_alone(self, source: DataFrame, where: str | None) -> bool:
        """Merges the rows in this process, if they are few and the table has not too many to write anew."""
        matched, not_matched = self._how.when_matched, self._how.when_not_matched
        if isinstance(matched, Mapping) or isinstance(not_matched, Mapping) or not _is_small(source):
            return False
        if not all(map(has_exact_values, self._keys)):
            return False
        plan = self._connection.plan(self._facts.name, where=conditions(where))
        if sum(one.size_bytes for one in plan.segments) > MERGE_ALONE_BYTES_MAX:
            return False
        given = [one for one in self._facts.fields if one.name in source.columns]
        rows = with_types(source.select(*(_of(source, one) for one in given)), given).toArrow()
        merge_rows(self._connection, self._facts, rows, [one.name for one in self._keys], matched, not_matched)
        return True

    def _merged(self, target: DataFrame, source: DataFrame) -> DataFrame:
        """The rows that take the place of those of `target`."""
        old_side, new_side = self._how.target, self._how.source
        left = target.withColumn(_THERE, F.lit(True)).alias(old_side)
        right = source.withColumn(_THERE, F.lit(True)).alias(new_side)
        same = [_at(old_side, one.name) == _at(new_side, one.name) for one in self._keys]
        adds = self._how.when_not_matched != "ignore"
        if not adds or not _is_cheap_twice(target, source):
            return self._rows(left.join(right, same, "full_outer" if adds else "left_outer"), source)
        # Rows of a small frame are sent to where those of the table are, which don't move.
        changed = self._rows(left.join(F.broadcast(right), same, "left_outer"), source)
        keys = [one.name for one in self._keys]
        matched = target.select(*keys).join(F.broadcast(source.select(*keys)), keys, "left_semi")
        added = source.join(F.broadcast(matched), keys, "left_anti").withColumn(_THERE, F.lit(True)).alias(new_side)
        nothing = target.limit(0).withColumn(_THERE, F.lit(True)).alias(old_side)
        return changed.unionByName(self._rows(added.join(nothing, how="left_outer", on=F.lit(False)), source))

    def _rows(self, joined: DataFrame, source: DataFrame) -> DataFrame:
        """Of each pair of an old and a new row, either of which may be missing, the row that the table gets."""
        given = {one.name for one in self._facts.fields} & set(source.columns)
        old_side, new_side = self._how.target, self._how.source
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


def _is_cheap_twice(target: DataFrame, source: DataFrame) -> bool:
    """Whether a join that leaves the rows of the table where they are is worth it that their keys are read twice."""
    plan = last_plan(target)
    return plan is not None and plan.remote == 0 and _is_small(source)


def _is_small(source: DataFrame) -> bool:
    size = known_bytes(source)
    return size is not None and size <= MERGE_BROADCAST_BYTES_MAX


def _of(frame: DataFrame, field: Field) -> Column:
    return frame[f"`{field.name}`"]


def _at(side: str, column: str) -> Column:
    return F.col(f"{side}.`{column}`")
