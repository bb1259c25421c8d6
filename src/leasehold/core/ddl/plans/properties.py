"""Properties, TTL, replication and comments: none of them changes a schema."""

from collections.abc import Mapping
from typing import Final

import msgspec

from leasehold.core.catalog.catalog import Catalog, field_named
from leasehold.core.catalog.plan import Context, Plan, counters, next_revision, put, put_bounded
from leasehold.core.replicas.replication import check_min_in_sync, check_nodes, staying
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import ExpiredRows, HorizonRecord, TableRecord
from leasehold.core.words.statements import AlterProperties, Comment, OnDatabase, OnTable, OnView
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotFound, Refused
from leasehold.limits.statements import PROPERTIES_MAX

_MORE_COPIES: Final = "copies are made from now on; SHOW BUCKETS OF {} and `leasehold status` show how many are missing"
_FEWER_COPIES: Final = "copies are taken away from now on; SHOW BUCKETS OF {} shows how many there are"
NO_HORIZON_US: Final = -(2**63)
"""The horizon of a table that never had a TTL: it hides nothing."""


def changed_properties(now: Mapping[str, str], asked: Mapping[str, str | None], *, if_exists: bool) -> dict[str, str]:
    """`now` with what was asked for, None to take a key away; raises `NotFound` for a key that is not there."""
    after = dict(now)
    for key, value in asked.items():
        if value is not None:
            after[key] = value
        elif key in after:
            del after[key]
        elif not if_exists:
            raise NotFound(f"no property {key}", hint="use IF EXISTS, or list the properties with SHOW TBLPROPERTIES")
    if len(after) > PROPERTIES_MAX:
        text = f"there would be {len(after)} properties, over {PROPERTIES_MAX}"
        raise Refused(text, code=ErrorCode.BAD_PROPERTY, hint="remove some of them first")
    return after


def alter_properties(statement: AlterProperties, catalog: Catalog, context: Context) -> Plan | None:
    """Other properties; a TTL that is shorter than before, or the first, hides rows and takes them away."""
    table = catalog.table(statement.table)
    properties = changed_properties(table.properties, statement.properties, if_exists=statement.if_exists)
    ttl_ns, replication = _new_ttl_ns(statement, table), _new_replication(statement, table, catalog, context)
    min_in_sync = _new_min_in_sync(statement, table)
    copied = msgspec.structs.replace(table, replication=replication, min_in_sync=min_in_sync)
    check_min_in_sync(copied, statement.table)
    changed = msgspec.structs.replace(copied, properties=properties, ttl_ns=ttl_ns)
    if changed == table:
        return None
    change = put_bounded(keys.table(table.id), changed)
    notes: tuple[str, ...] = ()
    if replication != table.replication:
        text = _MORE_COPIES if replication > table.replication else _FEWER_COPIES
        notes = (text.format(statement.table),)
    if ttl_ns is None or (table.ttl_ns is not None and ttl_ns >= table.ttl_ns):
        return Plan(changes=(change,), counters=counters(catalog), notes=notes)
    if copied != table:
        raise Refused(
            "a TTL that hides rows can't be set by one statement with 'replication' or 'min_in_sync'",
            code=ErrorCode.BAD_PROPERTY,
            hint="set them by two statements",
        )
    # A rewrite that is under way may read without rows that come back: it is refused for the number
    # (`core.replicas.rewrite`).
    hiding = msgspec.structs.replace(table, deletes=table.deletes + 1)
    known = catalog.horizons.get(table.id, HorizonRecord(table=table.id, horizon_us=NO_HORIZON_US))
    hidden_us = context.wall_us - ttl_ns // 1_000
    horizon = msgspec.structs.replace(known, hidden_us=hidden_us, since=hiding.deletes)
    return Plan(
        changes=(put(keys.table(table.id), hiding), put(keys.horizon(table.id), horizon)),
        counters=counters(catalog),
        hides=(ExpiredRows(table=table.id, ttl_ns=ttl_ns, properties=statement.properties),),
    )


def _new_replication(statement: AlterProperties, table: TableRecord, catalog: Catalog, context: Context) -> int:
    """Buckets get further replicas, or lose some, behind the statement (`core.replicas.placement`)."""
    asked = statement.replication
    if asked is None:
        return table.replication
    if asked > table.replication:
        check_nodes(asked, len(staying(catalog, context.leaving)))
    return asked


def _new_min_in_sync(statement: AlterProperties, table: TableRecord) -> int:
    asked = statement.min_in_sync
    if asked is None:
        return table.min_in_sync
    if asked == 0 and table.min_in_sync == 0 and not statement.if_exists:
        raise NotFound("no property min_in_sync", hint=f"SHOW TBLPROPERTIES {statement.table}")
    return asked


def _new_ttl_ns(statement: AlterProperties, table: TableRecord) -> int | None:
    match statement.ttl_ns:
        case None:
            return table.ttl_ns
        case 0:
            if table.ttl_ns is None and not statement.if_exists:
                raise NotFound("no property ttl", hint=f"SHOW TBLPROPERTIES {statement.table}")
            return None
        case asked:
            if table.time_column is None:
                raise Refused(
                    f"table {statement.table} has no time column, so its rows can't expire",
                    code=ErrorCode.NO_TIME_COLUMN,
                    hint="create a table with TBLPROPERTIES ('time_column' = '..') and copy the rows",
                )
            return asked


def remove_expired(hidden: ExpiredRows, catalog: Catalog) -> tuple[Change, ...]:
    """The table with its new TTL, whose horizon has moved for good."""
    table = catalog.tables[hidden.table]
    horizon = catalog.horizons[hidden.table]
    assert horizon.hidden_us is not None, "the pre-state is compared (INV-DROP-1)"
    properties = changed_properties(table.properties, hidden.properties, if_exists=True)
    moved = msgspec.structs.replace(horizon, horizon_us=horizon.earliest_us, hidden_us=None)
    shortened = msgspec.structs.replace(
        table, ttl_ns=hidden.ttl_ns, properties=properties, deleted=next_revision(catalog)
    )
    return (put(keys.table(table.id), shortened), put(keys.horizon(table.id), moved))


def restore_expired(hidden: ExpiredRows, catalog: Catalog) -> tuple[Change, ...]:
    horizon = catalog.horizons[hidden.table]
    assert horizon.hidden_us is not None, "nobody else brings it back"
    if horizon.horizon_us == NO_HORIZON_US:
        return (Change(keys.horizon(hidden.table), None),)
    return (put(keys.horizon(hidden.table), msgspec.structs.replace(horizon, hidden_us=None)),)


def comment(statement: Comment, catalog: Catalog, _context: Context) -> Plan | None:
    match statement.on:
        case OnDatabase(name=name):
            key, before = keys.database, catalog.database(name)
        case OnTable(table=name):
            key, before = keys.table, catalog.table(name)
        case OnView(view=name):
            key, before = keys.view, catalog.view(name)
    if statement.column is not None:
        assert isinstance(before, TableRecord), "only columns of tables have comments"
        field = field_named(before, statement.column)
        commented = msgspec.structs.replace(field, comment=statement.text)
        after = msgspec.structs.replace(
            before, fields=tuple(commented if one.id == field.id else one for one in before.fields)
        )
    else:
        after = msgspec.structs.replace(before, comment=statement.text)
    if after == before:
        return None
    return Plan(changes=(put_bounded(key(after.id), after),), counters=counters(catalog))
