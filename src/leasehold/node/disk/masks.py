"""Hides rows of a batch as `core/data/hidden_rows.py` has decided, by Arrow.

Comparisons are those of Spark: NULL fulfils none, NaN equals itself and is greater than all numbers. The value of a
DELETE fits the type that the column had then, and widening the column later does not change it.
"""

from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from leasehold.core.data.cutoff import rows_taken_away
from leasehold.core.data.hidden_rows import Hiding
from leasehold.core.replicas.rewrite import DAY_US
from leasehold.core.words.records import Comparison, DeleteRecord, Field
from leasehold.ids import FieldId
from leasehold.storage.schema import TIMESTAMP, scalar

_FUNCTIONS: Final = {"=": "equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
_Known = dict[FieldId, tuple[Field, pa.Array]]


def shown(hiding: Hiding, part: pa.RecordBatch, columns: int) -> pa.RecordBatch:
    """The rows of `part` that are not hidden, in its first `columns` columns. Those of `hiding.fields` follow them.
    Raises `Refused` with code ROWS_TAKEN_AWAY."""
    if not hiding.fields:
        return part
    known = {field.id: (field, part.column(columns + place)) for place, field in enumerate(hiding.fields)}
    gone = _hidden(hiding, known, hiding.deletes, hiding.earliest_us)
    kept = part if gone is None else part.filter(pc.call_function("invert", [gone]))
    later = _hidden(hiding, known, hiding.later, hiding.later_us)
    if later is not None:
        left = later if gone is None else pc.call_function("and_not", [later, gone])
        if pc.call_function("any", [left]).as_py():
            raise rows_taken_away(hiding.table, "rows were deleted or a TTL was shortened")
    return kept.select(range(columns)) if columns else _counted(kept.num_rows)


def _hidden(
    hiding: Hiding, known: _Known, deletes: tuple[DeleteRecord, ...], earliest_us: int | None
) -> pa.Array | None:
    """Which rows match one of the DELETEs or lie before `earliest_us`; None if neither is given."""
    hidden = [_taken(delete, known) for delete in deletes]
    if hiding.clock is not None and earliest_us is not None:
        hidden.append(_expired(known[hiding.clock][1], earliest_us))
    return reduce(lambda one, other: pc.call_function("or", [one, other]), hidden) if hidden else None


def _taken(delete: DeleteRecord, known: _Known) -> pa.Array:
    found = [_fulfilled(one, *known[one.field]) for one in delete.where]
    return reduce(lambda one, other: pc.call_function("and", [one, other]), found)


def _fulfilled(comparison: Comparison, field: Field, column: pa.Array) -> pa.Array:
    value = scalar(comparison.value, field.type)
    found = pc.call_function(_FUNCTIONS[comparison.operator], [column, value])
    if pa.types.is_floating(column.type) and comparison.operator in {">", ">="}:
        found = pc.call_function("or", [found, pc.call_function("is_nan", [column])])
    return found.fill_null(False)


def _expired(times: pa.Array, earliest_us: int) -> pa.Array:
    """Which rows lie before that instant; a row without a time never expires."""
    if pa.types.is_date(times.type):
        # In days: the farthest dates have no instant in microseconds. Rounded up to the first day that is not before.
        earliest = pa.scalar(-(-earliest_us // DAY_US), pa.int64())
        times = times.cast(pa.int32()).cast(pa.int64())
    else:
        earliest = pa.scalar(earliest_us, pa.int64()).cast(TIMESTAMP)
    return pc.call_function("less", [times, earliest]).fill_null(False)


def _counted(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], ["counted"]).select([])
