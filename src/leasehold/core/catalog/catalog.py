"""The catalog: all that the meta storage says, typed, as an immutable value at one revision.

A leader decides on it, a node publishes it as its view, a vault restores it. Maps are persistent (they share
structure), so the next revision costs what it changes and no reader ever sees half of one. Iterate sorted:
the order inside a map means nothing.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, TypeAlias

import msgspec
from rpds import HashTrieMap

from leasehold.core.catalog.apply import COLLECTIONS, SINGLES, Draft
from leasehold.core.catalog.shelf import BucketKey, Holding, Shelf, on_demand
from leasehold.core.catalog.stored_shelf import StoredShelf
from leasehold.core.words import keys, records
from leasehold.core.words.codec import decode_record
from leasehold.core.words.lineage import GENESIS, next_lineage
from leasehold.core.words.operations import Change, RevisionChanges, StoredProjection
from leasehold.core.words.records import Field, ReplacedRecord, SegmentRecord, TableRecord, UseState, ViewRecord
from leasehold.core.words.statements import TableName, fold
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt, NotFound
from leasehold.ids import (
    BucketNumber,
    FieldId,
    LineageHash,
    NodeId,
    ObjectId,
    PrincipalId,
    Revision,
    SegmentId,
    StatementId,
    TransactionId,
)

SegmentMap: TypeAlias = "HashTrieMap[SegmentId, SegmentRecord]"
DeleteMap: TypeAlias = "HashTrieMap[int, records.DeleteRecord]"
GrantMap: TypeAlias = "HashTrieMap[PrincipalId, records.GrantRecord]"


class Diverged(Corrupt):
    """A revision whose lineage does not follow: an event was lost, doubled or changed."""

    default_code = ErrorCode.DIVERGED


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """Everything at `revision`; `lineage` is the history hash there."""

    revision: Revision = Revision(0)
    lineage: LineageHash = GENESIS
    cluster: records.ClusterRecord | None = None
    settings: records.SettingsRecord | None = None
    counters: records.CountersRecord | None = None
    largest_lease: records.LargestLeaseRecord | None = None
    nodes: "HashTrieMap[NodeId, records.NodeRecord]" = HashTrieMap()
    coordinators: "HashTrieMap[str, records.CoordinatorRecord]" = HashTrieMap()
    """By address; none where the meta storage is a file of one coordinator."""
    revoked_certificates: "HashTrieMap[str, records.RevokedCertificateRecord]" = HashTrieMap()
    """By serial number."""
    certified_names: "HashTrieMap[str, records.CertifiedNameRecord]" = HashTrieMap()
    """Of removed nodes, by name."""
    databases: "HashTrieMap[ObjectId, records.DatabaseRecord]" = HashTrieMap()
    database_names: "HashTrieMap[str, ObjectId]" = HashTrieMap()
    tables: "HashTrieMap[ObjectId, TableRecord]" = HashTrieMap()
    views: "HashTrieMap[ObjectId, ViewRecord]" = HashTrieMap()
    relation_names: "HashTrieMap[ObjectId, HashTrieMap[str, ObjectId]]" = HashTrieMap()
    """Of tables and views, which share their names, by database; without databases that are empty."""
    buckets: "HashTrieMap[BucketKey, records.BucketRecord]" = HashTrieMap()
    segments: Shelf[SegmentRecord] = Shelf()
    replaced: Shelf[ReplacedRecord] = Shelf()
    queries: "HashTrieMap[str, records.QueryRecord]" = HashTrieMap()
    """By `keys.query_name`."""
    streams: "HashTrieMap[str, records.StreamRecord]" = HashTrieMap()
    """By the id of the query."""
    transactions: "HashTrieMap[TransactionId, records.TransactionRecord]" = HashTrieMap()
    procedures: "HashTrieMap[int, records.ProcedureRecord]" = HashTrieMap()
    statements: "HashTrieMap[StatementId, records.StatementRecord]" = HashTrieMap()
    dropped: "HashTrieMap[ObjectId, records.DroppedRecord]" = HashTrieMap()
    horizons: "HashTrieMap[ObjectId, records.HorizonRecord]" = HashTrieMap()
    deletes: "HashTrieMap[ObjectId, DeleteMap]" = HashTrieMap()
    principals: "HashTrieMap[PrincipalId, records.PrincipalRecord]" = HashTrieMap()
    principal_names: "HashTrieMap[str, PrincipalId]" = HashTrieMap()
    grants: "HashTrieMap[ObjectId, GrantMap]" = HashTrieMap()
    logins: "HashTrieMap[bytes, records.LoginRecord]" = HashTrieMap()
    """By the hash of the token."""
    tokens: "HashTrieMap[str, records.TokenRecord]" = HashTrieMap()
    """By the hash of the token, in hex."""
    token_names: "HashTrieMap[str, str]" = HashTrieMap()

    # Indices: what can be told from the records above, so that nobody has to go through all of them
    # (`core.catalog.apply`).
    loads: "HashTrieMap[NodeId, int]" = HashTrieMap()
    """How many buckets each node is assigned."""
    retired: "HashTrieMap[BucketKey, None]" = HashTrieMap()
    """The buckets that have retired nodes."""
    moving: "HashTrieMap[BucketKey, None]" = HashTrieMap()
    """The buckets of which a rebalance moves a replica."""
    expiring: "HashTrieMap[ObjectId, int]" = HashTrieMap()
    """The tables with a TTL, and how long it is in nanoseconds."""
    users: "HashTrieMap[PrincipalId, str]" = HashTrieMap()
    """The names of all users, whatever their state: while there are none, everybody may do everything."""
    logins_of: "HashTrieMap[PrincipalId, tuple[tuple[int, bytes], ...]]" = HashTrieMap()
    """The logins of each user, as their order and the hash of the token, the oldest first."""
    applications: "HashTrieMap[bytes, HashTrieMap[bytes, None]]" = HashTrieMap()
    """The delegated logins of each application, by the hash of its secret, as the hashes of their tokens."""
    leftovers: "HashTrieMap[ObjectId, HashTrieMap[BucketNumber, None]]" = HashTrieMap()
    """Of tables that are gone: the buckets that still have segments, in the manifest or replaced. Only leaders know."""
    rights_of: "HashTrieMap[PrincipalId, HashTrieMap[ObjectId, None]]" = HashTrieMap()
    """What each user or role has rights on."""
    open_transactions: "HashTrieMap[PrincipalId | None, HashTrieMap[TransactionId, None]]" = HashTrieMap()
    """The write transactions that are open, by the user who began them."""
    queries_of: "HashTrieMap[PrincipalId | None, HashTrieMap[str, None]]" = HashTrieMap()
    """The names in `queries`, by the user who began them."""
    ownerless: "HashTrieMap[PrincipalId, None]" = HashTrieMap()
    """Those of `rights_of` that are gone."""
    readers: "HashTrieMap[ObjectId, HashTrieMap[ObjectId, None]]" = HashTrieMap()
    """The views that name a table or view."""

    # ------------------------------------------------------------ looking up

    def database(self, name: str) -> records.DatabaseRecord:
        """The database in use under `name`; raises `NotFound`."""
        found = self.find_database(name)
        if found is None:
            raise NotFound(f"no database {name}", hint="SHOW DATABASES lists them")
        return found

    def find_database(self, name: str) -> records.DatabaseRecord | None:
        object_id = self.database_names.get(fold(name))
        record = None if object_id is None else self.databases[object_id]
        return record if record is not None and record.state is UseState.IN_USE else None

    def table(self, name: TableName) -> TableRecord:
        """The table in use under `name`; raises `NotFound`."""
        found = self.find_table(name)
        if found is None:
            self.database(name.database)
            if self.find_view(name) is not None:
                raise NotFound(
                    f"{name} is a view, not a table", code=ErrorCode.IS_VIEW, hint=f"SHOW TABLES IN {name.database}"
                )
            raise NotFound(f"no table {name}", hint=f"SHOW TABLES IN {name.database} lists them")
        return found

    def find_table(self, name: TableName) -> TableRecord | None:
        object_id = self._relation(name)
        record = None if object_id is None else self.tables.get(object_id)
        return record if record is not None and record.state is UseState.IN_USE else None

    def view(self, name: TableName) -> ViewRecord:
        """The view in use under `name`; raises `NotFound`."""
        found = self.find_view(name)
        if found is None:
            self.database(name.database)
            if self.find_table(name) is not None:
                raise NotFound(
                    f"{name} is a table, not a view", code=ErrorCode.IS_TABLE, hint=f"SHOW VIEWS IN {name.database}"
                )
            raise NotFound(f"no view {name}", hint=f"SHOW VIEWS IN {name.database} lists them")
        return found

    def find_view(self, name: TableName) -> ViewRecord | None:
        object_id = self._relation(name)
        record = None if object_id is None else self.views.get(object_id)
        return record if record is not None and record.state is UseState.IN_USE else None

    def _relation(self, name: TableName) -> ObjectId | None:
        database = self.find_database(name.database)
        return None if database is None else self.relation_named(database.id, name.table)

    def relation_named(self, database: ObjectId, name: str) -> ObjectId | None:
        """The table or view that has that name, whatever its state."""
        return self.relation_names.get(database, {}).get(fold(name))

    def relations(self, database: ObjectId) -> list[ObjectId]:
        """The tables and views of a database, whatever their state, in the order of their ids."""
        return sorted(self.relation_names.get(database, {}).values())

    def find_principal(self, name: str) -> records.PrincipalRecord | None:
        """The user or role in use under `name`."""
        principal_id = self.principal_names.get(fold(name))
        record = None if principal_id is None else self.principals[principal_id]
        return record if record is not None and record.state is UseState.IN_USE else None

    def find_token(self, name: str) -> records.TokenRecord | None:
        """The token under `name`."""
        token_hash = self.token_names.get(fold(name))
        return None if token_hash is None else self.tokens[token_hash]

    def table_name(self, relation: TableRecord | ViewRecord) -> TableName:
        return TableName(self.databases[relation.database].name, relation.name)

    def bucket_segments(self, table: ObjectId, bucket: BucketNumber) -> list[SegmentRecord]:
        """The visible segments of a bucket, in the order of their ids."""
        return sorted(self.segments.get((table, bucket), {}).values(), key=lambda one: one.id)

    # ------------------------------------------------------------ moving on

    def applying(self, batch: RevisionChanges) -> "Catalog":
        """The catalog one revision later. Raises `Diverged` if the lineage in `batch` does not follow from ours."""
        assert batch.revision > self.revision, "revisions are applied in order, each once (R10)"
        lineage = next_lineage(self.lineage, batch.changes)
        claimed = next((one.value for one in batch.changes if one.key == keys.LINEAGE), None)
        if claimed != lineage:
            raise Diverged(
                f"revision {batch.revision} does not follow from revision {self.revision}",
                hint="the node rejoins; if this repeats, its directory or the meta storage is damaged",
            )
        return msgspec.structs.replace(self.changed(batch.changes), revision=batch.revision, lineage=lineage)

    def leaping(self, revision: Revision, lineage: LineageHash, changes: Iterable[Change]) -> "Catalog":
        """A node's catalog at a later revision, by all that differs there. No chain of hashes is checked: the vault has
        compared the items (`Vault.leap`)."""
        assert revision > self.revision, "a leap leads forward"
        before = msgspec.structs.replace(self, segments=StoredShelf(), replaced=StoredShelf())
        after = before.changed(one for one in changes if not on_demand(one.key))
        return msgspec.structs.replace(after, revision=revision, lineage=lineage)

    def trimmed(self, durable: "Catalog") -> "Catalog":
        """Without the changes of segments that need not be remembered once the vault holds `durable`."""
        segments, replaced = self.segments.trimmed(durable.segments), self.replaced.trimmed(durable.replaced)
        if segments is self.segments and replaced is self.replaced:
            return self
        return msgspec.structs.replace(self, segments=segments, replaced=replaced)

    def changed(self, changes: Iterable[Change]) -> "Catalog":
        """With these changes, still at the same revision: what a leader decides the next command on."""
        fields: dict[str, Any] = {}
        for change in changes:
            self._change(fields, change)
        return msgspec.structs.replace(self, **fields) if fields else self

    def holding(self, segments: Shelf[SegmentRecord], replaced: Shelf[ReplacedRecord]) -> "Catalog":
        """With these segments, where there are none yet; also notes what dropped tables have left of them."""
        fields: dict[str, Any] = {"segments": segments, "replaced": replaced}
        for table, bucket in chain(segments, replaced):
            if table not in self.tables:
                Draft(self, fields).put_inner("leftovers", table, bucket, None)
        return msgspec.structs.replace(self, **fields)

    @classmethod
    def restored(cls, revision: Revision, lineage: LineageHash, items: Iterable[Change]) -> "Catalog":
        """From all keys and values at `revision`, which are all decoded. Raises `Corrupt`."""
        held = Holding()
        rest = held.taking(items)
        catalog = cls().changed(rest).holding(held.segments, held.replaced)
        for shelf in (catalog.segments, catalog.replaced):
            for bucket in shelf:
                shelf.get(bucket)
        return msgspec.structs.replace(catalog, revision=revision, lineage=lineage)

    @classmethod
    def reopened(cls, stored: StoredProjection) -> "Catalog":
        """From all but the segments of a vault: these stay there (`core/catalog/stored_shelf.py`)."""
        before = cls(segments=StoredShelf(), replaced=StoredShelf())
        return msgspec.structs.replace(before.changed(stored.items), revision=stored.applied, lineage=stored.lineage)

    def _change(self, fields: dict[str, Any], change: Change) -> None:
        single = SINGLES.get(change.key)
        if single is not None:
            name, kind = single
            fields[name] = None if change.value is None else decode_record(kind, change.value)
            return
        if change.key == keys.LINEAGE:
            return
        prefix, _, rest = change.key[2:].partition(b"/")
        apply = COLLECTIONS.get(prefix)
        if apply is None:
            raise Corrupt(
                f"a key of a newer version: {change.key!r}", hint="run the same version of leasehold on all machines"
            )
        try:
            apply(Draft(self, fields), rest, change.value)
        except ValueError as error:
            raise Corrupt(f"a key that names nothing: {change.key!r}") from error


def live_fields(table: TableRecord) -> tuple[Field, ...]:
    """The columns in use, in order."""
    return tuple(field for field in table.fields if field.state is UseState.IN_USE)


def fields_named(table: TableRecord, names: Iterable[str]) -> Iterator[Field]:
    """The columns in use under these names, in the order of the names; raises `NotFound`. A table may have thousands of
    columns, so all names together are looked up in one pass over them."""
    by_name: dict[str, Field] | None = None
    for name in names:
        if by_name is None:
            by_name = {fold(field.name): field for field in live_fields(table)}
        found = by_name.get(fold(name))
        if found is None:
            hint = "it has " + ", ".join(field.name for field in live_fields(table))
            raise NotFound(f"table {table.name} has no column {name}", hint=hint[:500])
        yield found


def field_named(table: TableRecord, name: str) -> Field:
    """The column in use under `name`; raises `NotFound`."""
    return next(fields_named(table, (name,)))


def field_by_id(table: TableRecord, field_id: FieldId) -> Field | None:
    return next((field for field in table.fields if field.id == field_id), None)


def check_through(through: Iterable[ObjectId], catalog: Catalog) -> None:
    """Raises `NotFound` with code VIEW_DROPPED unless all these views, that a table is read through, are in use."""
    for one in through:
        view = catalog.views.get(one)
        if view is None or view.state is not UseState.IN_USE:
            name = f"view {one}" if view is None else f"view {catalog.table_name(view)}"
            raise NotFound(f"{name} was dropped", code=ErrorCode.VIEW_DROPPED, hint="SHOW VIEWS lists what exists")
