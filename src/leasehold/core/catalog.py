"""The catalog: all that the meta storage says, typed, as an immutable value at one revision.

A leader decides on it, a node publishes it as its view, a vault restores it. Maps are persistent (they share
structure), so the next revision costs what it changes and no reader ever sees half of one. Iterate sorted:
the order inside a map means nothing.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias, TypeVar

import msgspec
from rpds import HashTrieMap

from leasehold.core import keys
from leasehold.core.codec import decode_record
from leasehold.core.lineage import GENESIS, next_lineage
from leasehold.core.operations import Change, RevisionChanges
from leasehold.core.records import (
    BucketRecord,
    ClusterRecord,
    CountersRecord,
    DatabaseRecord,
    DroppedRecord,
    Field,
    HorizonRecord,
    LargestLeaseRecord,
    NodeRecord,
    ProcedureRecord,
    Record,
    SegmentRecord,
    SettingsRecord,
    StatementRecord,
    TableRecord,
    TransactionRecord,
    UseState,
)
from leasehold.core.statements import TableName, fold
from leasehold.errors import Corrupt, NotFound
from leasehold.ids import (
    BucketNumber,
    FieldId,
    LineageHash,
    NodeId,
    ObjectId,
    Revision,
    SegmentId,
    StatementId,
    TransactionId,
)

BucketKey = tuple[ObjectId, BucketNumber]
SegmentMap: TypeAlias = "HashTrieMap[SegmentId, SegmentRecord]"


class Diverged(Corrupt):
    """A revision whose lineage does not follow from ours: an event was lost, doubled or changed."""

    default_code = "DIVERGED"


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """Everything at `revision`; `lineage` is the history hash there."""

    revision: Revision = Revision(0)
    lineage: LineageHash = GENESIS
    cluster: ClusterRecord | None = None
    settings: SettingsRecord | None = None
    counters: CountersRecord | None = None
    largest_lease: LargestLeaseRecord | None = None
    nodes: "HashTrieMap[NodeId, NodeRecord]" = HashTrieMap()
    databases: "HashTrieMap[ObjectId, DatabaseRecord]" = HashTrieMap()
    database_names: "HashTrieMap[str, ObjectId]" = HashTrieMap()
    tables: "HashTrieMap[ObjectId, TableRecord]" = HashTrieMap()
    table_names: "HashTrieMap[tuple[ObjectId, str], ObjectId]" = HashTrieMap()
    buckets: "HashTrieMap[BucketKey, BucketRecord]" = HashTrieMap()
    segments: "HashTrieMap[BucketKey, SegmentMap]" = HashTrieMap()
    transactions: "HashTrieMap[TransactionId, TransactionRecord]" = HashTrieMap()
    procedures: "HashTrieMap[int, ProcedureRecord]" = HashTrieMap()
    statements: "HashTrieMap[StatementId, StatementRecord]" = HashTrieMap()
    dropped: "HashTrieMap[ObjectId, DroppedRecord]" = HashTrieMap()
    horizons: "HashTrieMap[ObjectId, HorizonRecord]" = HashTrieMap()

    # ------------------------------------------------------------ looking up

    def database(self, name: str) -> DatabaseRecord:
        """The database in use under `name`; raises `NotFound`."""
        found = self.find_database(name)
        if found is None:
            raise NotFound(f"no database {name}", hint="SHOW DATABASES lists them")
        return found

    def find_database(self, name: str) -> DatabaseRecord | None:
        """The database in use under `name`."""
        object_id = self.database_names.get(fold(name))
        record = None if object_id is None else self.databases[object_id]
        return record if record is not None and record.state is UseState.IN_USE else None

    def table(self, name: TableName) -> TableRecord:
        """The table in use under `name`; raises `NotFound`."""
        found = self.find_table(name)
        if found is None:
            self.database(name.database)
            raise NotFound(f"no table {name}", hint=f"SHOW TABLES IN {name.database} lists them")
        return found

    def find_table(self, name: TableName) -> TableRecord | None:
        """The table in use under `name`."""
        database = self.find_database(name.database)
        if database is None:
            return None
        object_id = self.table_names.get((database.id, fold(name.table)))
        record = None if object_id is None else self.tables[object_id]
        return record if record is not None and record.state is UseState.IN_USE else None

    def table_name(self, table: TableRecord) -> TableName:
        """The qualified name of a table."""
        return TableName(self.databases[table.database].name, table.name)

    def bucket_segments(self, table: ObjectId, bucket: BucketNumber) -> list[SegmentRecord]:
        """The visible segments of a bucket, in the order of their ids."""
        found = self.segments.get((table, bucket))
        return [] if found is None else sorted(found.values(), key=lambda one: one.id)

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

    def changed(self, changes: Iterable[Change]) -> "Catalog":
        """With these changes, still at the same revision: what a leader decides the next command on."""
        fields: dict[str, Any] = {}
        for change in changes:
            self._change(fields, change)
        return msgspec.structs.replace(self, **fields) if fields else self

    @classmethod
    def restored(cls, revision: Revision, lineage: LineageHash, items: Iterable[Change]) -> "Catalog":
        """From all keys and values at `revision`."""
        return msgspec.structs.replace(cls().changed(items), revision=revision, lineage=lineage)

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
            raise Corrupt(f"a key of a newer version: {change.key!r}", hint="run the same version on every machine")
        apply(_Draft(self, fields), rest, change.value)


class _Draft:
    """The maps being changed: what is in `fields` already, else the catalog's own."""

    def __init__(self, catalog: Catalog, fields: dict[str, Any]) -> None:
        self.catalog = catalog
        self.fields = fields

    def __getitem__(self, name: str) -> "HashTrieMap[Any, Any]":
        return self.fields[name] if name in self.fields else getattr(self.catalog, name)

    def put(self, name: str, key: object, record: object) -> None:
        self.fields[name] = self[name].insert(key, record)

    def drop(self, name: str, key: object) -> None:
        self.fields[name] = self[name].discard(key)


