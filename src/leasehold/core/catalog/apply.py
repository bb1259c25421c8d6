"""How a catalog follows changes: the prefix of a change's key tells which map and which indices it moves.

An index depends on the records alone, so a catalog restored from them equals one that followed.
"""

from bisect import bisect_left
from typing import Any, TypeAlias

from rpds import HashTrieMap

from leasehold.core.words import keys, records
from leasehold.core.words.codec import decode_record
from leasehold.core.words.statements import fold
from leasehold.ids import BucketNumber, NodeId, ObjectId, PrincipalId, SegmentId

Relation: TypeAlias = records.TableRecord | records.ViewRecord


class Draft:
    """The maps of a catalog being changed: what is in `fields` already, else those of `before`."""

    def __init__(self, before: object, fields: dict[str, Any]) -> None:
        self.before = before
        self.fields = fields

    def __getitem__(self, name: str) -> Any:
        return self.fields[name] if name in self.fields else getattr(self.before, name)

    def put(self, name: str, key: object, record: object) -> None:
        self.fields[name] = self[name].insert(key, record)

    def drop(self, name: str, key: object) -> None:
        """Takes a key out of the map `name`, if it is there."""
        self.fields[name] = self[name].discard(key)

    def inner(self, name: str, key: object) -> "HashTrieMap[Any, Any]":
        """The map under a key of a map of maps."""
        return self[name].get(key) or HashTrieMap()

    def put_inner(self, name: str, key: object, inner_key: object, value: object) -> None:
        self.put(name, key, self.inner(name, key).insert(inner_key, value))

    def drop_inner(self, name: str, key: object, inner_key: object) -> None:
        """Takes a key out of the map under `key`; one that is empty goes too."""
        inner = self.inner(name, key).discard(inner_key)
        if len(inner):
            self.put(name, key, inner)
        else:
            self.drop(name, key)


def _simple(name: str, kind: type[records.Record], *, number: bool) -> Any:
    """Keeps a map keyed by what follows the prefix, as a number or as text."""

    def apply(draft: Draft, rest: bytes, value: bytes | None) -> None:
        key = int(rest) if number else rest.decode()
        if value is None:
            draft.drop(name, key)
        else:
            draft.put(name, key, decode_record(kind, value))

    return apply


def _begun(name: str, kind: type[records.TransactionRecord | records.QueryRecord], index: str) -> Any:
    """Keeps a map keyed by text, and which of its records are under way, by the user who began them."""

    def apply(draft: Draft, rest: bytes, value: bytes | None) -> None:
        key = rest.decode()
        old = draft[name].get(key)
        if old is not None:
            draft.drop_inner(index, old.begun_by, key)
        if value is None:
            draft.drop(name, key)
            return
        record = decode_record(kind, value)
        draft.put(name, key, record)
        if not isinstance(record, records.TransactionRecord) or record.state is records.TransactionState.OPEN:
            draft.put_inner(index, record.begun_by, key, None)

    return apply


def _forget_name(draft: Draft, names: str, name: object, owner: int | str) -> None:
    """Drops a name, unless it belongs to another object by now."""
    if draft[names].get(name) == owner:
        draft.drop(names, name)


def _named(name: str, names: str, kind: type[records.DatabaseRecord | records.TokenRecord], *, number: bool) -> Any:
    """As `_simple`, and keeps a map of the folded names."""

    def apply(draft: Draft, rest: bytes, value: bytes | None) -> None:
        key = int(rest) if number else rest.decode()
        old = draft[name].get(key)
        if old is not None:
            _forget_name(draft, names, fold(old.name), key)
            draft.drop(name, key)
        if value is not None:
            record = decode_record(kind, value)
            draft.put(name, key, record)
            draft.put(names, fold(record.name), key)

    return apply


