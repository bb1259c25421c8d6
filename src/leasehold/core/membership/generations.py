"""Generations: how a cluster goes on whose newest meta storage is lost (docs/recovery.md; `leasehold recover`).

A restored backup does not know the numbers that were given out since to nodes, tables, incarnations and terms, and
gives its next revisions numbers that were used before. So it begins a new generation:

- The cluster record keeps where it left the older history (revision, hash). A directory within that history recovers as
  ever. One beyond it is refused until a person has looked.
- Its number is the second at which it began, so the same backup restored twice makes two generations.
- Every counter, every incarnation and the term jump, the farther the later it is, so no number means two things
  (INV-ID-1).
- No node is in the logical topology. Leases of the lost history are waited for, those too of nodes that the restored
  state does not know (`ClusterRecord.strangers`).

Requests by facts of another generation are refused: field ids, schema versions and numbers of DELETEs are given out
anew. Generations only rise. The generation of a directory is that of the cluster record in its projection.
"""

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import ClusterRecord, GenerationOrigin, LargestLeaseRecord, LeaderRecord, NodeRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import Generation, Incarnation, LineageHash, NodeId, ObjectId, Revision, Term
from leasehold.limits.membership import (
    GENERATION_GAP,
    GENERATIONS_SINCE,
    JUMPS_EVERY_S,
    NUMBERS_PER_SECOND,
    ORIGINS_MAX,
)

NOTHING_APPLIED = Generation(0)
"""Of a directory that follows no history yet."""


def generation_of(view: Catalog) -> Generation:
    """In which one a projection was applied last."""
    return NOTHING_APPLIED if view.cluster is None else view.cluster.generation


def end_of(cluster: ClusterRecord, generation: Generation) -> GenerationOrigin | None:
    """Where this cluster left the history of an older generation; None for one that it never was in, or forgot."""
    return next((one for one in cluster.origins if one.left == generation), None)


class Raised(msgspec.Struct, frozen=True, kw_only=True):
    """The next generation: what to write for it, and how long leases of the lost history may last."""

    cluster: ClusterRecord
    changes: tuple[Change, ...]
    longest_lease_ns: int


def raised(catalog: Catalog, *, wall_s: int, longest_lease_ns: int) -> Raised:
    """What begins the next generation, as one transaction over the state that was restored.

    `wall_s` is the time in seconds since 1970; `longest_lease_ns` bounds the grants that were given out after that
    state was saved. Raises `Refused` with code CLOCK_SET_BACK.
    """
    cluster, counters, settings = catalog.cluster, catalog.counters, catalog.settings
    assert cluster is not None
    assert counters is not None
    assert settings is not None
    assert catalog.largest_lease is not None
    check_clock(cluster, wall_s)
    generation = Generation(wall_s)
    origin = GenerationOrigin(
        generation=generation, left=cluster.generation, revision=catalog.revision, lineage=catalog.lineage
    )
    begun = msgspec.structs.replace(
        cluster, generation=generation, origins=(*cluster.origins, origin)[-ORIGINS_MAX:], strangers=True
    )
    jump = jump_to(cluster, generation)
    jumped = msgspec.structs.replace(
        counters,
        next_node=NodeId(counters.next_node + jump),
        next_object=ObjectId(counters.next_object + jump),
        next_procedure=counters.next_procedure + jump,
        next_transaction=counters.next_transaction + jump,
        next_login=counters.next_login + jump,
        next_segment=counters.next_segment + jump,
        topology=counters.topology + jump,
    )
    longest_ns = max(longest_lease_ns, settings.lease_duration_ns, catalog.largest_lease.duration_ns)
    changes = (
        put(keys.CLUSTER, begun),
        put(keys.COUNTERS, jumped),
        put(keys.LARGEST_LEASE, LargestLeaseRecord(duration_ns=longest_ns)),
        *(put(keys.node(one.id), _closed(one, jump)) for _, one in sorted(catalog.nodes.items())),
    )
    return Raised(cluster=begun, changes=changes, longest_lease_ns=longest_ns)