R = TypeVar("R", bound=Record)


def _simple(name: str, kind: type[Record], *, number: bool) -> Any:
    """Keeps a map keyed by what follows the prefix, as a number or as text."""

    def apply(draft: _Draft, rest: bytes, value: bytes | None) -> None:
        key = int(rest) if number else rest.decode()
        if value is None:
            draft.drop(name, key)
        else:
            draft.put(name, key, decode_record(kind, value))

    return apply


def _forget_name(draft: _Draft, names: str, name: object, owner: ObjectId) -> None:
    """Drops a name, unless it belongs to another object by now."""
    if draft[names].get(name) == owner:
        draft.drop(names, name)


def _database(draft: _Draft, rest: bytes, value: bytes | None) -> None:
    key = ObjectId(int(rest))
    old: DatabaseRecord | None = draft["databases"].get(key)
    if old is not None:
        _forget_name(draft, "database_names", fold(old.name), key)
        draft.drop("databases", key)
    if value is not None:
        record = decode_record(DatabaseRecord, value)
        draft.put("databases", key, record)
        draft.put("database_names", fold(record.name), key)


def _table(draft: _Draft, rest: bytes, value: bytes | None) -> None:
    key = ObjectId(int(rest))
    old: TableRecord | None = draft["tables"].get(key)
    if old is not None:
        _forget_name(draft, "table_names", (old.database, fold(old.name)), key)
        draft.drop("tables", key)
    if value is not None:
        record = decode_record(TableRecord, value)
        draft.put("tables", key, record)
        draft.put("table_names", (record.database, fold(record.name)), key)


def _bucket(draft: _Draft, rest: bytes, value: bytes | None) -> None:
    table, _, number = rest.partition(b"/")
    key = (ObjectId(int(table)), BucketNumber(int(number)))
    if value is None:
        draft.drop("buckets", key)
    else:
        draft.put("buckets", key, decode_record(BucketRecord, value))


def _segment(draft: _Draft, rest: bytes, value: bytes | None) -> None:
    table, number, name = rest.split(b"/")
    key = (ObjectId(int(table)), BucketNumber(int(number)))
    segments: SegmentMap = draft["segments"].get(key) or HashTrieMap()
    segment = SegmentId(name.decode())
    if value is None:
        segments = segments.discard(segment)
    else:
        segments = segments.insert(segment, decode_record(SegmentRecord, value))
    if len(segments):
        draft.put("segments", key, segments)
    else:
        draft.drop("segments", key)


SINGLES: dict[bytes, tuple[str, type[Record]]] = {
    keys.CLUSTER: ("cluster", ClusterRecord),
    keys.SETTINGS: ("settings", SettingsRecord),
    keys.COUNTERS: ("counters", CountersRecord),
    keys.LARGEST_LEASE: ("largest_lease", LargestLeaseRecord),
}

COLLECTIONS: dict[bytes, Any] = {
    b"node": _simple("nodes", NodeRecord, number=True),
    b"database": _database,
    b"table": _table,
    b"bucket": _bucket,
    b"segment": _segment,
    b"transaction": _simple("transactions", TransactionRecord, number=False),
    b"procedure": _simple("procedures", ProcedureRecord, number=True),
    b"statement": _simple("statements", StatementRecord, number=False),
    b"dropped": _simple("dropped", DroppedRecord, number=True),
    b"horizon": _simple("horizons", HorizonRecord, number=True),
}


def live_fields(table: TableRecord) -> tuple[Field, ...]:
    """The columns in use, in order."""
    return tuple(field for field in table.fields if field.state is UseState.IN_USE)


def field_named(table: TableRecord, name: str) -> Field:
    """The column in use under `name`; raises `NotFound`."""
    for field in live_fields(table):
        if fold(field.name) == fold(name):
            return field
    hint = "it has " + ", ".join(field.name for field in live_fields(table))
    raise NotFound(f"table {table.name} has no column {name}", hint=hint[:500])


def field_by_id(table: TableRecord, field_id: FieldId) -> Field | None:
    """The column with that id, whatever its state."""
    return next((field for field in table.fields if field.id == field_id), None)
