"""Tables."""

from collections.abc import Sequence

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import Context, Plan, counters, next_object, put, put_bounded
from leasehold.core.ddl.plans.cascade import dropping, views_that_go
from leasehold.core.ddl.plans.columns import numbered
from leasehold.core.ddl.plans.readers import READERS_FIRST, check_name_free, refuse_needed
from leasehold.core.ddl.plans.rights import forget_rights
from leasehold.core.replicas.replication import check_min_in_sync, place, staying
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import BucketRecord, DroppedRecord, HiddenTable, TableRecord, UseState
from leasehold.core.words.statements import CreateTable, DropTable, RenameTable, TableName, fold
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import BucketNumber, FieldId, NodeId, SchemaVersion

DEFAULT_REPLICATION = 2


def create_table(statement: CreateTable, catalog: Catalog, context: Context) -> Plan | None:
    """A new, empty table with its buckets placed."""
    database = catalog.database(statement.name.database)
    if statement.if_not_exists and catalog.find_table(statement.name) is not None:
        return None
    check_name_free(statement.name, catalog)
    object_id, after = next_object(catalog)
    fields = numbered(statement.columns, FieldId(1), old_rows=False)
    ids = {fold(field.name): field.id for field in fields}
    members = len(staying(catalog, context.leaving))
    table = TableRecord(
        id=object_id,
        database=database.id,
        name=statement.name.table,
        state=UseState.IN_USE,
        schema_version=SchemaVersion(1),
        fields=fields,
        next_field=FieldId(len(fields) + 1),
        cluster_by=None if statement.cluster_by is None else ids[fold(statement.cluster_by)],
        buckets=statement.buckets,
        replication=statement.replication or min(DEFAULT_REPLICATION, max(1, members)),
        min_in_sync=statement.min_in_sync or 0,
        ttl_ns=statement.ttl_ns,
        time_column=None if statement.time_column is None else ids[fold(statement.time_column)],
        properties=dict(statement.properties),
        comment=statement.comment,
    )
    check_min_in_sync(table, statement.name)
    buckets = place(
        catalog,
        table=object_id,
        buckets=table.buckets,
        replication=table.replication,
        serving=context.serving,
        leaving=context.leaving,
    )
    placed = tuple(put(keys.bucket(object_id, one.bucket), one) for one in buckets)
    changes = (put_bounded(keys.table(object_id), table), *placed)
    return Plan(changes=changes, counters=after, notes=_placement_notes(buckets, table.replication, context, catalog))


def _placement_notes(
    buckets: Sequence[BucketRecord], replication: int, context: Context, catalog: Catalog
) -> tuple[str, ...]:
    """Whether a bucket has fewer replicas on nodes that serve now than the table asks for."""
    fewest = min(sum(node in context.serving for node in one.replicas) for one in buckets)
    if fewest == replication:
        return ()
    away = sorted({node for one in buckets for node in one.replicas if node not in context.serving})
    names = ", ".join(catalog.nodes[node].name for node in away)
    return (f"{fewest} of {replication} replicas are on nodes that serve; the others are on {names}",)


def rename_table(statement: RenameTable, catalog: Catalog, _context: Context) -> Plan | None:
    """Another name within its database."""
    table = _existing(statement.table, catalog, if_exists=statement.if_exists)
    if table is None or table.name == statement.to.table:
        return None
    if fold(statement.to.database) != fold(statement.table.database):
        raise Refused(
            f"{statement.to} is in another database",
            code=ErrorCode.OTHER_DATABASE,
            hint=f"rename it to {TableName(statement.table.database, statement.to.table)}",
        )
    refuse_needed({table.id: None}, f"table {statement.table} can't be renamed", catalog, hint=READERS_FIRST)
    if fold(table.name) != fold(statement.to.table):
        check_name_free(statement.to, catalog)
    renamed = msgspec.structs.replace(table, name=statement.to.table)
    return Plan(changes=(put_bounded(keys.table(table.id), renamed),), counters=counters(catalog))


def drop_table(statement: DropTable, catalog: Catalog, _context: Context) -> Plan | None:
    """Hides the table, and with CASCADE the views that read it."""
    table = _existing(statement.table, catalog, if_exists=statement.if_exists)
    if table is None:
        return None
    what = f"table {statement.table} can't be dropped"
    views = views_that_go({table.id: None}, what, catalog, cascade=statement.cascade)
    return dropping(catalog, views=views, tables=(table,))


def remove_table(hidden: HiddenTable, catalog: Catalog) -> tuple[Change, ...]:
    """The table goes; nodes delete its files and report it, and its manifest goes behind it
    (`core/replicas/leftovers.py`)."""
    table = catalog.tables[hidden.table]
    assert table.state is UseState.PRE_DELETE, "the pre-state is compared (INV-DROP-1)"
    changes = [Change(keys.table(table.id), None), *forget_rights((table.id,), catalog)]
    if table.id in catalog.horizons:
        changes.append(Change(keys.horizon(table.id), None))
    changes.extend(Change(keys.delete(table.id, number), None) for number in sorted(catalog.deletes.get(table.id, ())))
    pending: set[NodeId] = set()
    for number in range(table.buckets):
        bucket = catalog.buckets[table.id, BucketNumber(number)]
        pending.update(bucket.replicas, bucket.retired)
        changes.append(Change(keys.bucket(table.id, bucket.bucket), None))
    alive = tuple(sorted(node for node in pending if node in catalog.nodes and not catalog.nodes[node].removed))
    if alive:
        dropped = DroppedRecord(table=table.id, name=str(catalog.table_name(table)), pending=alive)
        changes.append(put(keys.dropped(table.id), dropped))
    return tuple(changes)


def restore_table(hidden: HiddenTable, catalog: Catalog) -> tuple[Change, ...]:
    table = catalog.tables[hidden.table]
    assert table.state is UseState.PRE_DELETE, "nobody else brings it back"
    return (put(keys.table(table.id), msgspec.structs.replace(table, state=UseState.IN_USE)),)


def _existing(name: TableName, catalog: Catalog, *, if_exists: bool) -> TableRecord | None:
    """The table in use; raises `NotFound`, unless there need not be one."""
    if if_exists and catalog.find_table(name) is None and catalog.find_view(name) is None:
        return None
    return catalog.table(name)
