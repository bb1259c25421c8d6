"""Words that the tests of the catalog and of what is decided on it share."""

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import Context
from leasehold.core.ddl import Request, begin
from leasehold.core.replicas.rewrite import spent
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.lineage import next_lineage
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import (
    BarrierReceipt,
    ClusterRecord,
    CountersRecord,
    LargestLeaseRecord,
    LoginRecord,
    NodeRecord,
    SegmentRecord,
    SettingsRecord,
)
from leasehold.core.words.statements import (
    AddColumns,
    AlterProperties,
    ColumnDefinition,
    CreateDatabase,
    CreateTable,
    DropColumn,
    DropDatabase,
    DropTable,
    MoveColumn,
    RenameColumn,
    RenameTable,
    SetDefault,
    TableName,
    WidenColumn,
)
from leasehold.core.words.types import Plain, parse_type

SETTINGS = SettingsRecord(
    lease_duration_ns=3_000, lease_margin_ns=500, drift_ppm=0, catch_up_difference=100, min_in_sync=1
)
CLUSTER = ClusterRecord(cluster_id="c" * 32, generation=1, format_version=1)


def hex_128(number):
    return f"{number:032x}"


def segment(table, number, **fields):
    """A committed one of a table, at one node."""
    return msgspec.structs.replace(
        SegmentRecord(
            id=f"{hex_128(number)}-{hex_128(number)}",
            table=table,
            bucket=0,
            schema_version=1,
            rows=10,
            size_bytes=1,
            sha256=b"h" * 32,
            statistics=(),
            holders=(1,),
        ),
        **fields,
    )


def node(number, *, incarnation=1, removed=False, **fields):
    return msgspec.structs.replace(
        NodeRecord(
            id=number,
            name=f"n{number}",
            address=f"n{number}:9000",
            token_hash=number.to_bytes(32),
            incarnation=incarnation,
            nonce=None,
            session_hash=None,
            removed=removed,
        ),
        **fields,
    )


class Ground:
    """A catalog with the keys, values and revisions that it came from."""

    def __init__(self, *, nodes=(1, 2, 3), settings=SETTINGS):
        self.items = {}
        self.batches = []
        self.catalog = Catalog()
        self.statements = 0
        first = {
            keys.CLUSTER: CLUSTER,
            keys.SETTINGS: settings,
            keys.COUNTERS: CountersRecord(
                next_node=len(nodes) + 1, next_object=1, next_procedure=1, next_transaction=1
            ),
            keys.LARGEST_LEASE: LargestLeaseRecord(duration_ns=3_000),
        }
        first |= {keys.node(number): node(number) for number in nodes}
        self.commit(tuple(Change(key, encode(record)) for key, record in first.items()))

    def commit(self, changes, *, skip=0):
        """One revision with these changes, as a leader writes it; `skip` revisions before it change nothing here."""
        named = {change.key for change in changes}
        assert len(named) == len(changes), "each key at most once"
        assert all(change.value is not None or change.key in self.items for change in changes)
        lineage = next_lineage(self.catalog.lineage, changes)
        whole = sorted((*changes, Change(keys.LINEAGE, lineage)), key=lambda one: one.key)
        batch = RevisionChanges(self.catalog.revision + 1 + skip, tuple(whole))
        for change in changes:
            if change.value is None:
                del self.items[change.key]
            else:
                self.items[change.key] = change.value
        self.batches.append(batch)
        self.catalog = self.catalog.applying(batch)
        return self.catalog

    def put(self, key, record):
        return self.commit((Change(key, encode(record)),))

    def login(self, user):
        """The hash of a login of the user; nobody's where there is none of that name."""
        found = self.catalog.find_principal(user)
        number = 0 if found is None else found.id
        login = number.to_bytes(32)
        if found is not None and login not in self.catalog.logins:
            self.put(keys.login(login), LoginRecord(token_hash=login, user=number, order=0))
        return login

    def request(self, statement, *, user=None, **context):
        """By `user`, who has logged in."""
        self.statements += 1
        if user is not None:
            context["login"] = self.login(user)
        return Request(
            id=hex_128(self.statements),
            text=f"text {self.statements}",
            statement=statement,
            bound_ns=4_000,
            context=Context(**{"serving": (1, 2, 3), **context}),
        )

    def begin(self, statement, **context):
        """Plans a statement and writes its first transaction."""
        begun = begin(self.request(statement, **context), self.catalog)
        if begun.changes:
            self.commit(begun.changes)
        return begun.procedure

    def restored(self):
        items = [Change(key, value) for key, value in sorted(self.items.items())]
        return Catalog.restored(self.catalog.revision, self.catalog.lineage, items)


def released(catalog):
    """What housekeeping writes once the time of all that was replaced is over."""
    gone = [Change(keys.replaced(*bucket, one), None) for bucket, names in catalog.replaced.items() for one in names]
    after = catalog.changed(gone)
    deletes = ((table, one) for table in after.deletes for one in spent(after.tables[table], after))
    return (*gone, *(Change(keys.delete(*one), None) for one in deletes))


def receipt(revision, sequence=0):
    return BarrierReceipt(revision=revision, term=1, sequence=sequence, settled=())


def columns(*names):
    return tuple(ColumnDefinition(name=name, type=Plain("INT")) for name in names)


def create_database(name="db", **how):
    return CreateDatabase(name=name, **how)


def drop_database(name="db", **how):
    return DropDatabase(name=name, **how)


def create_table(name="t", *names, database="db", **how):
    return CreateTable(name=TableName(database, name), columns=columns(*(names or ("a", "b"))), **how)


def drop_table(name="t", *, database="db", **how):
    return DropTable(table=TableName(database, name), **how)


def rename_table(name, to, *, database="db", **how):
    return RenameTable(table=TableName(database, name), to=TableName(database, to), **how)


def alter(name="t", *, database="db", ttl_ns=None, replication=None, min_in_sync=None, if_exists=False, **properties):
    return AlterProperties(
        table=TableName(database, name),
        properties=properties,
        ttl_ns=ttl_ns,
        replication=replication,
        min_in_sync=min_in_sync,
        if_exists=if_exists,
    )


def add(*names, table="t", database="db", **how):
    return AddColumns(table=TableName(database, table), columns=columns(*names), **how)


def rename(old, new, *, table="t", database="db"):
    return RenameColumn(table=TableName(database, table), old=old, new=new)


def move(column, after=None, *, table="t", database="db"):
    return MoveColumn(table=TableName(database, table), column=column, after=after)


def widen(column, type_text, *, table="t", database="db"):
    return WidenColumn(table=TableName(database, table), column=column, type=parse_type(type_text))


def set_default(column, default, *, table="t", database="db"):
    return SetDefault(table=TableName(database, table), column=column, default=default)


def drop_column(name, *, table="t", database="db", **how):
    return DropColumn(table=TableName(database, table), column=name, **how)
