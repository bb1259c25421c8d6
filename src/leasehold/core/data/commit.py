"""Write transactions: OPEN, then COMMITTED or ABORTED, once (docs/design.md, "Data").

Theory of operation. Nodes stage segments that nobody sees. The commit is one transaction of the leader, which ends the
record and writes the manifest. First it compares all that could have changed since the rows were encoded: the table is
in use, every column that was written is alive and has its type, each holder is still the incarnation that wrote. The
holders have sealed the description of a segment (`core/data/seals.py`), so the client can't change it. No clock takes
part. A repeated request gets the outcome by the transaction's id (INV-WRITE-2).

| state     | event                | next      |
| (none)    | open                 | OPEN      |
| OPEN      | commit that compares | COMMITTED |
| OPEN      | abort, or expiry     | ABORTED   |
| COMMITTED, ABORTED | anything    | the same  |
"""

from collections.abc import Mapping, Sequence

import msgspec

from leasehold.core.access.rights import asker_of, user_of
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import next_revision, put
from leasehold.core.data.bounded_fields import bounded_fields
from leasehold.core.data.following import commit_numbers
from leasehold.core.data.replacement import check_covered
from leasehold.core.data.seals import is_sealed
from leasehold.core.data.streams import committed_batch
from leasehold.core.ddl.origin import Origin, check_same_insert, other_statement
from leasehold.core.membership.generations import check_generation
from leasehold.core.membership.identity import hash_login, node_login
from leasehold.core.replicas.replication import after_commit, after_replacement, holders_needed
from leasehold.core.replicas.rewrite import replacing
from leasehold.core.words import keys, records
from leasehold.core.words.bounds import soundness
from leasehold.core.words.messages import CommitTransaction, OpenTransaction, SegmentHolder, StagedSegment
from leasehold.core.words.operations import Change
from leasehold.core.words.records import (
    PrincipalRecord,
    SegmentRecord,
    TableRecord,
    TransactionRecord,
    TransactionState,
    UseState,
)
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotFound, OutcomeUnknown, Refused, SealUnknown
from leasehold.ids import (
    BucketNumber,
    Incarnation,
    NodeId,
    ObjectId,
    Revision,
    SchemaVersion,
    SegmentId,
    TransactionId,
    is_hex_128,
    is_segment_id,
    segment_transaction,
)
from leasehold.limits.segments import (
    SEGMENT_BYTES_MAX,
    SEGMENT_ROWS_MAX,
    SEGMENTS_PER_COMMIT_MAX,
    TABLE_SEGMENTS_MAX,
)
from leasehold.limits.statements import PURGE_BATCH, TRANSACTIONS_KEPT

SHA256_BYTES = 32


def open_transaction(
    request: OpenTransaction,
    catalog: Catalog,
    statement: Origin | None = None,
    *,
    user: PrincipalRecord | None = None,
    compacts: tuple[BucketNumber, NodeId] | None = None,
) -> tuple[Change, ...]:
    """Opens it; nothing if it is known already. Raises `Refused` if the table can't be written so, or if the id is that
    of another INSERT or of another statement; `statement` is the one that has this id, if any. It is in the share of
    `user`. `compacts` is the bucket that a node compacts in it by itself, and that node.

    A known transaction goes on in a new generation: it was opened in the history that was kept.
    """
    if not is_hex_128(request.transaction):
        raise Refused("a transaction id is 128 bits in hex", code=ErrorCode.BAD_TRANSACTION, hint="draw a random one")
    if len(request.text_sha256) not in (0, SHA256_BYTES):
        raise Refused(
            "the hash of the text is not a SHA-256", code=ErrorCode.BAD_TRANSACTION, hint="upgrade the client"
        )
    known = catalog.transactions.get(request.transaction)
    if known is not None:
        check_same_insert(known, request.login, request.text_sha256, catalog)
        if known.table != request.table:
            raise Refused(
                f"write transaction {request.transaction} belongs to another table",
                code=ErrorCode.TRANSACTION_USED,
                hint="draw a new id for other rows",
            )
        return ()
    if statement is not None:
        raise other_statement()
    check_generation(request.generation, catalog)
    table = _writable(request.table, request.schema_version, catalog)
    assert catalog.counters is not None
    order = catalog.counters.next_transaction
    record = TransactionRecord(
        id=request.transaction,
        order=order,
        table=table.id,
        schema_version=request.schema_version,
        state=TransactionState.OPEN,
        rows=0,
        begun_by=None if user is None else user.id,
    )
    if compacts is not None:
        record = msgspec.structs.replace(record, compacts=compacts[0], compactor=compacts[1])
    if request.text_sha256:
        asking = user_of(node_login(request.login), catalog)
        record = msgspec.structs.replace(
            record,
            user=None if asking is None else asking.name,
            login=None if request.login is None else hash_login(request.login),
            text_sha256=request.text_sha256,
        )
    counters = msgspec.structs.replace(catalog.counters, next_transaction=order + 1)
    return (put(keys.transaction(record.id), record), put(keys.COUNTERS, counters), *_purge(catalog))


