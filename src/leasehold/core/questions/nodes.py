"""Nodes as people see them: the status of each, SHOW NODES, how far a recovery is."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.lease.grants import HeldLease
from leasehold.core.questions.certificates import CERTIFICATE_COLUMN, shown_end
from leasehold.core.questions.rows import Row, rows_of
from leasehold.core.recovery.progress import in_words, left_in_words, segments_in_words
from leasehold.core.replicas.copies import Shortfall
from leasehold.core.words.messages import ClusterStatus, Lacked, NodeRecovery, NodeStatus, RecoveryProgress, Rows
from leasehold.core.words.records import NodeRecord, SettledHow
from leasehold.ids import NodeId, Revision
from leasehold.limits.lease import SILENT_SHOWN_NS
from leasehold.limits.recovery import RECOVERY_WHY_CHARACTERS_MAX
from leasehold.limits.units import MILLISECOND_NS

RECOVERY_CASES = ("a", "b", "c")
MEMBER, DRAINING, DRAINED = "MEMBER", "DRAINING", "DRAINED"
MEMBERS = frozenset({MEMBER, DRAINING, DRAINED})
"""The stages of nodes in the logical topology."""
COLUMNS = (
    "id",
    "name",
    "address",
    "incarnation",
    "state",
    "applied_revision",
    "lease_remaining_ms",
    "stage",
    "recovery",
    "segments_short",
    "session",
    "disk",
    "seen",
    "drain",
    "rack",
    CERTIFICATE_COLUMN,
)


class NodeLiveness(msgspec.Struct, frozen=True, kw_only=True):
    """What a leader knows of a node beside its record."""

    held: HeldLease | None
    """Its lease."""
    lease_end_ns: int
    """About when that lease ends."""
    is_connected: bool
    """Its session is open."""
    recovery: NodeRecovery | None
    """The last report of its newest process on its recovery."""
    join_wait_ns: int
    """How long a process of it has to wait at most before it is let in; 0 while none asks."""
    seen: str
    """How the physical topology sees it."""
    buckets: int = 0
    """How many lie on it (`buckets_left`)."""


def node_status(node: NodeRecord, known: NodeLiveness, found: Shortfall | None, now_ns: int) -> NodeStatus:
    """The status of one node; `found` has the missing copies, None while they are not counted."""
    held, recovery = known.held, known.recovery
    remaining_ns = 0
    applied = None
    if held is not None and held.closed not in {SettledHow.SURRENDERED, SettledHow.ENDED} and held.applied is not None:
        applied = held.applied
        remaining_ns = max(0, known.lease_end_ns - now_ns)
    if remaining_ns > 0:
        state = "ACTIVE"
    elif known.is_connected:
        state = "FENCED" if held is not None and held.admitted else "RECOVERING"
    else:
        state = "DOWN"
    stage = _stage(node, known)
    if not known.is_connected and known.join_wait_ns:
        stage, recovery = "WAITING", waits_to_join(known.join_wait_ns)
    return NodeStatus(
        id=node.id,
        name=node.name,
        address=node.address,
        incarnation=node.incarnation,
        state=state,
        applied_revision=applied,
        lease_remaining_ns=remaining_ns,
        stage=stage,
        recovery=recovery,
        segments_short=None if found is None else found.of_node.get(node.id, 0),
        segments_alone=None if found is None else found.alone.get(node.id, 0),
        seen=known.seen,
    )


def buckets_left(node: NodeRecord, catalog: Catalog) -> int:
    """How many buckets lie on a node; of one that drains with those that it is retired from."""
    return catalog.loads.get(node.id, 0) + buckets_retired(catalog)[node.id]


def buckets_retired(catalog: Catalog) -> Counter[NodeId]:
    """From how many buckets each node is retired."""
    return Counter(node for key in catalog.retired for node in catalog.buckets[key].retired)


def _placing(node: NodeRecord | None, catalog: Catalog) -> tuple[str | None, str | None]:
    """How far a drain is, and the rack."""
    if node is None:
        return None, None
    left = buckets_left(node, catalog) if node.draining else 0
    drain = f"{left} bucket{'' if left == 1 else 's'} left" if left else DRAINED if node.draining else None
    return drain, node.rack or None


def _stage(node: NodeRecord, known: NodeLiveness) -> str:
    """Where a node is on its way into the logical topology."""
    if node.incarnation == 0:
        return "REGISTERED"
    if node.member:
        if not node.draining:
            return MEMBER
        return DRAINING if known.buckets else DRAINED
    if known.is_connected:
        return "CONNECTED" if known.recovery is None else "RECOVERING"
    has_left = node.left or (known.held is not None and known.held.closed is not None)
    return "LEFT" if has_left else "ADMITTED"


def segments_lacked(found: Shortfall) -> tuple[Lacked, ...]:
    """How many segments each node has no file of and is the only holder of, by the manifest."""
    return tuple(Lacked(node=node, segments=count) for node, count in sorted(found.lacked.items()))


def nodes(status: ClusterStatus, catalog: Catalog, ends_s: Mapping[NodeId, int]) -> Rows:
    """SHOW NODES. `ends_s` tells when the certificates of connected nodes end, in seconds since 1970 UTC."""
    sessions = {one.node: one.how for one in status.session_ends}
    sessions |= {one.node: "SILENT" if one.silent_ns >= SILENT_SHOWN_NS else "OPEN" for one in status.silences}
    rows: list[Row] = [
        (
            one.id,
            one.name,
            one.address,
            one.incarnation,
            one.state,
            one.applied_revision,
            one.lease_remaining_ns // MILLISECOND_NS,
            one.stage,
            None if one.recovery is None else recovery_text(one.recovery, is_in=one.stage in MEMBERS),
            one.segments_short,
            sessions.get(one.id),
            _disk(one.id, status),
            one.seen,
            *_placing(catalog.nodes.get(one.id), catalog),
            shown_end(ends_s.get(one.id)),
        )
        for one in status.nodes
    ]
    return rows_of(COLUMNS, rows, catalog)


def _disk(node: NodeId, status: ClusterStatus) -> str | None:
    if node in status.disks_failing:
        return "FAILING"
    return "FULL" if node in status.disks_full else None


def reported_recovery(message: RecoveryProgress) -> NodeRecovery:
    """What a node reports of its recovery, as it may be shown to people."""
    told = NodeRecovery(**{name: getattr(message, name) for name in NodeRecovery.__struct_fields__})
    # It is shown on terminals, which obey what can't be printed.
    why = "".join(one if one.isprintable() else " " for one in told.why[:RECOVERY_WHY_CHARACTERS_MAX])
    return msgspec.structs.replace(told, case=told.case if told.case in RECOVERY_CASES else "?", why=why)


def waits_to_join(wait_ns: int) -> NodeRecovery:
    """The recovery of a process that waits to be let in, so long at most."""
    none = Revision(0)
    return NodeRecovery(
        case="",
        why="waits to join until earlier leases have ended",
        applied=none,
        target=none,
        keys=0,
        keys_total=0,
        segments_kept=0,
        segments_fetched=0,
        segments_missing=0,
        segments_evicted=0,
        left_ns=wait_ns,
    )


def recovery_text(one: NodeRecovery, *, is_in: bool) -> str:
    """How far a recovery is, in a few words: its case, keys or revisions unless the node is in, segments, and time."""
    if not one.case:
        return in_words(one)
    here = ""
    if one.case == "c" and one.keys < one.keys_total:
        here = f"{one.keys}/{one.keys_total} keys"
    elif not is_in:
        here = f"{one.applied}/{one.target}"
    parts = (f"{one.case} {here}".rstrip(), segments_in_words(one), left_in_words(one))
    return ", ".join(part for part in parts if part)
