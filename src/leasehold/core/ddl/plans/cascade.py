"""CASCADE: what goes along with what is dropped, within what one transaction can hold."""

from collections.abc import Iterable, Mapping

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import Plan, counters, put
from leasehold.core.ddl.plans.readers import hide_view, refuse_needed, views_reading
from leasehold.core.words import keys, records
from leasehold.core.words.operations import Change
from leasehold.core.words.records import UseState
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import FieldId, ObjectId
from leasehold.limits.metastorage import CHANGE_FRAMING_BYTES
from leasehold.limits.statements import CASCADE_BYTES_MAX, CASCADE_OBJECTS_MAX, CASCADE_RECORDS_MAX


def views_that_go(
    objects: Mapping[ObjectId, FieldId | None], what: str, catalog: Catalog, *, cascade: bool
) -> tuple[records.ViewRecord, ...]:
    """The views that read any of `objects`; without CASCADE none may: raises `Refused` (VIEW_NEEDS_IT)."""
    if not cascade:
        refuse_needed(objects, what, catalog)
        return ()
    return views_reading(objects, catalog)


def dropping(
    catalog: Catalog,
    *,
    views: Iterable[records.ViewRecord] = (),
    tables: Iterable[records.TableRecord] = (),
    databases: Iterable[records.DatabaseRecord] = (),
) -> Plan:
    """Hides all of these; the databases hold nothing else. Raises `Refused` (TOO_LARGE, UNDER_WAY)."""
    changes: list[Change] = []
    hides: list[records.Hidden] = []
    for view in views:
        if view.state is not UseState.IN_USE:
            # CASCADE claims all views, so that only EXPLAIN, which waits for nobody, meets one that goes already.
            raise Refused(
                f"view {catalog.table_name(view)} is being dropped by another statement",
                code=ErrorCode.UNDER_WAY,
                hint="run it again when SHOW PROCEDURES no longer shows that statement",
            )
        change, hidden = hide_view(view)
        changes.append(change)
        hides.append(hidden)
    for table in tables:
        changes.append(put(keys.table(table.id), msgspec.structs.replace(table, state=UseState.PRE_DELETE)))
        hides.append(records.HiddenTable(table=table.id))
    for database in databases:
        changes.append(put(keys.database(database.id), msgspec.structs.replace(database, state=UseState.PRE_DELETE)))
        hides.append(records.HiddenDatabase(database=database.id))
    return bounded(Plan(changes=tuple(changes), counters=counters(catalog), hides=tuple(hides)), catalog)


def bounded(plan: Plan, catalog: Catalog) -> Plan:
    """The plan, if each of its transactions holds what it has to; raises `Refused` (TOO_LARGE)."""
    hint = "drop some of it first"
    if len(plan.hides) > CASCADE_OBJECTS_MAX:
        text = f"{len(plan.hides)} objects would be dropped at once, over {CASCADE_OBJECTS_MAX}"
        raise Refused(text, code=ErrorCode.TOO_LARGE, hint=hint)
    count = sum(_records(hidden, catalog) for hidden in plan.hides)
    if count > CASCADE_RECORDS_MAX:
        text = f"{count} buckets, DELETEs and rights would be dropped at once, over {CASCADE_RECORDS_MAX}"
        raise Refused(text, code=ErrorCode.TOO_LARGE, hint=hint)
    size = sum(len(one.key) + len(one.value or b"") + CHANGE_FRAMING_BYTES for one in plan.changes)
    if size > CASCADE_BYTES_MAX:
        text = f"the descriptions of the dropped objects take {size} bytes, over {CASCADE_BYTES_MAX}"
        raise Refused(text, code=ErrorCode.TOO_LARGE, hint=hint)
    return plan


def _records(hidden: records.Hidden, catalog: Catalog) -> int:
    match hidden:
        case records.HiddenTable(table=table):
            own = catalog.tables[table].buckets + len(catalog.deletes.get(table, ()))
            return own + len(catalog.grants.get(table, ()))
        case records.HiddenDatabase(database=target) | records.HiddenView(view=target):
            return len(catalog.grants.get(target, ()))
        case _:
            return 0
