"""Which rows of a segment a view hides: those that have expired, and those that a DELETE has taken.

What a scan reads beside the columns that were asked for follows from this. Which rows go is decided on the view of the
guard that a batch passes, so a DELETE that returned is never undone by a batch that was read before. A query with a
cutoff (`core/cutoff.py`) leaves out what is gone by that, and ends at a row that only the view hides. Comparisons are
those of Spark: a NULL fulfils none, and NaN equals itself and lies above all numbers. The value of a DELETE was made
to fit the column's type, and widening the column later does not change it.
"""

from functools import reduce
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from leasehold.core.catalog import Catalog, field_by_id
from leasehold.core.cutoff import check_decided, expiry, rows_taken_away
from leasehold.core.messages import Cutoff
from leasehold.core.records import Comparison, DeleteRecord, Field, SegmentRecord, TableRecord
from leasehold.core.rewrite import DAY_US, hiding
from leasehold.ids import FieldId
from leasehold.storage.literals import scalar
from leasehold.storage.schema import TIMESTAMP

_FUNCTIONS: Final = {"=": "equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}


class Hiding(msgspec.Struct, frozen=True, kw_only=True):
    """What hides rows of one segment, by one view. `fields` are the columns that tell, as they are read for it."""

    table: str = ""
    clock: FieldId | None = None
    earliest_us: int | None = None
    deletes: tuple[DeleteRecord, ...] = ()
    later_us: int | None = None
    """What expired after the query's cutoff: a row before that instant ends the query."""
    later: tuple[DeleteRecord, ...] = ()
    """The DELETEs after the query's cutoff: a row that they take ends the query."""
    fields: tuple[Field, ...] = ()

    def shown(self, part: pa.RecordBatch, columns: int) -> pa.RecordBatch:
        """The rows of `part` that are not hidden, in its first `columns` columns; those of `fields` follow them.

        Raises `Refused` with code ROWS_TAKEN_AWAY.
        """
        if not self.fields:
            return part
        known = {field.id: (field, part.column(columns + place)) for place, field in enumerate(self.fields)}
        gone = self._hidden(known, self.deletes, self.earliest_us)
        kept = part if gone is None else part.filter(pc.call_function("invert", [gone]))
        later = self._hidden(known, self.later, self.later_us)
        if later is not None:
            left = later if gone is None else pc.call_function("and_not", [later, gone])
            if pc.call_function("any", [left]).as_py():
                raise rows_taken_away(self.table, "rows were deleted or a TTL was shortened")
        return kept.select(range(columns)) if columns else _counted(kept.num_rows)

    def _hidden(self, known: "_Known", deletes: tuple[DeleteRecord, ...], earliest_us: int | None) -> pa.Array | None:
        """Which rows these DELETEs take, or lie before that instant; None where neither is given."""
        hidden = [_taken(delete, known) for delete in deletes]
        if self.clock is not None and earliest_us is not None:
            hidden.append(_expired(known[self.clock][1], earliest_us))
        return reduce(lambda one, other: pc.call_function("or", [one, other]), hidden) if hidden else None


NOTHING: Final = Hiding()
_Known = dict[FieldId, tuple[Field, pa.Array]]


class Hidings:
    """What is hidden of one segment by the views that a scan meets, one after the other."""

    def __init__(self, cutoff: Cutoff | None = None) -> None:
        self._cutoff = cutoff
        self._table: TableRecord | None = None
        self._segment: SegmentRecord | None = None
        self._deletes: object = None
        self._hiding = NOTHING

    def of(self, table: TableRecord, segment: SegmentRecord, view: Catalog) -> Hiding:
        """What `view` hides. Records are immutable: while it holds those of the last time, the answer is the same.

        Raises `Refused` with code ROWS_TAKEN_AWAY.
        """
        cutoff, horizon, deletes = self._cutoff, view.horizons.get(table.id), view.deletes.get(table.id)
        if cutoff is not None and cutoff.undecided:
            check_decided(cutoff, deletes or (), str(view.table_name(table)))
        earliest_us, later_us = expiry(cutoff, horizon)
        clock = None if earliest_us is None and later_us is None else table.time_column
        if clock is None and deletes is None:
            return NOTHING
        same = table is self._table and segment is self._segment and deletes is self._deletes
        if not same or clock != self._hiding.clock:
            self._table, self._segment, self._deletes = table, segment, deletes
            found = hiding(table.id, segment, view)
            newest = table.deletes if cutoff is None else cutoff.deletes  # INV-SCAN-1
            self._hiding = Hiding(
                table=str(view.table_name(table)),
                clock=clock,
                deletes=tuple(one for one in found if one.number <= newest),
                later=tuple(one for one in found if one.number > newest),
                fields=_telling(table, clock, found),
            )
        if (earliest_us, later_us) != (self._hiding.earliest_us, self._hiding.later_us):
            self._hiding = msgspec.structs.replace(self._hiding, earliest_us=earliest_us, later_us=later_us)
        return self._hiding


def _telling(table: TableRecord, clock: FieldId | None, deletes: tuple[DeleteRecord, ...]) -> tuple[Field, ...]:
    """The columns that tell which rows are hidden, each once."""
    numbers = {one.field for delete in deletes for one in delete.where} | ({clock} if clock is not None else set())
    fields = (field_by_id(table, number) for number in sorted(numbers))
    # A file knows it by its id; one that may be null is read from any file.
    return tuple(msgspec.structs.replace(field, nullable=True) for field in fields if field is not None)


def _taken(delete: DeleteRecord, known: _Known) -> pa.Array:
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
