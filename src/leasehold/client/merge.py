"""MERGE: rows of Arrow change, end or add rows of a table by key, in one commit that replaces rows.

All segments that may have a row whose keys lie in the range of those of the new rows are read, and written anew while
further ones come: rows with a new row changed, the others as they are. The new rows are in memory, the table's are not.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leasehold.client.columns import field_named
from leasehold.client.not_written import writing_nothing
from leasehold.client.overwrite import begin_change, conflicts, replace_rows, unaltered
from leasehold.client.table import conditions
from leasehold.core.data.replacement import check_same_segments
from leasehold.core.words.literals import render, render_instant
from leasehold.core.words.messages import Filter, TableFacts
from leasehold.core.words.records import Field
from leasehold.core.words.types import Decimal, parse_type
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, Refused
from leasehold.ids import Revision
from leasehold.limits.clients import REPLACE_ATTEMPTS
from leasehold.limits.statements import LITERAL_CHARACTERS_MAX
from leasehold.storage.conformance import conform
from leasehold.storage.schema import arrow_schema

if TYPE_CHECKING:
    from leasehold.client.cluster import Cluster

Matched: TypeAlias = Literal["update", "delete", "ignore"]
NotMatched: TypeAlias = Literal["insert", "ignore"]
MATCHED: Final[tuple[Matched, ...]] = get_args(Matched)
NOT_MATCHED: Final[tuple[NotMatched, ...]] = get_args(NotMatched)

_RANGED: Final = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "STRING", "DATE", "TIMESTAMP"})
"""Types of keys by whose range files are passed over."""
_INEXACT: Final = frozenset({"FLOAT", "DOUBLE"})
_ROW: Final = "#row"
_AT: Final = "#at"


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """A merge that is committed."""

    rows_matched: int
    """How many rows of the table had a new row with their keys."""
    rows_added: int
    segments_replaced: int
    segments_short: int
    """How many of its segments are on fewer nodes than the table wants."""
    revision: Revision
    """The first revision that shows what it changed."""


def merge_rows(
    cluster: "Cluster",
    facts: TableFacts,
    rows: pa.Table,
    on: Sequence[str],
    when_matched: Matched = "update",
    when_not_matched: NotMatched = "insert",
) -> Merged:
    """As `client.table.Table.merge`."""
    check_words(on, when_matched, when_not_matched)
    given = _Given(rows, facts, on)
    if not given.rows.num_rows:
        return Merged(rows_matched=0, rows_added=0, segments_replaced=0, segments_short=0, revision=facts.revision)
    where = conditions(given.range())
    for attempt in range(1, REPLACE_ATTEMPTS + 1):
        try:
            return _merge(cluster, facts, _Merge(facts, given, when_matched, when_not_matched), where)
        except Refused as error:
            if error.code != ErrorCode.CONFLICT or attempt == REPLACE_ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def check_words(on: Sequence[str], when_matched: object, when_not_matched: object, *, also: str = "") -> None:
    """Raises `BadSettings`; its hint names what may be written `also`."""
    if not on:
        raise BadSettings("a merge without keys", hint='write on=["id"]')
    if when_matched not in MATCHED:
        raise BadSettings(f"when_matched is {when_matched!r}", hint=f"write one of {', '.join(MATCHED)}{also}")
    if when_not_matched not in NOT_MATCHED:
        raise BadSettings(
            f"when_not_matched is {when_not_matched!r}", hint=f"write one of {', '.join(NOT_MATCHED)}{also}"
        )


def _merge(cluster: "Cluster", facts: TableFacts, merging: "_Merge", where: tuple[Filter, ...]) -> Merged:
    with writing_nothing():
        begun = begin_change(cluster, facts, where, keeps=False)

    def merged() -> Iterator[pa.RecordBatch]:
        with conflicts(facts), unaltered(cluster, begun, facts.name):
            plan = msgspec.structs.replace(cluster.plan(facts.name, where=where), where=())
            check_same_segments(begun, {one.id for one in plan.segments}, facts)
            if plan.segments:
                yield from map(merging.changed, cluster.read(plan))
        yield from merging.added()

    done = replace_rows(cluster, facts, merged(), begun)
    return Merged(
        rows_matched=merging.rows_matched,
        rows_added=merging.rows_added,
        segments_replaced=done.segments_replaced,
        segments_short=done.segments_short,
        revision=done.revision,
    )


def has_exact_values(field: Field) -> bool:
    """Whether rows can be matched by it."""
    return field.type not in _INEXACT


def has_range(field: Field) -> bool:
    """Whether rows are chosen by the least and the greatest value of it."""
    return field.type in _RANGED or isinstance(parse_type(field.type), Decimal)


def between(field: Field, least: str | None, greatest: str | None) -> str | None:
    """The condition that a value lies between two, which are texts, an instant in microseconds; None for no range."""
    if least is None or greatest is None or max(len(least), len(greatest)) > LITERAL_CHARACTERS_MAX:
        return None
    return f"`{field.name}` BETWEEN {_spelled(least, field.type)} AND {_spelled(greatest, field.type)}"


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


def without_key(field: Field) -> Refused:
    return Refused(
        f"rows to merge have no value of the key {field.name}",
        code=ErrorCode.BAD_VALUE,
        hint="leave out these rows, or fill them",
    )


def ambiguous(keys: dict[str, object]) -> Refused:
    shown = ", ".join(
        f"{key} = {value!r}" if isinstance(value, str | bytes) else f"{key} = {value}" for key, value in keys.items()
    )
    return Refused(
        f"several rows to merge have the same keys: {shown[:200]}",
        code=ErrorCode.AMBIGUOUS,
        hint="keep one row for each key",
    )


class _Given:
    """The new rows, in columns of the table."""

    def __init__(self, rows: pa.Table, facts: TableFacts, on: Sequence[str]) -> None:
        """Raises `NotFound`, `BadSettings`, and `Refused`: AMBIGUOUS, BAD_SCHEMA, BAD_VALUE, ROWS_DO_NOT_FIT."""
        named = {field_named(one, facts.fields, facts.name).id for one in rows.column_names}
        self.fields = tuple(one for one in facts.fields if one.id in named)
        self.keys = tuple(field_named(one, facts.fields, facts.name) for one in on)
        for one in self.keys:
            if one not in self.fields:
                raise BadSettings(f"the rows have no column {one.name}", hint="name keys that both have")
            if not has_exact_values(one):
                raise Refused(
                    f"rows can't be matched by {one.name}, which is {one.type}",
                    code=ErrorCode.BAD_SCHEMA,
                    hint="name columns of whole numbers, texts, days or times",
                )
        batches = [conform(one, self.fields) for one in rows.to_batches()]
        self.rows = pa.Table.from_batches(batches, arrow_schema(self.fields))
        self.by_key = self._numbered(self.rows, _ROW)
        self._check_keys()

    def _check_keys(self) -> None:
        for place, one in enumerate(self.keys):
            if self.by_key.column(place).null_count:
                raise without_key(one)
        names = self.by_key.column_names[:-1]
        counted = self.by_key.group_by(names).aggregate([(_ROW, "count")])
        doubled = counted.filter(pc.field(f"{_ROW}_count") > 1)
        if doubled.num_rows:
            raise ambiguous({one.name: doubled[name][0].as_py() for one, name in zip(self.keys, names, strict=True)})

    def _numbered(self, rows: pa.Table | pa.RecordBatch, number: str) -> pa.Table:
        """The keys of some rows with the number of each row, under names of their own."""
        keys = [rows.column(rows.schema.get_field_index(one.name)) for one in self.keys]
        numbers = pa.array(np.arange(rows.num_rows, dtype=np.int64))
        return pa.table([*keys, numbers], names=[*(f"k{place}" for place in range(len(keys))), number])

    def range(self) -> str | None:
        """The conditions that all rows fulfil whose keys occur; None if there are none."""
        found = (
            between(one, *map(_text, pc.call_function("min_max", [self.by_key.column(place)]).values()))
            for place, one in enumerate(self.keys)
            if has_range(one)
        )
        return " AND ".join(one for one in found if one is not None) or None

    def places(self, batch: pa.RecordBatch) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """For each row of the table the number of the new row with its keys; -1 for none."""
        names = self.by_key.column_names[:-1]
        found = self._numbered(batch, _AT).join(self.by_key, names, join_type="inner")
        places = np.full(batch.num_rows, -1, dtype=np.int64)
        places[found[_AT].to_numpy()] = found[_ROW].to_numpy()
        return places


def _text(value: pa.Scalar) -> str | None:
    """As `between` takes it."""
    if pa.types.is_timestamp(value.type):
        value = value.cast(pa.int64())
    found = value.cast(pa.string()).as_py()
    assert found is None or isinstance(found, str), "it was cast"
    return found


class _Merge:
    """One attempt: which new rows were matched so far."""

    def __init__(self, facts: TableFacts, given: _Given, when_matched: Matched, when_not_matched: NotMatched) -> None:
        self._fields = facts.fields
        self._given = given
        self._when_matched: Matched = when_matched
        self._adds = when_not_matched == "insert"
        self._new = [
            (place, given.rows.column(one.name).combine_chunks())
            for place, one in enumerate(facts.fields)
            if one in given.fields and one not in given.keys
        ]
        """The columns that are updated, each with its place in the table."""
        self._is_matched = np.zeros(given.rows.num_rows, dtype=np.bool_)
        self.rows_matched = 0
        self.rows_added = 0

    def changed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What takes the place of these rows of the table."""
        places = self._given.places(batch)
        is_there = places >= 0
        if not is_there.any():
            return batch
        self.rows_matched += int(np.count_nonzero(is_there))
        self._is_matched[places[is_there]] = True
        match self._when_matched:
            case "ignore":
                return batch
            case "delete":
                return batch.filter(pa.array(~is_there))
            case "update":
                return self._updated(batch, pa.array(places[is_there]), pa.array(is_there))

    def _updated(self, batch: pa.RecordBatch, places: pa.Array, is_there: pa.Array) -> pa.RecordBatch:
        columns = list(batch.columns)
        for place, new in self._new:
            columns[place] = pc.call_function("replace_with_mask", [columns[place], is_there, new.take(places)])
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def added(self) -> Iterable[pa.RecordBatch]:
        """The new rows that no row of the table had the keys of."""
        if not self._adds:
            return
        for batch in self._given.rows.filter(pa.array(~self._is_matched)).to_batches():
            self.rows_added += batch.num_rows
            yield conform(batch, self._fields)