def commit_transaction(
    request: CommitTransaction,
    catalog: Catalog,
    *,
    incarnations: Mapping[NodeId, Incarnation],
    seal_keys: Mapping[NodeId, bytes],
    wall_us: int,
    compactor: NodeId | None = None,
) -> tuple[Change, ...]:
    """Makes all segments visible in place of those that they replace; nothing if it is committed already.

    `incarnations` are the live ones, `seal_keys` the keys of theirs that this leader knows. Raises `SealUnknown` if
    more keys are needed, and `Refused`: ABORTED, or why it can't be committed. `wall_us` is the time that a batch of a
    streaming query is known by. `compactor` is the node that commits a compaction of its own.
    """
    record = _known(request.transaction, catalog)
    if record.compactor != compactor:
        raise Refused(
            f"write transaction {record.id} is another one's", code=ErrorCode.TRANSACTION_UNKNOWN, hint="open your own"
        )
    if record.state is TransactionState.COMMITTED:
        return ()
    if record.state is TransactionState.ABORTED:
        raise Refused("the write was aborted or has expired", code=ErrorCode.ABORTED, hint="write the rows again")
    table = _writable(record.table, record.schema_version, catalog)
    assert catalog.settings is not None
    _check_named(request.segments)
    _check_room(len(request.segments) - len(request.replaces), table, catalog)
    batch: tuple[Change, ...] = ()
    if request.batch is not None:
        asker = asker_of(node_login(request.login), catalog)
        batch = committed_batch(request.batch, None if asker is None else asker.user, table, catalog, wall_us)
    numbers = commit_numbers(request, catalog)
    # Before all that takes long: what no node has sealed costs nothing more.
    holders: dict[SegmentId, tuple[NodeId, ...]] = {}
    for segment in request.segments:
        _check_belongs(segment, record, table)
        holders[segment.id] = _checked_holders(segment, record, table, catalog, incarnations, seal_keys)
    _check_statistics(request.segments, table)
    check_covered(request, table, catalog)
    taken_out = replacing(request, table, catalog)
    bounded = bounded_fields(table)
    buckets: dict[BucketNumber, list[SegmentRecord]] = {}
    for segment in request.segments:
        entry = SegmentRecord(
            id=segment.id,
            table=table.id,
            bucket=segment.bucket,
            schema_version=segment.schema_version,
            rows=segment.rows,
            size_bytes=segment.size_bytes,
            sha256=segment.sha256,
            statistics=tuple(one for one in segment.statistics if one.field in bounded),
            holders=holders[segment.id],
            deletes=table.deletes,
            format=segment.format,
            number=numbers.of_new.get(segment.id, 0),
            joins=None if segment.id in numbers.of_new else numbers.joined,
            commit=Revision(0) if request.keeps_rows else next_revision(catalog),
        )
        buckets.setdefault(segment.bucket, []).append(entry)
    changes: list[Change] = [*taken_out]
    changes.extend(batch)
    changes.extend(numbers.changes(table, catalog))
    gone = {(one.bucket, one.segment) for one in request.replaces}
    for number in sorted({*buckets, *(one.bucket for one in request.replaces)}):
        entries = buckets.get(number, [])
        bucket = catalog.buckets[table.id, number]
        changes.extend(put(keys.segment(table.id, number, entry.id), entry) for entry in entries)
        if gone and set(bucket.in_sync) != set(bucket.replicas):
            left = (one for one in catalog.bucket_segments(table.id, number) if (number, one.id) not in gone)
            after = after_replacement(bucket, [*left, *entries])
        else:
            after = after_commit(bucket, entries)
        if after != bucket:
            changes.append(put(keys.bucket(table.id, number), after))
    rows = sum(segment.rows for segment in request.segments)
    committed = msgspec.structs.replace(record, state=TransactionState.COMMITTED, rows=rows)
    changes.append(put(keys.transaction(record.id), committed))
    return tuple(changes)


