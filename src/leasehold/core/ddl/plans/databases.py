"""Databases."""

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import Context, Plan, counters, next_object, put, put_bounded
from leasehold.core.ddl.plans.cascade import dropping
from leasehold.core.ddl.plans.properties import changed_properties
from leasehold.core.ddl.plans.readers import views_reading
from leasehold.core.ddl.plans.rights import forget_rights
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import DatabaseRecord, HiddenDatabase, UseState
from leasehold.core.words.statements import AlterDatabase, CreateDatabase, DropDatabase
from leasehold.error_codes import ErrorCode
from leasehold.errors import AlreadyExists, Refused


def create_database(statement: CreateDatabase, catalog: Catalog, _context: Context) -> Plan | None:
    if catalog.find_database(statement.name) is not None:
        if statement.if_not_exists:
            return None
        raise AlreadyExists(f"database {statement.name} exists", hint="use CREATE DATABASE IF NOT EXISTS")
    object_id, after = next_object(catalog)
    record = DatabaseRecord(
        id=object_id,
        name=statement.name,
        state=UseState.IN_USE,
        comment=statement.comment,
        properties=dict(statement.properties),
    )
    return Plan(changes=(put_bounded(keys.database(object_id), record),), counters=after)


def alter_database(statement: AlterDatabase, catalog: Catalog, _context: Context) -> Plan | None:
    database = catalog.database(statement.name)
    properties = changed_properties(database.properties, statement.properties, if_exists=statement.if_exists)
    if properties == database.properties:
        return None
    changed = msgspec.structs.replace(database, properties=properties)
    return Plan(changes=(put_bounded(keys.database(database.id), changed),), counters=counters(catalog))


def drop_database(statement: DropDatabase, catalog: Catalog, _context: Context) -> Plan | None:
    """Hides the database, and with CASCADE what it holds and the views elsewhere that read any of that."""
    if statement.if_exists and catalog.find_database(statement.name) is None:
        return None
    database = catalog.database(statement.name)
    relations = catalog.relations(database.id)
    tables = [catalog.tables[one] for one in relations if one in catalog.tables]
    views = [catalog.views[one] for one in relations if one in catalog.views]
    held = [*tables, *views]
    if held and not statement.cascade:
        raise Refused(
            f"database {database.name} holds {len(tables)} tables and {len(views)} views, such as {held[0].name}",
            code=ErrorCode.NOT_EMPTY,
            hint="drop them first, or use CASCADE to drop them too",
        )
    readers = views_reading(dict.fromkeys(one.id for one in held), catalog)
    going = {one.id: one for one in (*views, *readers)}
    return dropping(catalog, views=[going[view] for view in sorted(going)], tables=tables, databases=(database,))


def remove_database(hidden: HiddenDatabase, catalog: Catalog) -> tuple[Change, ...]:
    """The database; all that it held went before it."""
    database = catalog.databases[hidden.database]
    assert database.state is UseState.PRE_DELETE, "the pre-state is compared (INV-DROP-1)"
    return (Change(keys.database(database.id), None), *forget_rights((database.id,), catalog))


def restore_database(hidden: HiddenDatabase, catalog: Catalog) -> tuple[Change, ...]:
    database = catalog.databases[hidden.database]
    assert database.state is UseState.PRE_DELETE, "nobody else brings it back"
    return (put(keys.database(database.id), msgspec.structs.replace(database, state=UseState.IN_USE)),)
