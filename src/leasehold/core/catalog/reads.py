"""What a SELECT reads: the tables and views that it names, and all that those views read."""

from collections.abc import Iterable

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words.records import TableRecord, ViewRecord
from leasehold.ids import FieldId, ObjectId


class Reads(msgspec.Struct, frozen=True):
    """`views` each after those that it reads; `tables` by their ids, those that only views read among them; `fields`
    has the columns that views read of a table."""

    views: tuple[ViewRecord, ...]
    tables: tuple[TableRecord, ...]
    fields: dict[ObjectId, set[FieldId]]


def all_read(named: Iterable[TableRecord | ViewRecord], catalog: Catalog) -> Reads:
    """All that is read where these are named in a SELECT, each once."""
    views: dict[ObjectId, ViewRecord] = {}
    fields: dict[ObjectId, set[FieldId]] = {}
    tables: set[ObjectId] = set()

    def take(view: ViewRecord) -> None:  # no deeper than VIEW_DEPTH_MAX
        for need in view.needs:
            if need.object in catalog.views and need.object not in views:
                take(catalog.views[need.object])
            elif need.object in catalog.tables:
                fields.setdefault(need.object, set()).update(need.fields)
        views[view.id] = view

    for one in named:
        if isinstance(one, TableRecord):
            tables.add(one.id)
        elif one.id not in views:
            take(one)
    return Reads(
        views=tuple(views.values()),
        tables=tuple(catalog.tables[one] for one in sorted(tables | fields.keys())),
        fields=fields,
    )