def abort_transaction(transaction: TransactionId, catalog: Catalog) -> tuple[Change, ...]:
    """Ends it without effect; nothing if it has ended already."""
    record = _known(transaction, catalog)
    if record.state is not TransactionState.OPEN:
        return ()
    aborted = msgspec.structs.replace(record, state=TransactionState.ABORTED)
    return (put(keys.transaction(record.id), aborted),)


def open_count(catalog: Catalog) -> int:
    """How many write transactions are open."""
    return sum(len(of_user) for of_user in catalog.open_transactions.values())


def _known(transaction: TransactionId, catalog: Catalog) -> TransactionRecord:
    record = catalog.transactions.get(transaction)
    if record is None:
        # It may have been committed and forgotten since: only an indefinite answer is true.
        raise OutcomeUnknown(
            f"write transaction {transaction[:64]!r} is not known, or not any more",
            code=ErrorCode.TRANSACTION_FORGOTTEN,
            hint="count the table's rows before you write them again",
        )
    return record


def _writable(table_id: ObjectId, schema_version: SchemaVersion, catalog: Catalog) -> TableRecord:
    """The table if rows encoded under `schema_version` may still fit it (INV-WRITE-1).

    Columns are written by field id, so an older version does no harm. A column that went away is found per segment.
    """
    table = catalog.tables.get(table_id)
    if table is None or table.state is not UseState.IN_USE:
        raise NotFound("the table was dropped", code=ErrorCode.TABLE_DROPPED, hint="SHOW TABLES lists what exists")
    if schema_version > table.schema_version or schema_version < 1:
        raise Refused(
            f"schema version {schema_version} of {table.name} is not known",
            code=ErrorCode.SCHEMA_CHANGED,
            hint="write again",
        )
    return table


def _check_named(listed: Sequence[StagedSegment]) -> None:
    if len(listed) > SEGMENTS_PER_COMMIT_MAX:
        raise Refused(
            f"{len(listed)} segments are more than the {SEGMENTS_PER_COMMIT_MAX} that fit one commit",
            code=ErrorCode.TOO_MANY_SEGMENTS,
            hint="write fewer, larger parts: coalesce before the write",
        )
    if len({segment.id for segment in listed}) != len(listed):
        raise Refused("the commit names a segment twice", code=ErrorCode.BAD_SEGMENT, hint="write the rows again")


def _check_belongs(segment: StagedSegment, record: TransactionRecord, table: TableRecord) -> None:
    sound = is_segment_id(segment.id) and segment_transaction(segment.id) == record.id
    sound = sound and 1 <= segment.schema_version <= table.schema_version and 0 <= segment.rows <= SEGMENT_ROWS_MAX
    sound = sound and 0 < segment.size_bytes <= SEGMENT_BYTES_MAX and len(segment.sha256) == SHA256_BYTES
    if not sound or segment.table != table.id or not 0 <= segment.bucket < table.buckets:
        raise Refused(
            f"segment {segment.id[:80]} does not belong to this write",
            code=ErrorCode.BAD_SEGMENT,
            hint="write again",
        )


def _checked_holders(
    segment: StagedSegment,
    record: TransactionRecord,
    table: TableRecord,
    catalog: Catalog,
    incarnations: Mapping[NodeId, Incarnation],
    seal_keys: Mapping[NodeId, bytes],
) -> tuple[NodeId, ...]:
    """The nodes that hold a segment. Raises `Refused` (BAD_SEAL, TOO_FEW_HOLDERS), and `SealUnknown`."""
    assert catalog.settings is not None
    bucket = catalog.buckets[table.id, segment.bucket]
    named = _living_holders(segment, bucket, incarnations)
    holders = _proven_holders(segment, record, named, seal_keys)
    needed = holders_needed(catalog.settings, table)
    if len(holders) < needed <= len(named):
        raise _seal_unknown(segment, [node for node in named if node not in holders])
    if len(holders) < needed:
        raise _too_few(segment, bucket, holders, needed, catalog)
    return holders


