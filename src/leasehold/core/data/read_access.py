"""Who may read a batch: the rules of a scan of one segment, on the view that the batch's guard gave.

Authorisation follows the newest view, anew for each batch. The projection follows the revision that the scan pinned,
which the ticket carries as its fields. So a rename changes nothing in a running scan, and a drop or a revoked right
ends it within one batch.
"""

from collections.abc import Iterable

from leasehold.core.access.request_rights import check_read
from leasehold.core.catalog.catalog import BucketKey, Catalog, check_through
from leasehold.core.data.filters import are_sound, columns_read
from leasehold.core.data.manifest import NOTHING_STORED, StoredSegment
from leasehold.core.data.requests import check_generation, table_in_use
from leasehold.core.words.messages import ReadTicket
from leasehold.core.words.records import Field, SegmentRecord, TableRecord, UseState
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import FieldId, SegmentId
from leasehold.limits.statements import (
    COLUMNS_MAX,
    COMMENT_CHARACTERS_MAX,
    IDENTIFIER_CHARACTERS_MAX,
    LITERAL_CHARACTERS_MAX,
)
from leasehold.limits.upkeep import DELETES_MAX


def authorise(
    ticket: ReadTicket,
    view: Catalog,
    entry: SegmentRecord | None,
    authorised: TableRecord | None = None,
    *,
    by_itself: bool = False,
) -> TableRecord:
    """The table, if a view that has passed the guard allows this scan to go on; `entry` is what the view says of the
    segment (`entry_at`), `authorised` the last answer. A node that reads `by_itself` shows the rows to nobody.

    While the view holds the very record that was authorised, only the rights have to be checked again. Raises
    `Unauthenticated`, `Forbidden`, `NotFound` with code TABLE_DROPPED or VIEW_DROPPED, `Refused` with code
    GENERATION_CHANGED, BEHIND, COLUMN_DROPPED or SEGMENT_UNKNOWN.
    """
    check_generation(ticket.generation, view)
    if not by_itself:
        check_read(ticket.login, ticket.table, ticket.through, view)
    check_through(ticket.through, view)
    if authorised is not None and entry is not None and view.tables.get(ticket.table) is authorised:
        return authorised
    table = table_in_use(view, ticket.table)
    check_columns(columns_read(ticket), table, view)
    # The hash too: a file that differs from it is put aside as damaged, which is not for a ticket to say.
    if entry is None or entry.sha256 != ticket.sha256:
        raise Refused(
            f"segment {ticket.segment[:80]!r} is not in the manifest of {view.table_name(table)} with that hash",
            code=ErrorCode.SEGMENT_UNKNOWN,
            hint="start the scan again",
        )
    return table


def check_columns(fields: Iterable[Field], table: TableRecord, view: Catalog) -> None:
    """Raises `Refused` with code COLUMN_DROPPED unless the table still has all of these columns."""
    alive = columns_in_use(table)
    for field in fields:
        if field.id not in alive:
            raise Refused(
                f"column {field.name} of table {view.table_name(table)} was dropped",
                code=ErrorCode.COLUMN_DROPPED,
                hint="start the scan again without it",
            )


def columns_in_use(table: TableRecord) -> frozenset[FieldId]:
    return frozenset(field.id for field in table.fields if field.state is UseState.IN_USE)


def entry_at(
    bucket: BucketKey, segment: SegmentId, view: Catalog, stored: StoredSegment = NOTHING_STORED
) -> SegmentRecord | None:
    """The segment, if scans may read it by this view: it is in the manifest, or was replaced not long ago. `stored` is
    what a vault holds of it, which has applied no more than the view shows."""
    assert stored.applied <= view.revision, "the vault holds nothing that the view does not show"
    found = view.segments.over(bucket, segment, stored.segment)
    if found is None:
        replaced = view.replaced.over(bucket, segment, stored.replaced)
        return None if replaced is None else replaced.segment
    return found


def check_sound(ticket: ReadTicket) -> None:
    """Raises `Refused` with code BAD_TICKET if a value lies outside its bounds."""
    if not _is_sound(ticket):
        raise Refused("the ticket has a value out of range", code=ErrorCode.BAD_TICKET, hint="upgrade the client")


def _is_sound(ticket: ReadTicket) -> bool:
    gone = ticket.cutoff
    if gone is not None and (len(gone.undecided) > DELETES_MAX or (gone.earliest_us or 0) >= 2**63):
        return False
    if not are_sound(ticket.where, ticket.fields):
        return False
    if len(ticket.fields) > COLUMNS_MAX or len({field.id for field in ticket.fields}) != len(ticket.fields):
        return False  # a column that is named again is decoded again
    return ticket.row_offset >= 0 and all(map(_is_short, columns_read(ticket)))


def _is_short(field: Field) -> bool:
    """Whether its words are no longer than statements can give: a byte of a BINARY is two characters."""
    values = (field.initial or "", field.default or "")
    return (
        len(field.name) <= IDENTIFIER_CHARACTERS_MAX
        and len(field.comment) <= COMMENT_CHARACTERS_MAX
        and max(map(len, values)) <= 2 * LITERAL_CHARACTERS_MAX
    )