def _table(draft: Draft, rest: bytes, value: bytes | None) -> None:
    key = ObjectId(int(rest))
    old: records.TableRecord | None = draft["tables"].get(key)
    record = None if value is None else decode_record(records.TableRecord, value)
    _name_relation(draft, old, record)
    if old is not None and old.ttl_ns is not None:
        draft.drop("expiring", key)
    if record is not None:
        draft.put("tables", key, record)
        if record.ttl_ns is not None:
            draft.put("expiring", key, record.ttl_ns)
        if old is None:
            draft.drop("leftovers", key)
    elif old is not None:
        draft.drop("tables", key)
        if draft["segments"].is_whole:
            for number in range(old.buckets):
                _leave(draft, (key, BucketNumber(number)))


def _name_relation(draft: Draft, old: Relation | None, record: Relation | None) -> None:
    """Its name in its database; one that belongs to another object by now stays with that."""
    before = None if old is None else (old.database, fold(old.name))
    after = None if record is None else (record.database, fold(record.name))
    if before == after:
        return
    if old is not None and before is not None and draft.inner("relation_names", before[0]).get(before[1]) == old.id:
        draft.drop_inner("relation_names", *before)
    if record is not None and after is not None:
        draft.put_inner("relation_names", *after, record.id)


def _leave(draft: Draft, key: tuple[ObjectId, BucketNumber]) -> None:
    """Notes whether a bucket of a dropped table has segments."""
    if key in draft["segments"] or key in draft["replaced"]:
        draft.put_inner("leftovers", *key, None)
    else:
        draft.drop_inner("leftovers", *key)


def _view(draft: Draft, rest: bytes, value: bytes | None) -> None:
    key = ObjectId(int(rest))
    old: records.ViewRecord | None = draft["views"].get(key)
    record = None if value is None else decode_record(records.ViewRecord, value)
    _name_relation(draft, old, record)
    if old is not None:
        for need in old.needs:
            draft.drop_inner("readers", need.object, key)
    if record is not None:
        draft.put("views", key, record)
        for need in record.needs:
            draft.put_inner("readers", need.object, key, None)
    elif old is not None:
        draft.drop("views", key)


def _principal(draft: Draft, rest: bytes, value: bytes | None) -> None:
    key = PrincipalId(int(rest))
    old: records.PrincipalRecord | None = draft["principals"].get(key)
    if old is not None:
        _forget_name(draft, "principal_names", fold(old.name), key)
        draft.drop("principals", key)
        draft.drop("users", key)
    if value is None:
        if key in draft["rights_of"]:
            draft.put("ownerless", key, None)
    else:
        record = decode_record(records.PrincipalRecord, value)
        draft.put("principals", key, record)
        draft.drop("ownerless", key)
        draft.put("principal_names", fold(record.name), key)
        if record.kind is records.PrincipalKind.USER:
            draft.put("users", key, record.name)


def _nested(name: str, kind: type[records.Record]) -> Any:
    """Keeps a map of maps keyed by the two numbers that follow the prefix."""

    def apply(draft: Draft, rest: bytes, value: bytes | None) -> None:
        first, _, second = rest.partition(b"/")
        if value is None:
            draft.drop_inner(name, int(first), int(second))
        else:
            draft.put_inner(name, int(first), int(second), decode_record(kind, value))

    return apply


def _grant(draft: Draft, rest: bytes, value: bytes | None) -> None:
    target, _, who = rest.partition(b"/")
    key, principal = ObjectId(int(target)), PrincipalId(int(who))
    if value is None:
        draft.drop_inner("grants", key, principal)
        draft.drop_inner("rights_of", principal, key)
    else:
        draft.put_inner("grants", key, principal, decode_record(records.GrantRecord, value))
        draft.put_inner("rights_of", principal, key, None)
    if principal not in draft["principals"]:
        if principal in draft["rights_of"]:
            draft.put("ownerless", principal, None)
        else:
            draft.drop("ownerless", principal)