def _check_statistics(segments: Sequence[StagedSegment], table: TableRecord) -> None:
    alive = {field.id: soundness(field.type) for field in table.fields if field.state is UseState.IN_USE}
    for segment in segments:
        gone = [one.field for one in segment.statistics if one.field not in alive]
        if gone:
            raise Refused(
                f"a column of {table.name} was dropped while rows were written to it",
                code=ErrorCode.SCHEMA_CHANGED,
                hint="write the rows again without it",
            )
        once = len({one.field for one in segment.statistics}) == len(segment.statistics)
        if not once or not all(alive[one.field](one, segment.rows) for one in segment.statistics):
            raise Refused(
                f"segment {segment.id}: its rows can't have the bounds that the client reports",
                code=ErrorCode.BAD_SEGMENT,
                hint="upgrade the client and write the rows again",
            )


def _check_room(added: int, table: TableRecord, catalog: Catalog) -> None:
    """Raises `Refused` (TOO_MANY_SEGMENTS) if no plan could name all segments any more."""
    if added <= 0:
        return
    count = sum(catalog.segments.count((table.id, BucketNumber(number))) for number in range(table.buckets))
    if count + added > TABLE_SEGMENTS_MAX:
        name = catalog.table_name(table)
        raise Refused(
            f"table {name} has {count} segments, and this write adds {added}: at most {TABLE_SEGMENTS_MAX} can be read",
            code=ErrorCode.TOO_MANY_SEGMENTS,
            hint=f"`leasehold compact {name}` joins small segments; then write fewer, larger appends",
        )


def _too_few(
    segment: StagedSegment, bucket: records.BucketRecord, holders: Sequence[NodeId], needed: int, catalog: Catalog
) -> Refused:
    others = ", ".join(f"node {one} ({catalog.nodes[one].name})" for one in bucket.replicas if one not in holders)
    return Refused(
        f"segment {segment.id} is on {len(holders)} live nodes, {needed} are needed: of the replicas of bucket"
        f" {bucket.bucket} it is not on {others or 'any other, since there is none'}",
        code=ErrorCode.TOO_FEW_HOLDERS,
        hint="start those of them that `leasehold status` shows as away, and write the rows again; SHOW TBLPROPERTIES"
        " shows the table's min_in_sync, and SHOW CLUSTER the setting",
    )


def _living_holders(
    segment: StagedSegment, bucket: records.BucketRecord, incarnations: Mapping[NodeId, Incarnation]
) -> dict[NodeId, SegmentHolder]:
    """Distinct nodes of the bucket whose incarnation is still the one that wrote (I15, I17), in its order.

    A node that was retired since it wrote counts: it keeps the file until enough replicas hold it.
    """
    places = (*bucket.replicas, *bucket.retired)
    living = {
        holder.node: holder
        for holder in segment.holders
        if holder.node in places and incarnations.get(holder.node) == holder.incarnation
    }
    return {node: living[node] for node in places if node in living}


def _proven_holders(
    segment: StagedSegment,
    record: TransactionRecord,
    named: Mapping[NodeId, SegmentHolder],
    seal_keys: Mapping[NodeId, bytes],
) -> tuple[NodeId, ...]:
    """The holders that have sealed just this, of those whose key is known."""
    heard = [node for node in named if node in seal_keys]
    for node in heard:
        if not is_sealed(named[node], seal_keys[node], segment, record.order):
            raise Refused(
                f"the seal of segment {segment.id} is not that of node {node}",
                code=ErrorCode.BAD_SEAL,
                hint="commit the answers of the nodes unchanged; upgrade the node if it does not seal segments",
            )
    return tuple(heard)


def _seal_unknown(segment: StagedSegment, unheard: list[NodeId]) -> SealUnknown:
    nodes = ", ".join(f"node {node}" for node in unheard)
    return SealUnknown(
        f"{nodes} said to hold segment {segment.id}: the coordinator can't check that before they connect again",
        hint="ask again in a moment; if the node does not come back, write the rows again",
    )


def _purge(catalog: Catalog) -> tuple[Change, ...]:
    if len(catalog.transactions) - open_count(catalog) <= TRANSACTIONS_KEPT + PURGE_BATCH:
        return ()
    ended = (one for one in catalog.transactions.values() if one.state is not TransactionState.OPEN)
    oldest = sorted(ended, key=lambda one: one.order)[:PURGE_BATCH]
    return tuple(Change(keys.transaction(one.id), None) for one in oldest)
