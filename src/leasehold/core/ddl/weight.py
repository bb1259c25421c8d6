"""Statements that change many records: every node applies them all before it can have another lease.

Made faster than nodes apply them, they would cost nodes their leases. So a leader begins the next one when the last one
is answered, which is when its nodes have applied it, or after LARGE_STATEMENT_NS.
"""

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words.records import TableRecord, ViewRecord
from leasehold.core.words.statements import (
    CreateTable,
    CreateView,
    Definition,
    DropColumn,
    DropDatabase,
    DropPrincipal,
    DropTable,
    DropView,
    RenameColumn,
    RenamePrincipal,
    RenameTable,
    RenameView,
    SetCertificate,
    SetPassword,
)
from leasehold.limits.statements import INLINE_EFFORT_MAX


def changes_many(statement: Definition, catalog: Catalog) -> bool:
    """Whether it changes more than INLINE_EFFORT_MAX records: a table has one for each bucket, a user one for each
    login. What takes a table or view away from views that read it, or replaces it, has to look at all of them."""
    match statement:
        case CreateTable(buckets=buckets):
            return buckets > INLINE_EFFORT_MAX
        case DropTable(table=name):
            table = catalog.find_table(name)
            return _is_read(table, catalog) or _buckets(table) > INLINE_EFFORT_MAX
        case RenameTable(table=name) | DropColumn(table=name) | RenameColumn(table=name):
            return _is_read(catalog.find_table(name), catalog)
        case DropView(view=name) | RenameView(view=name) | CreateView(view=name, or_replace=True):
            return _is_read(catalog.find_view(name), catalog)
        case DropDatabase(name=name):
            database = catalog.find_database(name)
            inside = [] if database is None else map(catalog.tables.get, catalog.relations(database.id))
            return sum(1 + _buckets(one) for one in inside) > INLINE_EFFORT_MAX
        case SetPassword(name=name) | SetCertificate(name=name) | RenamePrincipal(name=name) | DropPrincipal(name=name):
            user = catalog.find_principal(name)
            return user is not None and len(catalog.logins_of.get(user.id, ())) > INLINE_EFFORT_MAX
        case _:
            return False


def _is_read(one: TableRecord | ViewRecord | None, catalog: Catalog) -> bool:
    return one is not None and bool(catalog.readers.get(one.id))


def _buckets(table: TableRecord | None) -> int:
    return 0 if table is None else table.buckets
