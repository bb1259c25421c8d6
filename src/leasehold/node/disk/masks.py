"""Hides rows of a batch as `core/data/hidden_rows.py` has decided, by Arrow.

The value of a DELETE fits the type that the column had then, and widening the column later does not change it.
"""

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from leasehold.core.data.cutoff import rows_taken_away
from leasehold.core.data.hidden_rows import Hiding
from leasehold.core.replicas.rewrite import DAY_US
from leasehold.core.words.records import DeleteRecord, Field
from leasehold.ids import FieldId
from leasehold.storage.comparisons import fulfilled
from leasehold.storage.schema import TIMESTAMP

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
    found: list[pa.Array] = []
    for one in delete.where:
        field, column = known[one.field]
        found.append(fulfilled(column, field, one.operator, (one.value,)))
    return reduce(lambda one, other: pc.call_function("and", [one, other]), found)


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
