"""Views."""

from collections.abc import Iterable

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import Context, Plan, counters, next_object, put, put_bounded
from leasehold.core.catalog.reads import walked
from leasehold.core.ddl.plans.cascade import dropping, views_that_go
from leasehold.core.ddl.plans.readers import READERS_FIRST, check_name_free, listed, refuse_needed, views_reading
from leasehold.core.ddl.plans.rights import forget_rights
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import HiddenView, Need, UseState, ViewRecord
from leasehold.core.words.statements import CreateView, DropView, RenameView, TableName, fold
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import ObjectId
from leasehold.limits.statements import NAMES_IN_ERROR_MAX, VIEW_DEPTH_MAX


def create_view(statement: CreateView, catalog: Catalog, context: Context) -> Plan | None:
    """Additive, also with OR REPLACE: the view keeps its number, and so its rights.

    `context.view` is what the body comes to; what it reads is claimed, so that it still does.
    """
    database = catalog.database(statement.view.database)
    standing = catalog.find_view(statement.view)
    if standing is not None and statement.if_not_exists:
        return None
    if standing is None or not statement.or_replace:
        check_name_free(statement.view, catalog)
    resolved = context.view
    assert resolved is not None, "the leader resolves the body before it decides"
    object_id, after = next_object(catalog) if standing is None else (standing.id, counters(catalog))
    view = ViewRecord(
        id=object_id,
        database=database.id,
        name=statement.view.table,
        state=UseState.IN_USE,
        body=resolved.body,
        columns=resolved.columns,
        needs=resolved.needs,
        comment=statement.comment,
    )
    if view == standing:
        return None
    _check_depth(view, statement.view, catalog)
    if standing is not None:
        _check_columns_kept(standing, view, catalog)
    return Plan(changes=(put_bounded(keys.view(view.id), view),), counters=after)


def rename_view(statement: RenameView, catalog: Catalog, _context: Context) -> Plan | None:
    """Additive. Refused where another view reads it: its text names it."""
    standing = _standing(statement, catalog)
    if standing is None:
        return None
    if fold(statement.to.database) != fold(statement.view.database):
        raise Refused(
            f"{statement.view} can't be moved to database {statement.to.database}",
            code=ErrorCode.OTHER_DATABASE,
            hint="create it there, then drop it here",
        )
    if statement.to.table == standing.name:
        return None
    refuse_needed({standing.id: None}, f"view {statement.view} can't be renamed", catalog, hint=READERS_FIRST)
    if fold(statement.to.table) != fold(standing.name):
        check_name_free(statement.to, catalog)
    renamed = msgspec.structs.replace(standing, name=statement.to.table)
    return Plan(changes=(put_bounded(keys.view(standing.id), renamed),), counters=counters(catalog))


def _standing(statement: RenameView | DropView, catalog: Catalog) -> ViewRecord | None:
    """Raises `NotFound`, unless `statement` says IF EXISTS."""
    standing = catalog.find_view(statement.view)
    if standing is None and not (statement.if_exists and catalog.find_table(statement.view) is None):
        return catalog.view(statement.view)
    return standing


def drop_view(statement: DropView, catalog: Catalog, _context: Context) -> Plan | None:
    """Destructive. With CASCADE the views that read it go with it."""
    standing = _standing(statement, catalog)
    if standing is None:
        return None
    what = f"view {statement.view} can't be dropped"
    readers = views_that_go({standing.id: None}, what, catalog, cascade=statement.cascade)
    return dropping(catalog, views=(standing, *readers))


def remove_view(hidden: HiddenView, catalog: Catalog) -> tuple[Change, ...]:
    assert catalog.views[hidden.view].state is UseState.PRE_DELETE, "the pre-state is compared (INV-DROP-1)"
    return (Change(keys.view(hidden.view), None), *forget_rights((hidden.view,), catalog))


def restore_view(hidden: HiddenView, catalog: Catalog) -> tuple[Change, ...]:
    view = msgspec.structs.replace(catalog.views[hidden.view], state=UseState.IN_USE)
    return (put(keys.view(view.id), view),)


def _check_depth(view: ViewRecord, name: TableName, catalog: Catalog) -> None:
    """Raises `Refused`: CYCLIC_VIEW if it would read itself, VIEW_TOO_DEEP if the views on it would read too far,
    TOO_MANY_VIEWS if it would read too much through others."""
    for _ in walked((view,), catalog):
        pass
    below = _depths(view.needs, catalog)
    above = views_reading({view.id: None}, catalog)
    if view.id in below:
        through = tuple(one for one in above if one.id in below and one.id != view.id)
        text = f"view {name} would read itself" + (f", through {listed(through, catalog)}" if through else "")
        raise Refused(text, code=ErrorCode.CYCLIC_VIEW, hint="read the tables of those views instead")
    depth = 1 + max((below[one.object] for one in view.needs if one.object in below), default=0)
    changed = catalog.changed((put(keys.view(view.id), view),))
    deepest = max([depth, *_depths((Need(object=one.id, fields=()) for one in above), changed).values()])
    if deepest > VIEW_DEPTH_MAX:
        raise Refused(
            f"view {name}: views would read each other {deepest} deep, over {VIEW_DEPTH_MAX}",
            code=ErrorCode.VIEW_TOO_DEEP,
            hint="read the tables instead of views on them",
        )


def _depths(needs: Iterable[Need], catalog: Catalog) -> dict[ObjectId, int]:
    """The depth of every view that is read, directly or through others; 1 for one that reads tables only."""
    depths: dict[ObjectId, int] = {}

    def depth(view: ViewRecord) -> int:
        if view.id not in depths:
            read = (catalog.views[one.object] for one in view.needs if one.object in catalog.views)
            depths[view.id] = 1 + max(map(depth, read), default=0)
        return depths[view.id]

    for need in needs:
        if need.object in catalog.views:
            depth(catalog.views[need.object])
    return depths


def _check_columns_kept(before: ViewRecord, after: ViewRecord, catalog: Catalog) -> None:
    """Raises `Refused` with code VIEW_NEEDS_IT if a column goes and another view reads this one."""
    kept = {fold(column.name) for column in after.columns}
    gone = [column.name for column in before.columns if fold(column.name) not in kept]
    if gone:
        name = TableName(catalog.databases[before.database].name, before.name)
        what = f"view {name} can't be replaced by a view without {', '.join(gone[:NAMES_IN_ERROR_MAX])}"
        refuse_needed({before.id: None}, what, catalog, hint=f"keep those columns, or {READERS_FIRST}")
