"""What a SELECT reads: the tables and views that it names, and all that those views read."""

from collections.abc import Iterable, Iterator

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words.records import Need, TableRecord, ViewRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import FieldId, ObjectId
from leasehold.limits.statements import VIEW_NEEDS_MAX


class Reads(msgspec.Struct, frozen=True):
    """`views` each after those that it reads; `tables` by their ids, those that only views read among them."""

    views: tuple[ViewRecord, ...]
    tables: tuple[TableRecord, ...]
    of_tables: dict[ObjectId, list[Need]]
    """What each view reads of a table, by tables."""

    def fields(self, table: ObjectId) -> set[FieldId] | None:
        """The columns of a table that views read; None if no view reads the table. Rights are checked without them, and
        a hundred views may read a thousand each."""
        needs = self.of_tables.get(table)
        return None if needs is None else set[FieldId]().union(*(need.fields for need in needs))


def all_read(named: Iterable[TableRecord | ViewRecord], catalog: Catalog) -> Reads:
    """All that is read where these are named in a SELECT, each once."""
    views: dict[ObjectId, ViewRecord] = {}
    of_tables: dict[ObjectId, list[Need]] = {}
    tables: set[ObjectId] = set()

    def take(view: ViewRecord) -> None:  # no deeper than VIEW_DEPTH_MAX
        for need in view.needs:
            if need.object in catalog.views and need.object not in views:
                take(catalog.views[need.object])
            elif need.object in catalog.tables:
                of_tables.setdefault(need.object, []).append(need)
        views[view.id] = view

    for one in named:
        if isinstance(one, TableRecord):
            tables.add(one.id)
        elif one.id not in views:
            take(one)
    return Reads(
        views=tuple(views.values()),
        tables=tuple(catalog.tables[one] for one in sorted(tables | of_tables.keys())),
        of_tables=of_tables,
    )


def walked(named: Iterable[TableRecord | ViewRecord], catalog: Catalog) -> Iterator[TableRecord | ViewRecord]:
    """What `all_read` finds, in any order, for callers that stop early. Raises `Refused` with code TOO_MANY_VIEWS."""
    seen: set[ObjectId] = set()
    needs = 0
    for first in named:
        waiting = [first]
        while waiting:
            one = waiting.pop()
            if one.id in seen:
                continue
            seen.add(one.id)
            yield one
            if isinstance(one, ViewRecord):
                needs += len(one.needs)
                _check_needs(needs)
                below = (catalog.views.get(need.object) or catalog.tables.get(need.object) for need in one.needs)
                waiting.extend(filter(None, below))


def _check_needs(count: int) -> None:
    """Raises `Refused` with code TOO_MANY_VIEWS if the views that are read through each other read too much."""
    if count > VIEW_NEEDS_MAX:
        raise Refused(
            f"views would be read that name more than {VIEW_NEEDS_MAX} tables and views, all together",
            code=ErrorCode.TOO_MANY_VIEWS,
            hint="read the tables instead of views on views",
        )
