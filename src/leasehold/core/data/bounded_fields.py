"""The columns of a table whose bounds are kept (docs/decisions/0072-bounds-are-kept-of-some-columns.md)."""

from leasehold.core.catalog.catalog import live_fields
from leasehold.core.words.records import TableRecord
from leasehold.ids import FieldId
from leasehold.limits.segments import STATISTICS_COLUMNS_MAX


def bounded_fields(table: TableRecord) -> frozenset[FieldId]:
    """The first columns, and those that the table is clustered and kept by. The others let no scan pass over a
    segment."""
    first = (one.id for one in live_fields(table)[:STATISTICS_COLUMNS_MAX])
    named = (one for one in (table.cluster_by, table.time_column) if one is not None)
    return frozenset((*first, *named))