def _login(draft: Draft, rest: bytes, value: bytes | None) -> None:
    key = bytes.fromhex(rest.decode())
    old: records.LoginRecord | None = draft["logins"].get(key)
    if old is not None:
        draft.drop("logins", key)
        logins = draft["logins_of"][old.user]
        place = bisect_left(logins, (old.order, key))
        left = logins[:place] + logins[place + 1 :]
        if left:
            draft.put("logins_of", old.user, left)
        else:
            draft.drop("logins_of", old.user)
        if old.limits is not None and old.limits.application:
            draft.drop_inner("applications", old.limits.application, key)
    if value is not None:
        record = decode_record(records.LoginRecord, value)
        if record.limits is not None and record.limits.application:
            draft.put_inner("applications", record.limits.application, key, None)
        draft.put("logins", key, record)
        logins = draft["logins_of"].get(record.user, ())
        place = bisect_left(logins, (record.order, key))
        draft.put("logins_of", record.user, (*logins[:place], (record.order, key), *logins[place:]))


def _bucket(draft: Draft, rest: bytes, value: bytes | None) -> None:
    table, _, number = rest.partition(b"/")
    key = (ObjectId(int(table)), BucketNumber(int(number)))
    old: records.BucketRecord | None = draft["buckets"].get(key)
    record = None if value is None else decode_record(records.BucketRecord, value)
    if record is None:
        draft.drop("buckets", key)
    else:
        draft.put("buckets", key, record)
    before = () if old is None else old.replicas
    after = () if record is None else record.replicas
    if before != after:
        _load(draft, before, -1)
        _load(draft, after, 1)
    for index, has_any in (
        ("retired", record is not None and record.retired),
        ("moving", record is not None and record.moving),
    ):
        if has_any:
            draft.put(index, key, None)
        else:
            draft.drop(index, key)


def _load(draft: Draft, nodes: tuple[NodeId, ...], by: int) -> None:
    for node in nodes:
        load = draft["loads"].get(node, 0) + by
        if load:
            draft.put("loads", node, load)
        else:
            draft.drop("loads", node)


def _by_bucket(name: str, kind: type[records.Record]) -> Any:
    """Keeps a map of segments by table and bucket; notes those of a dropped table as left behind."""

    def apply(draft: Draft, rest: bytes, value: bytes | None) -> None:
        table, number, segment = rest.split(b"/")
        key = (ObjectId(int(table)), BucketNumber(int(number)))
        is_gone = draft[name].is_whole and key[0] not in draft["tables"]
        had = is_gone and key in draft[name]
        record = None if value is None else decode_record(kind, value)
        draft.fields[name] = draft[name].setting(key, SegmentId(segment.decode()), record)
        if is_gone and (key in draft[name]) != had:
            _leave(draft, key)

    return apply


SINGLES: dict[bytes, tuple[str, type[records.Record]]] = {
    keys.CLUSTER: ("cluster", records.ClusterRecord),
    keys.SETTINGS: ("settings", records.SettingsRecord),
    keys.COUNTERS: ("counters", records.CountersRecord),
    keys.LARGEST_LEASE: ("largest_lease", records.LargestLeaseRecord),
}

COLLECTIONS: dict[bytes, Any] = {
    b"node": _simple("nodes", records.NodeRecord, number=True),
    b"coordinator": _simple("coordinators", records.CoordinatorRecord, number=False),
    b"revoked": _simple("revoked_certificates", records.RevokedCertificateRecord, number=False),
    b"certified": _simple("certified_names", records.CertifiedNameRecord, number=False),
    b"database": _named("databases", "database_names", records.DatabaseRecord, number=True),
    b"table": _table,
    b"view": _view,
    b"bucket": _bucket,
    b"segment": _by_bucket("segments", records.SegmentRecord),
    b"replaced": _by_bucket("replaced", records.ReplacedRecord),
    b"query": _begun("queries", records.QueryRecord, "queries_of"),
    b"stream": _simple("streams", records.StreamRecord, number=False),
    b"transaction": _begun("transactions", records.TransactionRecord, "open_transactions"),
    b"procedure": _simple("procedures", records.ProcedureRecord, number=True),
    b"statement": _simple("statements", records.StatementRecord, number=False),
    b"dropped": _simple("dropped", records.DroppedRecord, number=True),
    b"horizon": _simple("horizons", records.HorizonRecord, number=True),
    b"delete": _nested("deletes", records.DeleteRecord),
    b"principal": _principal,
    b"grant": _grant,
    b"login": _login,
    b"token": _named("tokens", "token_names", records.TokenRecord, number=False),
}
