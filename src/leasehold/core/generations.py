"""Generations: how a cluster goes on whose newest meta storage is lost (DESIGN section 6; `leasehold recover`).

An older state of the meta storage, a restored backup, comes back with numbers that were given out since, to nodes,
tables, incarnations and terms, and revisions that were other ones before. So it begins a new generation:

- where it leaves which history, (revision, hash), is kept in the cluster record. A directory within that past recovers
  as ever; one beyond it is refused until a person has looked, however far the new history has got or been compacted.
- its number is the second at which it began, so that the same backup restored twice makes two generations.
- every counter, every node's incarnation and the term jump by GENERATION_GAP, so no number means two things (INV-ID-1).
- no node is in the logical topology; and grants of the lost history are waited for, as long as they may have been.

The generation of a directory is that of the cluster record in its projection, at the revision it has applied.
"""

import msgspec

from leasehold.core import keys
from leasehold.core.catalog import Catalog
from leasehold.core.operations import Change
from leasehold.core.plan import put
from leasehold.core.records import ClusterRecord, LargestLeaseRecord, LeaderRecord, NodeRecord, Origin
from leasehold.ids import Generation, Incarnation, NodeId, ObjectId, Revision, Term
from leasehold.limits import GENERATION_GAP, ORIGINS_MAX

NOTHING_APPLIED = Generation(0)
"""Of a directory that follows no history yet."""


def generation_of(view: Catalog) -> Generation:
    """In which one a projection was applied last."""
    return NOTHING_APPLIED if view.cluster is None else view.cluster.generation


def end_of(cluster: ClusterRecord, generation: Generation) -> Origin | None:
    """Where this cluster left the history of an older generation; None for one that it never was in, or forgot."""
    return next((one for one in cluster.origins if one.left == generation), None)


def raised(catalog: Catalog, *, wall_s: int, longest_lease_ns: int) -> tuple[ClusterRecord, tuple[Change, ...]]:
    """What begins the next generation, as one transaction over the state that was restored.

    `wall_s` is the time in seconds since 1970; `longest_lease_ns` bounds the grants that were given out after that
    state was saved.
    """
    cluster, counters, settings = catalog.cluster, catalog.counters, catalog.settings
    assert cluster is not None
    assert counters is not None
    assert settings is not None
    assert catalog.largest_lease is not None
    generation = Generation(max(cluster.generation + 1, wall_s))
    origin = Origin(generation=generation, left=cluster.generation, revision=catalog.revision, lineage=catalog.lineage)
    begun = msgspec.structs.replace(cluster, generation=generation, origins=(*cluster.origins, origin)[-ORIGINS_MAX:])
    jumped = msgspec.structs.replace(
        counters,
        next_node=NodeId(counters.next_node + GENERATION_GAP),
        next_object=ObjectId(counters.next_object + GENERATION_GAP),
        next_procedure=counters.next_procedure + GENERATION_GAP,
        next_transaction=counters.next_transaction + GENERATION_GAP,
        next_login=counters.next_login + GENERATION_GAP,
        topology=counters.topology + GENERATION_GAP,
    )
    longest_ns = max(longest_lease_ns, settings.lease_duration_ns, catalog.largest_lease.duration_ns)
    return begun, (
        put(keys.CLUSTER, begun),
        put(keys.COUNTERS, jumped),
        put(keys.LARGEST_LEASE, LargestLeaseRecord(duration_ns=longest_ns)),
        *(put(keys.node(one.id), _closed(one)) for _, one in sorted(catalog.nodes.items())),
    )


def raised_leader(record: LeaderRecord, generation: Generation) -> LeaderRecord:
    """The leader record that goes with it: terms that the lost history may have seen lie below the next one."""
    return msgspec.structs.replace(record, generation=generation, term=Term(record.term + GENERATION_GAP))


def _closed(node: NodeRecord) -> NodeRecord:
    """No process has this incarnation. The nonce stays: it shows the directory that went no further."""
    return msgspec.structs.replace(
        node, incarnation=Incarnation(node.incarnation + GENERATION_GAP), member=False, left=True
    )


def is_beyond(cluster: ClusterRecord, generation: Generation, applied: Revision) -> bool:
    """Whether what was applied in `generation` goes beyond what the cluster keeps of it."""
    if applied == 0 or generation == cluster.generation:
        return False
    end = end_of(cluster, generation)
    return end is None or applied > end.revision
