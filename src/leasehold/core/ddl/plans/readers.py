"""What views need of the objects that they read: no statement may remove or rename that.

A view in PRE_DELETE counts too, since the statement that hides it may be rolled back.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import HiddenView, Need, UseState, ViewRecord
from leasehold.core.words.statements import TableName
from leasehold.error_codes import ErrorCode
from leasehold.errors import AlreadyExists, Refused
from leasehold.ids import FieldId, ObjectId
from leasehold.limits.statements import NAMES_IN_ERROR_MAX

READERS_FIRST: Final = "drop those views first, and create them again afterwards"


def views_reading(objects: Mapping[ObjectId, FieldId | None], catalog: Catalog) -> tuple[ViewRecord, ...]:
    """The views that read any of these objects, directly or through others, in the order of their ids.

    `objects` has a field of a table, or None for all of a table or view.
    """
    found: dict[ObjectId, ViewRecord] = {}
    rest: list[tuple[ObjectId, FieldId | None]] = list(objects.items())
    while rest:
        read, field = rest.pop()
        for view in (catalog.views[one] for one in catalog.readers.get(read, ())):
            if view.id not in found and any(_reads(need, read, field) for need in view.needs):
                found[view.id] = view
                rest.append((view.id, None))
    return tuple(sorted(found.values(), key=lambda one: one.id))


def _reads(need: Need, read: ObjectId, field: FieldId | None) -> bool:
    return need.object == read and (field is None or field in need.fields)


def refuse_needed(
    objects: Mapping[ObjectId, FieldId | None], what: str, catalog: Catalog, *, hint: str | None = None
) -> None:
    """Raises `Refused` with code VIEW_NEEDS_IT if a view reads any of `objects`; `what` is what can't be done."""
    readers = views_reading(objects, catalog)
    if readers:
        raise Refused(
            f"{what}: {listed(readers, catalog)} read{'s' if len(readers) == 1 else ''} it",
            code=ErrorCode.VIEW_NEEDS_IT,
            hint=hint or "write CASCADE at the end to drop those views too",
        )


def hide_view(view: ViewRecord) -> tuple[Change, HiddenView]:
    """The change of a view that is about to go, and what brings it back."""
    hidden = msgspec.structs.replace(view, state=UseState.PRE_DELETE)
    return put(keys.view(view.id), hidden), HiddenView(view=view.id)


def check_name_free(name: TableName, catalog: Catalog) -> None:
    """Raises `AlreadyExists` if a table or view has that name, `NotFound` if there is no such database.

    One in PRE_DELETE keeps its name: it may come back.
    """
    database = catalog.database(name.database)
    taken = catalog.relation_named(database.id, name.table)
    if taken is None:
        return
    kind = "view" if taken in catalog.views else "table"
    standing = catalog.views[taken] if taken in catalog.views else catalog.tables[taken]
    if standing.state is UseState.PRE_DELETE:
        raise AlreadyExists(
            f"{kind} {name} is being dropped", hint="run it again when SHOW PROCEDURES no longer shows that"
        )
    raise AlreadyExists(f"{kind} {name} exists", hint="choose another name, or drop it first")


def listed(views: tuple[ViewRecord, ...], catalog: Catalog) -> str:
    """Their names, for an error."""
    names = [str(catalog.table_name(one)) for one in views[:NAMES_IN_ERROR_MAX]]
    rest = len(views) - len(names)
    more = f" and {rest} more" if rest else ""
    return ("view " if len(views) == 1 else "views ") + ", ".join(names) + more