def check_clock(cluster: ClusterRecord, wall_s: int) -> None:
    """Raises `Refused` with code CLOCK_SET_BACK unless the wall clock shows a time after the cluster's generation."""
    began = _began(cluster)
    if wall_s <= began:
        raise Refused(
            f"the clock of this machine shows {wall_s} s since 1970, but the generation of the cluster began at"
            f" {began} or later",
            code=ErrorCode.CLOCK_SET_BACK,
            hint="set the clock, then run the command again",
        )


def jump_to(cluster: ClusterRecord, generation: Generation) -> int:
    """How far numbers jump to a generation: two that began after the same one have none in common."""
    return GENERATION_GAP + (generation - _began(cluster)) * NUMBERS_PER_SECOND


def _began(cluster: ClusterRecord) -> int:
    """The second since 1970 at which its generation began, at the earliest."""
    return max(cluster.generation, GENERATIONS_SINCE)


def raised_leader(record: LeaderRecord, before: ClusterRecord, generation: Generation) -> LeaderRecord:
    """The leader record that goes with it: the next term is above all that the lost history may have seen."""
    return msgspec.structs.replace(record, generation=generation, term=Term(record.term + jump_to(before, generation)))


def restored_leader(record: LeaderRecord, before: ClusterRecord, after: ClusterRecord, wall_s: int) -> LeaderRecord:
    """The leader record of a meta storage that is restored at `wall_s`: nobody leads, and the next term is new even if
    terms have begun since the backup and have left no other trace."""
    term = raised_leader(record, before, Generation(wall_s)).term if record.term else _term_above_all(wall_s)
    return LeaderRecord(generation=after.generation, term=term, holder="", beat=0, duration_ns=0)


def unknown_leader(cluster: ClusterRecord) -> LeaderRecord:
    """For a state that is kept without its leader record: in a vault, or in a replica of a log."""
    return LeaderRecord(generation=cluster.generation, term=Term(0), holder="", beat=0, duration_ns=0)


def _term_above_all(wall_s: int) -> Term:
    """A term above all that any cluster has given out until `wall_s`, for a state that does not say which it was in.

    A term is at most the number of elections plus all jumps. There are at most NUMBERS_PER_SECOND elections a second,
    and a jump each JUMPS_EVERY_S, of which none is farther than one over all the time since GENERATIONS_SINCE. A jump
    to here is above all that followed an earlier jump to here, since each second moves it farther than a jump.
    """
    since_s = wall_s - GENERATIONS_SINCE
    return Term((since_s // JUMPS_EVERY_S + 1) * (GENERATION_GAP + since_s * NUMBERS_PER_SECOND))


def _closed(node: NodeRecord, jump: int) -> NodeRecord:
    """No process has this incarnation. The nonce stays: it shows the directory that went no further."""
    incarnation = Incarnation(node.incarnation + jump)
    return msgspec.structs.replace(
        node, incarnation=incarnation, session_hash=None, end_hash=b"", member=False, left=True
    )


def is_older(cluster: ClusterRecord, generation: Generation) -> bool:
    """Whether something was applied in a generation, and the cluster has gone on to a later one since."""
    return NOTHING_APPLIED < generation < cluster.generation


def is_beyond(cluster: ClusterRecord, generation: Generation, applied: Revision, lineage: LineageHash | None) -> bool:
    """Whether what was applied in `generation` goes beyond what the cluster keeps of it, or differs from that."""
    if applied == 0 or generation == cluster.generation:
        return False
    end = end_of(cluster, generation)
    if end is None or applied > end.revision:
        return True
    return applied == end.revision and lineage is not None and lineage != end.lineage


def check_generation(generation: Generation, catalog: Catalog) -> None:
    """Raises `Refused` with code GENERATION_CHANGED unless what was looked up in `generation` is of this history."""
    assert catalog.cluster is not None
    if generation != catalog.cluster.generation:
        raise generation_changed(generation, catalog.cluster.generation)


def generation_changed(known: Generation, now: Generation) -> Refused:
    """The error for what was looked up in another generation than the present one."""
    return Refused(
        f"the table was looked up in generation {known} of the cluster, which is generation {now} now",
        code=ErrorCode.GENERATION_CHANGED,
        hint="look the table up again and start over: the cluster was recovered from an older state",
    )
