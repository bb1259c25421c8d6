"""Which rows a node takes: the rules of a client's write and of a segment that a peer passes on, on one view.

A client needs a login that may append, an open write transaction, and a bucket of which this node is a replica. A peer
has to be a node in its newest incarnation; its client's right was checked there.
"""

from typing import NamedTuple

from leasehold.core.access.request_rights import check_append
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.data.requests import Serving, assigned_bucket, check_node, table_in_use
from leasehold.core.data.seals import sealed
from leasehold.core.replicas.replication import holders_needed
from leasehold.core.words import messages
from leasehold.core.words.records import PrincipalRecord, TableRecord, TransactionRecord, TransactionState
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused, Superseded
from leasehold.ids import NodeId, TransactionId, is_segment_id, segment_transaction


class Peer(NamedTuple):
    """Another node, and where it serves. Its certificate has this name."""

    node: NodeId
    address: str
    name: str


class AdmittedWrite(NamedTuple):
    """A write that may go on, decided on `view`; `peers` are the other replicas of its bucket."""

    view: Catalog
    table: TableRecord
    peers: list[Peer]
    order: int
    """The number of its write transaction."""
    min_in_sync: int
    """How many holders the commit will ask for."""
    user: PrincipalRecord | None
    """Who writes; None in a cluster without users."""


def admit_write(ticket: messages.WriteTicket, view: Catalog, node: NodeId, *, by_itself: bool = False) -> AdmittedWrite:
    """Whether `view`, which has passed the guard, lets `node` take these rows: those of a client, or of a bucket that
    it compacts `by_itself`."""
    user = None if by_itself else check_append(ticket.login, ticket.table, ticket.transaction, view)
    table = table_in_use(view, ticket.table)
    if not 1 <= ticket.schema_version <= table.schema_version:
        raise Refused(
            f"schema version {ticket.schema_version} of {view.table_name(table)} is not known",
            code=ErrorCode.SCHEMA_CHANGED,
            hint="look the table up again",
        )
    if not is_segment_id(ticket.segment) or segment_transaction(ticket.segment) != ticket.transaction:
        raise Refused(
            f"segment {ticket.segment[:80]!r} is not of write transaction {ticket.transaction[:64]!r}",
            code=ErrorCode.BAD_SEGMENT,
            hint="begin the segment's id with the id of the transaction",
        )
    record = _open(ticket, view)
    if record.compactor != (node if by_itself else None):
        raise _not_open(ticket.transaction)
    bucket = assigned_bucket(view, ticket.table, ticket.bucket, node)
    others = [one for one in bucket.replicas if one != node]
    peers = [Peer(one, view.nodes[one].address, view.nodes[one].name) for one in others if one in view.nodes]
    assert view.settings is not None, "a cluster with tables has settings"
    return AdmittedWrite(view, table, peers, record.order, holders_needed(view.settings, table), user)


def forward_ticket(ticket: messages.WriteTicket, admitted: AdmittedWrite, serving: Serving) -> messages.ForwardTicket:
    """What this node passes a client's segment on with."""
    return messages.ForwardTicket(
        cluster_id=ticket.cluster_id,
        segment=ticket.segment,
        table=ticket.table,
        bucket=ticket.bucket,
        revision=admitted.view.revision,
        sender=serving.node,
        sender_incarnation=serving.incarnation,
        session=serving.session,
    )


def sealed_here(serving: Serving, segment: messages.StagedSegment, order: int) -> messages.SegmentHolder:
    """This node as a holder of the segment, which lies on its disk, synced."""
    myself = messages.SegmentHolder(node=serving.node, incarnation=serving.incarnation)
    return sealed(myself, serving.seal_key, segment, order)


def described(ticket: messages.ForwardTicket, end: messages.BytesEnd) -> messages.StagedSegment:
    """The segment as its sender describes it. Raises `Refused` if its bytes were not those that came."""
    segment = end.segment
    came = (ticket.segment, ticket.table, ticket.bucket, end.size_bytes, end.sha256)
    if segment is None or came != (segment.id, segment.table, segment.bucket, segment.size_bytes, segment.sha256):
        raise Refused("the ticket describes another segment", code=ErrorCode.BAD_MESSAGE, hint="upgrade the sender")
    return segment


def stored(segment: messages.StagedSegment, serving: Serving, order: int) -> messages.SegmentStored:
    """The answer to the sender of a segment that is synced on this disk."""
    myself = sealed_here(serving, segment, order)
    return messages.SegmentStored(
        node=myself.node,
        incarnation=myself.incarnation,
        size_bytes=segment.size_bytes,
        sha256=segment.sha256,
        seal=myself.seal,
    )


def admit_forward(ticket: messages.ForwardTicket, view: Catalog, node: NodeId) -> int:
    """Whether `view`, which has passed the guard, lets `node` take a segment's bytes from their sender; the number of
    the write transaction."""
    table_in_use(view, ticket.table)
    if not is_segment_id(ticket.segment):
        raise Refused(
            f"{ticket.segment[:80]!r} names no segment", code=ErrorCode.BAD_SEGMENT, hint="upgrade the sender"
        )
    transaction = segment_transaction(ticket.segment)
    record = view.transactions.get(transaction)
    if record is None or record.table != ticket.table:
        raise _not_open(transaction)
    if record.state is TransactionState.ABORTED:
        raise _ended(record)  # one that is committed may still find a slow replica: its file is as good as a copy
    assigned_bucket(view, ticket.table, ticket.bucket, node)
    sender = view.nodes.get(ticket.sender)
    if sender is None or sender.removed or sender.incarnation != ticket.sender_incarnation:
        # INV-ID-2: an older incarnation changes nothing.
        raise Superseded(
            f"node {ticket.sender} with incarnation {ticket.sender_incarnation} is not a member now",
            hint="only the newest incarnation of a node may write",
        )
    check_node(ticket.sender, ticket.session, view)
    return record.order


def _open(ticket: messages.WriteTicket, view: Catalog) -> TransactionRecord:
    record = view.transactions.get(ticket.transaction)
    if record is None or record.table != ticket.table:
        raise _not_open(ticket.transaction)
    if record.state is not TransactionState.OPEN:
        raise _ended(record)
    return record


def _not_open(transaction: TransactionId) -> Refused:
    return Refused(
        f"write transaction {transaction[:64]!r} is not open on this table",
        code=ErrorCode.TRANSACTION_UNKNOWN,
        hint="open a transaction and write the rows again",
    )


def _ended(record: TransactionRecord) -> Refused:
    return Refused(
        f"write transaction {record.id} is {record.state}: it takes no more rows",
        code=ErrorCode.ABORTED if record.state is TransactionState.ABORTED else ErrorCode.TRANSACTION_ENDED,
        hint="open another transaction and write the rows again",
    )
