"""Write transactions on one table, as tests of them open and commit them."""

import msgspec
import pytest

from leasehold.core.data.commit import commit_transaction, open_transaction
from leasehold.core.data.seals import sealed
from leasehold.core.ddl.origin import hash_text
from leasehold.core.words.codec import decode_record
from leasehold.core.words.messages import CommitTransaction, OpenTransaction, SegmentHolder, StagedSegment
from leasehold.core.words.records import (
    ColumnStatistics,
    PrincipalKind,
    PrincipalRecord,
    Record,
    SegmentFormat,
    SegmentRecord,
    TransactionRecord,
    UseState,
)
from leasehold.errors import Refused
from tests.unit.core.catalog_words import SETTINGS, Ground, create_database, create_table, hex_128

TABLE, W1, W2 = 2, hex_128(0xA1), hex_128(0xA2)
LIVE = {1: 4, 2: 5, 3: 6}
KEYS = {node: b"k%d" % node for node in range(1, 10)}
"""Of their live incarnations."""


def written(changes):
    assert len({change.key for change in changes}) == len(changes)
    return {change.key: None if change.value is None else decode_record(Record, change.value) for change in changes}


def ground(*statements, min_in_sync=1, buckets=2, replication=3):
    base = Ground(settings=msgspec.structs.replace(SETTINGS, min_in_sync=min_in_sync))
    for statement in (create_database(), create_table(buckets=buckets, replication=replication), *statements):
        base.begin(statement)
    return base


def asked(transaction=W1, table=TABLE, version=1, generation=1, text="", login=None):
    return OpenTransaction(
        cluster_id="c" * 32,
        transaction=transaction,
        table=table,
        schema_version=version,
        generation=generation,
        text_sha256=hash_text(text) if text else b"",
        login=login,
    )


def opened(base, transaction=W1, **how):
    base.commit(open_transaction(asked(transaction, **how), base.catalog))
    return base


def segment(number=1, *holders, transaction=W1, fields=(1, 2), **how):
    staged = StagedSegment(
        id=f"{transaction}-{hex_128(number)}",
        table=TABLE,
        bucket=0,
        schema_version=1,
        rows=10,
        size_bytes=100,
        sha256=b"s" * 32,
        statistics=tuple(ColumnStatistics(field=one, nulls=0, minimum=1, maximum=2) for one in fields),
        holders=tuple(SegmentHolder(node=one, incarnation=LIVE.get(one, 1)) for one in holders or (1, 2, 3)),
        format=SegmentFormat.FIELD_IDS,
    )
    return msgspec.structs.replace(staged, **how)


def sealed_by_holders(base, *segments):
    """As their holders would have answered."""
    made = []
    for one in segments:
        known = base.catalog.transactions.get(one.id[:32])
        order = 0 if known is None else known.order
        seals = (sealed(holder, KEYS[holder.node], one, order) for holder in one.holders)
        made.append(msgspec.structs.replace(one, holders=tuple(seals)))
    return tuple(made)


def commit(base, *segments, transaction=W1, live=None):
    return commit_as_told(base, *sealed_by_holders(base, *segments), transaction=transaction, live=live)


def commit_as_told(base, *segments, transaction=W1, live=None, seal_keys=KEYS, wall_us=0, **more):
    request = CommitTransaction(cluster_id="c" * 32, transaction=transaction, segments=segments, **more)
    live = LIVE if live is None else live
    return commit_transaction(request, base.catalog, incarnations=live, seal_keys=seal_keys, wall_us=wall_us)


def entry(staged, *holders, number=1, revision=0):
    return SegmentRecord(
        id=staged.id,
        table=TABLE,
        bucket=staged.bucket,
        schema_version=staged.schema_version,
        rows=staged.rows,
        size_bytes=staged.size_bytes,
        sha256=staged.sha256,
        statistics=staged.statistics,
        holders=holders,
        format=staged.format,
        number=number,
        commit=revision,
    )


def user(number, name):
    return PrincipalRecord(
        id=number, kind=PrincipalKind.USER, name=name, state=UseState.IN_USE, password_hash="", roles=(), leaving=()
    )


def record(state, rows=0, order=1, transaction=W1):
    return TransactionRecord(id=transaction, order=order, table=TABLE, schema_version=1, state=state, rows=rows)


def refused(call, *args, **how):
    with pytest.raises(Refused) as caught:
        call(*args, **how)
    assert caught.value.hint
    return caught.value.code
