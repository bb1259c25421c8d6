"""Which rows of a segment a view hides: those that have expired, and those that a DELETE has taken.

This is decided on the view of the guard that a batch passes, so a batch that was read earlier never shows what a DELETE
took. A query with a cutoff (`core/data/cutoff.py`) leaves out what is gone by that, and ends at a row that only the
view hides. The rows themselves are compared where they are read (`node/disk/masks.py`).
"""

from typing import Final

import msgspec

from leasehold.core.catalog.catalog import Catalog, field_by_id
from leasehold.core.data.cutoff import check_decided, expiry
from leasehold.core.replicas.rewrite import hiding
from leasehold.core.words.messages import Cutoff
from leasehold.core.words.records import DeleteRecord, Field, SegmentRecord, TableRecord
from leasehold.ids import FieldId


class Hiding(msgspec.Struct, frozen=True, kw_only=True):
    """What hides rows of one segment, by one view; `fields` are the columns to read for it."""

    table: str = ""
    clock: FieldId | None = None
    earliest_us: int | None = None
    deletes: tuple[DeleteRecord, ...] = ()
    later_us: int | None = None
    """What expired after the query's cutoff: a row before that instant ends the query."""
    later: tuple[DeleteRecord, ...] = ()
    """The DELETEs after the query's cutoff: a row that they take ends the query."""
    fields: tuple[Field, ...] = ()


NOTHING: Final = Hiding()


class Hidings:
    """What the views that a scan meets, one after the other, hide of one segment."""

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
    numbers = {one.field for delete in deletes for one in delete.where} | ({clock} if clock is not None else set())
    fields = (field_by_id(table, number) for number in sorted(numbers))
    # A file knows it by its id; one that may be null is read from any file.
    return tuple(msgspec.structs.replace(field, nullable=True) for field in fields if field is not None)
