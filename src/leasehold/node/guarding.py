"""What every request of a data node goes through: the cluster it is meant for, the revision it has seen, the guard.

The guard itself is `core.lease.guard`; here its verdict becomes a view to decide on or an error to answer with.
"""

from collections.abc import Callable

from leasehold.core.catalog import Catalog
from leasehold.core.lease import Pass, guard
from leasehold.core.records import BucketRecord, TableRecord, UseState
from leasehold.errors import Definite, Fenced, NotFound, Refused
from leasehold.ids import BucketNumber, ClusterId, NodeId, ObjectId, Revision, SegmentId
from leasehold.limits import MILLISECOND_NS, SCHEMA_WAIT_NS, SECOND_NS
from leasehold.node.published import Published


def guarded(published: Published, now_ns: Callable[[], int]) -> Pass[Catalog]:
    """Passes the guard, or raises `Fenced`."""
    passed = guard(published, now_ns)
    if passed is None:
        raise _fenced(published, now_ns())
    return passed


def _fenced(published: Published, instant_ns: int) -> Fenced:
    deadline_ns = published.lease.deadline_ns
    who = f"node {published.node}" if published.node else "this node"
    if deadline_ns < 0:
        text = f"{who} holds no lease"
    else:
        text = f"{who} has been fenced for {max(0, instant_ns - deadline_ns) // MILLISECOND_NS} ms"
    return Fenced(
        f"{text}: it can't prove that its schema is current",
        hint="Another replica may serve; this node serves again with its next grant. SHOW NODES tells how it stands.",
    )


def check_cluster(published: Published, cluster_id: ClusterId) -> None:
    """Raises `Refused` with code OTHER_CLUSTER for a request that is meant for another cluster."""
    if published.cluster_id != cluster_id:
        here = f"belongs to cluster {published.cluster_id}" if published.cluster_id else "has joined no cluster yet"
        raise Refused(
            f"the request is for cluster {cluster_id[:64]}, this node {here}",
            code="OTHER_CLUSTER" if published.cluster_id else "NOT_JOINED",
            hint="Look the table up again: another cluster may use this address now.",
        )


def wait_until_shown(published: Published, revision: Revision) -> None:
    """Waits at most SCHEMA_WAIT_NS until the view shows `revision`; raises `Refused` with code BEHIND."""
    if not published.wait_for(revision, SCHEMA_WAIT_NS):
        raise Refused(
            f"node {published.node} shows revision {published.view.revision}, the request has seen {revision}",
            code="BEHIND",
            hint=f"Another replica may serve; this one did not catch up in {SCHEMA_WAIT_NS / SECOND_NS:g} s.",
        )


def table_in_use(view: Catalog, table: ObjectId) -> TableRecord:
    """The table; raises `NotFound` with code TABLE_DROPPED if it may not be used on this view."""
    record = view.tables.get(table)
    if record is None or record.state is not UseState.IN_USE:
        name = f"table {table}" if record is None else f"table {view.table_name(record)}"
        raise NotFound(f"{name} was dropped", code="TABLE_DROPPED", hint="SHOW TABLES lists what there is.")
    return record


def assigned_bucket(view: Catalog, table: ObjectId, bucket: BucketNumber, node: NodeId) -> BucketRecord:
    """The bucket; raises `Refused` with code NOT_ASSIGNED if this node is not one of its replicas."""
    record = view.buckets.get((table, bucket))
    if record is None or node not in record.replicas:
        raise Refused(
            f"bucket {bucket} of table {table} is not assigned to node {node}",
            code="NOT_ASSIGNED",
            hint="Look the table up again: its buckets may have moved.",
        )
    return record


def missing(published: Published, segment: SegmentId) -> Definite:
    """The error for a segment that is not on this disk."""
    return Refused(
        f"node {published.node} does not hold segment {segment}",
        code="SEGMENT_MISSING",
        hint="Another replica may serve; this node fetches what it lacks.",
    )


def busy(what: str, most: int) -> Definite:
    """The error for one stream too many."""
    return Refused(
        f"this node has {most} {what} under way, as many as it takes",
        code="BUSY",
        hint="Another replica may serve; or try again with fewer streams at once.",
    )
