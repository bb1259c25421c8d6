"""Which rows are gone for one query: all that a DELETE or a TTL takes, or nothing of it (INV-SCAN-1).

Theory of operation. The leader fixes a query's cutoff when it plans the query, at one revision. Every ticket of the
query carries it, and every node leaves out just the rows that are gone by it. A node never releases a row that the view
of its guard hides (INV-SERVE-1). So a batch with such a row that is not gone by the cutoff ends the query with
ROWS_TAKEN_AWAY: other batches may have had rows of the same DELETE.

| what changed since the cutoff                   | a batch that it concerns | a batch that it does not |
| a DELETE began                                  | ROWS_TAKEN_AWAY          | released                 |
| a DELETE that was undecided is rolled back      | ROWS_TAKEN_AWAY          | ROWS_TAKEN_AWAY          |
| a first or shorter TTL                          | ROWS_TAKEN_AWAY          | released                 |
| the horizon moved on with time                  | released, rows and all   | released                 |

If several processes run a query, the first of them has one cutoff written down for each table (`record_cutoff`). A
shorter TTL that is rolled back needs no rule: the cutoff has the horizon as an instant.
"""

from collections.abc import Collection

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.replicas.rewrite import unspent
from leasehold.core.words import keys
from leasehold.core.words.messages import AgreeCutoff, Cutoff
from leasehold.core.words.operations import Change
from leasehold.core.words.records import HorizonRecord, PrincipalRecord, QueryRecord, TableRecord, UseState
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotFound, Refused
from leasehold.ids import is_hex_128
from leasehold.limits.queries import QUERIES_MAX, QUERY_KEPT_NS, USER_QUERIES_MAX
from leasehold.limits.units import SECOND_NS


def cutoff(table: TableRecord, catalog: Catalog) -> Cutoff:
    undecided = [one for one in catalog.deletes.get(table.id, {}).values() if one.state is not UseState.IN_USE]
    horizon = catalog.horizons.get(table.id)
    return Cutoff(
        revision=catalog.revision,
        deletes=table.deletes,
        # One that concerns no file leaves no record when it is done, as if it were rolled back.
        undecided=tuple(one.number for one in unspent(undecided, table, catalog)),
        earliest_us=None if horizon is None else horizon.earliest_us,
    )


def record_cutoff(request: AgreeCutoff, user: PrincipalRecord | None, catalog: Catalog) -> tuple[Change, ...]:
    """Writes down the cutoff of a table for a query that a user begins; nothing if that has been done.

    Raises `NotFound` with code TABLE_DROPPED, `Refused` (BAD_MESSAGE, BUSY).
    """
    table = catalog.tables.get(request.table)
    if table is None or table.state is not UseState.IN_USE:
        raise NotFound(
            f"table {request.table} was dropped", code=ErrorCode.TABLE_DROPPED, hint="SHOW TABLES lists what exists"
        )
    if not is_hex_128(request.query):
        raise Refused("the id of a query is 128 bits in hex", code=ErrorCode.BAD_MESSAGE, hint="upgrade the client")
    if keys.query_name(request.table, request.query) in catalog.queries:
        return ()
    text = None
    if len(catalog.queries) >= QUERIES_MAX:
        text = f"{QUERIES_MAX} Spark queries began within {QUERY_KEPT_NS // SECOND_NS} s, the most there may be"
    elif user is not None and len(catalog.queries_of.get(user.id, ())) >= USER_QUERIES_MAX:
        text = f"{USER_QUERIES_MAX} Spark queries of {user.name} began within {QUERY_KEPT_NS // SECOND_NS} s"
    if text is not None:
        raise Refused(text, code=ErrorCode.BUSY, hint="run the query again later")
    gone = cutoff(table, catalog)
    record = QueryRecord(
        table=table.id,
        query=request.query,
        deletes=gone.deletes,
        undecided=gone.undecided,
        earliest_us=gone.earliest_us,
        pinned=gone.revision,
        begun_by=None if user is None else user.id,
    )
    return (put(keys.query(table.id, request.query), record),)


def cutoff_of(request: AgreeCutoff, catalog: Catalog) -> Cutoff:
    """What was written down. Raises `Refused` with code ROWS_TAKEN_AWAY if it was forgotten."""
    known = catalog.queries.get(keys.query_name(request.table, request.query))
    if known is None:
        raise rows_taken_away(str(request.table), "the query is not known any more")
    # Not the revision of its own: a node that shows this one has applied all that the cutoff names.
    return Cutoff(
        revision=catalog.revision,
        deletes=known.deletes,
        undecided=known.undecided,
        earliest_us=known.earliest_us,
        pinned=known.pinned,
    )


def check_decided(gone: Cutoff, deletes: Collection[int], table: str) -> None:
    """Raises `Refused` (ROWS_TAKEN_AWAY) if a DELETE of the cutoff was rolled back; `deletes` are those of a view."""
    if any(number not in deletes for number in gone.undecided):
        raise rows_taken_away(table, "a DELETE was rolled back")


def expiry(gone: Cutoff | None, horizon: HorizonRecord | None) -> tuple[int | None, int | None]:
    """Before which instant rows are gone for a query, and before which instant a row ends it; None for no instant."""
    if gone is None:
        return None if horizon is None else horizon.earliest_us, None
    forced = horizon is not None and horizon.since > gone.deletes
    return gone.earliest_us, horizon.earliest_us if horizon is not None and forced else None


def rows_taken_away(table: str, what: str) -> Refused:
    """The error of a query that might show a part of what was taken away."""
    return Refused(
        f"{what} while table {table} was read, and the query may have shown some of those rows",
        code=ErrorCode.ROWS_TAKEN_AWAY,
        hint="run the query again",
    )
