"""Batches of streaming queries: each is committed at most once (docs/design.md, "Data").

Theory of operation. Spark numbers the batches of a query. After a failure it runs the last batch again, with the same
rows and the same number, and it can't know whether that batch was committed. So a commit names the query and the number
of its batch. The leader writes both in the transaction that makes the rows visible, and compares them with those of the
newest batch before.

| the newest batch of the query | the commit |
| --- | --- |
| none is known, or an earlier one on the same table | is made |
| this one | is refused: BATCH_COMMITTED. Its rows are there already |
| a later one | is refused: OTHER_CHECKPOINT. The query goes on from a copy of its checkpoint |
| one on another table, or on one that was dropped | is refused: OTHER_CHECKPOINT |
| one of a query that another user has begun, without ALTER on the table | is refused: OTHER_CHECKPOINT |

The newest batch of a query stays known for 30 days after its commit: without it a batch that is run again would be
written twice. The number of known queries is bounded for a table, for a user, and for the cluster. If there is no room,
a new query is refused, so a user who fills a share keeps no other user from new queries on other tables. The queries of
a dropped table are the exception. No batch of theirs can be written to that table again, so they make room when a new
query needs it.
"""

from typing import Final

from leasehold.core.access.rights import holds, path_of
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.messages import StreamBatch
from leasehold.core.words.operations import Change
from leasehold.core.words.records import PrincipalRecord, Right, StreamRecord, TableRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import is_query_id
from leasehold.limits.segments import (
    STREAM_KEPT_NS,
    STREAMS_FORGOTTEN_AT_ONCE,
    STREAMS_MAX,
    STREAMS_PER_TABLE_MAX,
    USER_STREAMS_MAX,
)

_OTHER_HINT: Final = "start the query with a new checkpoint; first look which rows the table has"


def committed_batch(
    batch: StreamBatch, user: PrincipalRecord | None, table: TableRecord, catalog: Catalog, wall_us: int
) -> tuple[Change, ...]:
    """Makes this batch of a user the newest of its query; it is committed with its rows. Raises `Refused` as the table
    above, and BAD_MESSAGE, BUSY."""
    if not is_query_id(batch.query) or batch.number < 0:
        raise Refused(
            f"batch {batch.number} of query {batch.query[:64]!r} is none",
            code=ErrorCode.BAD_MESSAGE,
            hint="a query has the id that Spark gave it, and its batches are numbered from 0",
        )
    newest = catalog.streams.get(batch.query)
    forgotten_now: tuple[Change, ...] = ()
    if newest is None:
        forgotten_now = _room_made(user, table, catalog)
    elif newest.table != table.id:
        other = catalog.tables.get(newest.table)
        known = f"table {catalog.table_name(other)}" if other is not None else "a table that was dropped since"
        raise Refused(
            f"streaming query {batch.query} has written to {known}, and not to {catalog.table_name(table)}",
            code=ErrorCode.OTHER_CHECKPOINT,
            hint=_OTHER_HINT,
        )
    elif not _may_continue(user, newest, table, catalog):
        raise Refused(
            f"streaming query {batch.query} was begun by another user",
            code=ErrorCode.OTHER_CHECKPOINT,
            hint="run it as that user, or as one with ALTER on the table",
        )
    elif newest.batch == batch.number:
        raise Refused(
            f"batch {batch.number} of streaming query {batch.query} is committed already",
            code=ErrorCode.BATCH_COMMITTED,
            hint="its rows are in the table: go on with the next batch",
        )
    elif newest.batch > batch.number:
        raise Refused(
            f"streaming query {batch.query} has committed batch {newest.batch}, and this is batch {batch.number}: its"
            " checkpoint is an earlier copy",
            code=ErrorCode.OTHER_CHECKPOINT,
            hint=_OTHER_HINT,
        )
    begun_by = None if newest is None else newest.begun_by
    if begun_by is None and user is not None:
        begun_by = user.id
    record = StreamRecord(
        query=batch.query, table=table.id, batch=batch.number, committed_us=wall_us, begun_by=begun_by
    )
    return (*forgotten_now, put(keys.stream(batch.query), record))


def _may_continue(user: PrincipalRecord | None, newest: StreamRecord, table: TableRecord, catalog: Catalog) -> bool:
    """Whether this user goes on with a query. Otherwise a user who may write to the table could commit an empty batch
    of another user's query, and the rows of the real batch would be lost."""
    if user is None or newest.begun_by in {None, user.id}:
        return True
    return holds(user, Right.ALTER, path_of(table), catalog)


def _room_made(user: PrincipalRecord | None, table: TableRecord, catalog: Catalog) -> tuple[Change, ...]:
    """What to forget so that one more query can be known: nothing while there is room. Raises `Refused` with code BUSY
    if there is none."""
    known = list(catalog.streams.values())
    of_user = [] if user is None else [one for one in known if one.begun_by == user.id]
    full: list[StreamRecord] = []
    if sum(one.table == table.id for one in known) >= STREAMS_PER_TABLE_MAX:
        what = f"{STREAMS_PER_TABLE_MAX} streaming queries on {catalog.table_name(table)}"
    elif user is not None and len(of_user) >= USER_STREAMS_MAX:
        what, full = f"{USER_STREAMS_MAX} streaming queries of {user.name}", of_user
    elif len(known) >= STREAMS_MAX:
        what, full = f"{STREAMS_MAX} streaming queries", known
    else:
        return ()
    of_dropped = sorted((one.committed_us, one.query) for one in full if one.table not in catalog.tables)
    if not of_dropped:
        raise Refused(
            f"the newest batches of {what} are known, and no more can be",
            code=ErrorCode.BUSY,
            hint="continue a query with the checkpoint that it has; a query is forgotten 30 days after its last batch,"
            " or when room is needed and its table was dropped",
        )
    return tuple(Change(keys.stream(query), None) for _, query in of_dropped[:STREAMS_FORGOTTEN_AT_ONCE])


def forgotten(catalog: Catalog, wall_us: int) -> tuple[Change, ...]:
    """Forgets queries whose newest batch was committed STREAM_KEPT_NS ago."""
    until_us = wall_us - STREAM_KEPT_NS // 1_000
    old = sorted(one.query for one in catalog.streams.values() if one.committed_us <= until_us)
    return tuple(Change(keys.stream(one), None) for one in old)
