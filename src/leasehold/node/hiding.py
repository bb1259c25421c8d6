"""Which rows of a segment a view hides: those that have expired, and those that a DELETE has taken.

What a scan reads beside the columns that were asked for follows from this; which rows go is decided on the view of the
guard that a batch passes, so a DELETE that returned is never undone by a batch that was read before. Comparisons are
those of Spark: a NULL fulfils none, and NaN equals itself and lies above all numbers. The value of a DELETE was made
to fit the column's type, and widening the column later does not change it.
"""

from functools import reduce
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from leasehold.core.catalog import Catalog, field_by_id
from leasehold.core.records import Comparison, DeleteRecord, Field, SegmentRecord, TableRecord
from leasehold.core.rewrite import DAY_US, hiding
from leasehold.ids import FieldId
from leasehold.storage.literals import scalar
from leasehold.storage.schema import TIMESTAMP

_FUNCTIONS: Final = {"=": "equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}


class Hiding(msgspec.Struct, frozen=True, kw_only=True):
    """What hides rows of one segment, by one view. `fields` are the columns that tell, as they are read for it."""

    clock: FieldId | None = None
    earliest_us: int = 0
    deletes: tuple[DeleteRecord, ...] = ()
    fields: tuple[Field, ...] = ()

    def shown(self, part: pa.RecordBatch, columns: int) -> pa.RecordBatch:
        """The rows of `part` that are not hidden, in its first `columns` columns; those of `fields` follow them."""
        if not self.fields:
            return part
        known = {field.id: (field, part.column(columns + place)) for place, field in enumerate(self.fields)}
        hidden = [_taken(delete, known) for delete in self.deletes]
        if self.clock is not None:
            hidden.append(_expired(known[self.clock][1], self.earliest_us))
        gone = reduce(lambda one, other: pc.call_function("or", [one, other]), hidden)
        kept = part.filter(pc.call_function("invert", [gone]))
        return kept.select(range(columns)) if columns else _counted(kept.num_rows)


NOTHING: Final = Hiding()


class Hidings:
    """What is hidden of one segment by the views that a scan meets, one after the other."""

    def __init__(self) -> None:
        self._table: TableRecord | None = None
        self._segment: SegmentRecord | None = None
        self._deletes: object = None
        self._hiding = NOTHING

    def of(self, table: TableRecord, segment: SegmentRecord, view: Catalog) -> Hiding:
        """What `view` hides. Records are immutable: while it holds those of the last time, the answer is the same."""
        horizon, deletes = view.horizons.get(table.id), view.deletes.get(table.id)
        if horizon is None and deletes is None:
            return NOTHING
        same = table is self._table and segment is self._segment and deletes is self._deletes
        clock = None if horizon is None else table.time_column
        if not same or clock != self._hiding.clock:
            self._table, self._segment, self._deletes = table, segment, deletes
            found = hiding(table.id, segment, view)
            self._hiding = Hiding(clock=clock, deletes=found, fields=_telling(table, clock, found))
        if horizon is not None and clock is not None and horizon.earliest_us != self._hiding.earliest_us:
            self._hiding = msgspec.structs.replace(self._hiding, earliest_us=horizon.earliest_us)
        return self._hiding


def _telling(table: TableRecord, clock: FieldId | None, deletes: tuple[DeleteRecord, ...]) -> tuple[Field, ...]:
    """The columns that tell which rows are hidden, each once."""
    numbers = {one.field for delete in deletes for one in delete.where} | ({clock} if clock is not None else set())
    fields = (field_by_id(table, number) for number in sorted(numbers))
    # A file knows it by its id; one that may be null is read from any file.
    return tuple(msgspec.structs.replace(field, nullable=True) for field in fields if field is not None)


def _taken(delete: DeleteRecord, known: dict[FieldId, tuple[Field, pa.Array]]) -> pa.Array:
    """Which rows fulfil all comparisons."""
    found = [_fulfilled(one, *known[one.field]) for one in delete.where]
    return reduce(lambda one, other: pc.call_function("and", [one, other]), found)


def _fulfilled(comparison: Comparison, field: Field, column: pa.Array) -> pa.Array:
    value = scalar(comparison.value, field.type)
    found = pc.call_function(_FUNCTIONS[comparison.operator], [column, value])
    if pa.types.is_floating(column.type) and comparison.operator in {">", ">="}:
        found = pc.call_function("or", [found, pc.call_function("is_nan", [column])])
    return found.fill_null(False)


def _expired(times: pa.Array, earliest_us: int) -> pa.Array:
    """Which rows lie before that instant; one without a time never expires."""
    if pa.types.is_date(times.type):
        # Days, of which the farthest have no instant in microseconds: the first that begins no earlier.
        earliest = pa.scalar(-(-earliest_us // DAY_US), pa.int64())
        times = times.cast(pa.int32()).cast(pa.int64())
    else:
        earliest = pa.scalar(earliest_us, pa.int64()).cast(TIMESTAMP)
    return pc.call_function("less", [times, earliest]).fill_null(False)


def _counted(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], ["counted"]).select([])
