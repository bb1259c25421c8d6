"""Which rows are gone for one query: all of what a DELETE or a TTL takes, or nothing of it (INV-SCAN-1).

Theory of operation. The leader fixes a query's cutoff when it plans the query, at one revision. Every ticket of the
query carries it, and every node leaves out the rows that are gone by the cutoff, and no others. A node never releases a
row that the view of its guard hides (INV-SERVE-1), so a batch that has such a row beyond the cutoff ends the query with
ROWS_TAKEN_AWAY: other batches of the query may have had rows of the same DELETE. A batch without such a row is the same
before and after, so the query goes on.

| what changed since the cutoff                   | a batch that it concerns | a batch that it does not |
| a DELETE began                                  | ROWS_TAKEN_AWAY          | released                 |
| a DELETE that was undecided is rolled back      | ROWS_TAKEN_AWAY          | ROWS_TAKEN_AWAY          |
| a first or shorter TTL                          | ROWS_TAKEN_AWAY          | released                 |
| the horizon moved on with time                  | released, rows and all   | released                 |

A shorter TTL that is rolled back after the cutoff needs no rule: the cutoff has the horizon as an instant, which hides
the same rows to the end of the query.
"""

from collections.abc import Collection

from leasehold.core.catalog import Catalog
from leasehold.core.messages import Cutoff
from leasehold.core.records import HorizonRecord, TableRecord, UseState
from leasehold.core.rewrite import unspent
from leasehold.errors import Refused


def cutoff(table: TableRecord, catalog: Catalog) -> Cutoff:
    """What is gone of a table for a query that is planned on this catalog."""
    undecided = [one for one in catalog.deletes.get(table.id, {}).values() if one.state is not UseState.IN_USE]
    horizon = catalog.horizons.get(table.id)
    return Cutoff(
        revision=catalog.revision,
        deletes=table.deletes,
        # One that concerns no file leaves no record when it is done, as if it were rolled back.
        undecided=tuple(one.number for one in unspent(undecided, table, catalog)),
        earliest_us=None if horizon is None else horizon.earliest_us,
    )


def check_decided(gone: Cutoff, deletes: Collection[int], table: str) -> None:
    """Raises `Refused` (ROWS_TAKEN_AWAY) if a DELETE that the query's rows lack was rolled back; `deletes` are those
    that a view has."""
    if any(number not in deletes for number in gone.undecided):
        raise rows_taken_away(table, "a DELETE was rolled back")


def expiry(gone: Cutoff | None, horizon: HorizonRecord | None) -> tuple[int | None, int | None]:
    """Before which instant rows are gone for a query, and before which instant a row ends it; None for no instant."""
    if gone is None:
        return None if horizon is None else horizon.earliest_us, None
    forced = horizon is not None and horizon.since > gone.deletes
    return gone.earliest_us, horizon.earliest_us if horizon is not None and forced else None


def rows_taken_away(table: str, what: str) -> Refused:
    """The error of a query that would otherwise show a part of what was taken away."""
    return Refused(
        f"{what} while table {table} was read, and the query may have shown some of those rows",
        code="ROWS_TAKEN_AWAY",
        hint="Run the query again.",
    )
