"""Admission: whether the leader gives out an id and lets a process in.

The theory is in `core/membership/identity.py`. The leader runs these decisions inside its one transaction at a time and
answers once it is durable. An id is looked up by its token, so asking twice is harmless.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from leasehold.core.lease.grants import HeldLease
from leasehold.core.lease.process_end import end_hash, end_proof
from leasehold.core.membership import rejections
from leasehold.core.membership.generations import end_of, is_beyond, is_older
from leasehold.core.membership.identity import hash_secret
from leasehold.core.membership.proofs import ProofKeys, is_of_member
from leasehold.core.membership.rejections import Reject
from leasehold.core.words.messages import Allocate, AskIncarnation, Join, OfMember
from leasehold.core.words.records import ClusterRecord, CountersRecord, NodeRecord
from leasehold.error_codes import ErrorCode
from leasehold.ids import NODE_ADDRESS, NODE_NAME, Incarnation, LineageHash, NodeId, Revision, is_hex_128
from leasehold.limits.membership import CAPABILITIES_MAX, GIVEN_UP_AT_ONCE, NODE_IDS_MAX, NODES_MAX, UNJOINED_KEPT_NS
from leasehold.limits.messages import PROTOCOL_VERSION, PROTOCOL_VERSION_MIN

CAPABILITY: Final = re.compile(r"[a-z][a-z0-9-]{0,62}")
REQUIRED_CAPABILITIES: Final = frozenset({"leap", "reports-missing"})
"""What a program must support to be let in: one that takes no snapshot could never come back once it is too far behind,
and one that does not report what its disk lacks would count as a holder of it."""
GENERATIONS: Final = "generations"
"""Needed too in a cluster that was recovered: a program without it takes all histories for one."""

RESTORE: Final = "restore the newest meta storage; if it is lost, `leasehold recover` continues from this one"


def reject_stranger(request: OfMember, keys: ProofKeys | None) -> Reject | None:
    """The refusal of a process without a proof of the cluster key. Without `keys`, the leader's own, there is none."""
    if keys is None or is_of_member(request, keys):
        return None
    why = "has no proof of the cluster key" if request.proof is None else "has a proof with another cluster key"
    return Reject(
        code=ErrorCode.NOT_A_MEMBER,
        text=f"the request to join this cluster {why}",
        hint="start the process with `--cluster-key FILE` (or cluster_key = 'FILE' in its --config file), where FILE is"
        " a copy of the coordinator's; `leasehold up --dir DIR` keeps it in DIR/cluster.key",
    )


class KnownToken(msgspec.Struct, frozen=True, kw_only=True):
    """The token has an id already."""

    node: NodeId


class Fresh(msgspec.Struct, frozen=True, kw_only=True):
    """The token gets this id: write both records in one transaction."""

    node: NodeRecord
    counters: CountersRecord


def decide_allocate(
    request: Allocate, cluster: ClusterRecord, counters: CountersRecord, nodes: Iterable[NodeRecord]
) -> KnownToken | Fresh | Reject:
    """Which id belongs to the token of `request` (INV-ID-1)."""
    if request.cluster_id != cluster.cluster_id:
        return rejections.other_cluster(request.cluster_id, cluster)
    if not is_hex_128(request.token):
        return Reject(code=ErrorCode.BAD_TOKEN, text="the token is not 128 bits in hex", hint="upgrade the node")
    token_hash = hash_secret(request.token)
    known = sorted(nodes, key=lambda one: one.id)
    for node in known:
        if node.token_hash == token_hash:
            return rejections.removed_node(node) if node.removed else KnownToken(node=node.id)
    if sum(not node.removed for node in known) >= NODES_MAX:
        hint = "remove nodes with `leasehold node remove`; ids whose nodes never joined become free by themselves"
        return Reject(code=ErrorCode.TOO_MANY_NODES, text=f"the cluster has {NODES_MAX} nodes", hint=hint)
    if len(known) >= NODE_IDS_MAX:
        text = f"the cluster has given out {NODE_IDS_MAX} ids, which are never used again"
        return Reject(code=ErrorCode.TOO_MANY_NODES, text=text, hint="start a second cluster")
    rejected = _bad_attributes(request, None, known)
    if rejected is not None:
        return rejected
    fresh = NodeRecord(
        id=counters.next_node,
        name=request.name,
        address=request.address,
        token_hash=token_hash,
        incarnation=Incarnation(0),
        nonce=None,
        session_hash=None,
        removed=False,
    )
    return Fresh(node=fresh, counters=msgspec.structs.replace(counters, next_node=NodeId(counters.next_node + 1)))


def has_never_joined(node: NodeRecord) -> bool:
    """Whether a node has an id and never joined. False after a recovery from a backup, which raises all incarnations:
    the node may have joined in the history that was lost."""
    return node.incarnation == 0 and not node.removed


def decide_give_up(
    nodes: Mapping[NodeId, NodeRecord], unjoined: Mapping[NodeId, int], now_ns: int
) -> tuple[NodeRecord, ...]:
    """The nodes whose ids are given up: they become tombstones, so that number and token are never used again.

    `unjoined` says since when this leader knows of an id whose node has not joined, or when that node last asked.
    """
    late = (nodes[node] for node, since_ns in unjoined.items() if now_ns - since_ns >= UNJOINED_KEPT_NS)
    return tuple(node for node in late if has_never_joined(node))[:GIVEN_UP_AT_ONCE]


class Admit(msgspec.Struct, frozen=True, kw_only=True):
    """Close the incarnation of `previous`, write `node`, and only then answer its incarnation."""

    node: NodeRecord
    previous: NodeRecord


class Same(msgspec.Struct, frozen=True, kw_only=True):
    """Asked again by the same process: the same answer."""

    incarnation: Incarnation


class WaitUntil(msgspec.Struct, frozen=True, kw_only=True):
    """The previous incarnation's lease may run until then, on the leader's clock."""

    bound_ns: int


class JoinerHistory(msgspec.Struct, frozen=True, kw_only=True):
    """What the meta storage knows of a joiner's applied revision: LM, and the hash there if still known."""

    latest: Revision
    lineage_at_applied: LineageHash | None


def spoken_protocol(request: Join) -> int | None:
    """The newest version of the protocol that both sides speak, None without one."""
    newest = min(request.protocol, PROTOCOL_VERSION)
    return newest if newest >= max(request.protocol_min, PROTOCOL_VERSION_MIN) else None


def decide_join(
    request: Join,
    *,
    cluster: ClusterRecord,
    nodes: Iterable[NodeRecord],
    history: JoinerHistory,
    held: HeldLease | None,
    first_bound_ns: int | None,
    alive_after_ns: int,
    now_ns: int,
    required: frozenset[str] = REQUIRED_CAPABILITIES,
) -> Admit | Same | WaitUntil | Reject:
    """Whether a process may become the next incarnation of its node, outside the logical topology at first.

    `held` is what the grantor knows of the node's lease, `first_bound_ns` the bound that this attempt was first asked
    to wait for. If that has moved by more than `alive_after_ns` since, a living process renews it. Everything is
    validated before anything changes (R17).
    """
    known = sorted(nodes, key=lambda one: one.id)
    node = next((one for one in known if one.id == request.node), None)
    if cluster.origins:
        required |= {GENERATIONS}
    rejected = _invalid(request, cluster, node, known, required) or _bad_history(request, cluster, history)
    if rejected is not None or node is None:
        return rejected or rejections.unknown_id(request.node)
    session_hash = hash_secret(request.session)
    if node.nonce == request.nonce and node.session_hash == session_hash:
        return Same(incarnation=node.incarnation)
    # Late copies of an attempt raise the incarnation again. But a process that has entered had its incarnation in its
    # directory: whoever asks with an older one has a copy of it, from when the attempt was not finished.
    has_entered = node.session_hash is not None and (node.member or node.left)
    own_attempt = node.nonce is not None and node.nonce in {request.nonce, request.finished} and not has_entered
    if cluster.origins and node.nonce is None and request.previous == 0:
        own_attempt = True  # nobody has joined as this node yet, whatever its number jumped to
    if not own_attempt and node.incarnation != request.previous:
        if is_older(cluster, request.generation):
            return rejections.beyond_recovery(
                f"the last start of this directory, incarnation {request.previous} of node {node.id}, is not the one"
                " that the cluster knows: the cluster was recovered from an older state, or this directory is a copy"
            )
        return Reject(
            code=ErrorCode.STALE_COPY,
            text=f"node {node.id} has reached incarnation {node.incarnation}, this directory says"
            f" {request.previous}: it is a copy, or was restored from a backup",
            hint=f"start the newest directory of node {node.id}; to run this machine as another node, move this"
            " directory away and start with an empty one and another --name",
        )
    if held is not None and held.closed is None and now_ns < held.bound_ns:
        if first_bound_ns is not None and held.bound_ns - first_bound_ns > alive_after_ns:
            return rejections.alive_elsewhere(node, "keeps renewing its lease")
        return WaitUntil(bound_ns=held.bound_ns)
    admitted = msgspec.structs.replace(
        node,
        name=request.name,
        address=request.address,
        incarnation=Incarnation(node.incarnation + 1),
        nonce=request.nonce,
        session_hash=session_hash,
        end_hash=end_hash(end_proof(request.token, request.session)),
        member=False,
        left=False,
        capabilities=tuple(sorted(set(request.capabilities))),
        rack=request.rack,
    )
    return Admit(node=admitted, previous=node)


def closing(held: HeldLease | None) -> bool:
    """Whether an admitted join has an open incarnation to close first."""
    return held is not None and held.closed is None


class Adopt(msgspec.Struct, frozen=True, kw_only=True):
    """No process of this node lives: its token admits a process as the next incarnation."""

    node: NodeRecord


class AdoptAsked(msgspec.Struct, frozen=True, kw_only=True):
    """When this leader was first asked for a node's incarnation, and how long its lease could run then."""

    since_ns: int
    bound_ns: int


def decide_adopt(
    request: AskIncarnation,
    *,
    cluster: ClusterRecord,
    node: NodeRecord | None,
    held: HeldLease | None,
    connected: bool,
    first: AdoptAsked | None,
    alive_after_ns: int,
    now_ns: int,
) -> Adopt | WaitUntil | Reject:
    """Whether an older copy of a node's directory may go on as the node: only with its token, and only if no process of
    the node lives. So its lease and its session must have ended: a process that recovers or is fenced has only a
    session. The copy waits for `alive_after_ns` at most, then it is refused.
    """
    if request.cluster_id != cluster.cluster_id:
        return rejections.other_cluster(request.cluster_id, cluster)
    if node is None:
        return rejections.unknown_id(request.node)
    if hash_secret(request.token) != node.token_hash:
        return rejections.wrong_token(node)
    if node.removed:
        return rejections.removed_node(node)
    leased = held is not None and held.closed is None and now_ns < held.bound_ns
    if not leased and not connected:
        return Adopt(node=node)
    bound_ns = held.bound_ns if held is not None and leased else now_ns
    if first is not None and leased and bound_ns - first.bound_ns > alive_after_ns:
        return rejections.alive_elsewhere(node, "keeps renewing its lease")
    if first is not None and connected and now_ns - first.since_ns > alive_after_ns:
        return rejections.alive_elsewhere(node, "has its connection open")
    return WaitUntil(bound_ns=bound_ns)


def _invalid(
    request: Join,
    cluster: ClusterRecord,
    node: NodeRecord | None,
    known: list[NodeRecord],
    required: frozenset[str],
) -> Reject | None:
    if request.cluster_id != cluster.cluster_id:
        return rejections.other_cluster(request.cluster_id, cluster)
    if spoken_protocol(request) is None:
        text = (
            f"this program supports the protocol versions {request.protocol_min} to {request.protocol}, this"
            f" coordinator {PROTOCOL_VERSION_MIN} to {PROTOCOL_VERSION}"
        )
        return Reject(code=ErrorCode.OTHER_PROTOCOL, text=text, hint="run versions of leasehold that follow each other")
    rejected = _bad_capabilities(request, required)
    if rejected is not None:
        return rejected
    if node is None:
        return rejections.unknown_id(request.node)
    if hash_secret(request.token) != node.token_hash:
        return rejections.wrong_token(node)
    if node.removed:
        return rejections.removed_node(node)
    if not (is_hex_128(request.nonce) and is_hex_128(request.session)):
        return Reject(
            code=ErrorCode.BAD_NONCE, text="nonce and session must be 128 bits in hex", hint="upgrade the node"
        )
    if request.rack and NODE_NAME.fullmatch(request.rack) is None:
        text = f"{request.rack[:80]!r} is not the name of a rack"
        return Reject(code=ErrorCode.BAD_NAME, text=text, hint="use letters, digits, '.', '_' and '-', at most 63")
    return _bad_attributes(request, node, known)


def _bad_capabilities(request: Join, required: frozenset[str]) -> Reject | None:
    given = request.capabilities
    if len(given) > CAPABILITIES_MAX or not all(CAPABILITY.fullmatch(one) for one in given):
        text = f"capabilities are at most {CAPABILITIES_MAX} words of lower-case letters, digits and '-'"
        return Reject(code=ErrorCode.BAD_CAPABILITIES, text=text, hint="upgrade the node")
    lacking = sorted(required.difference(given))
    if lacking:
        text = f"this program lacks capabilities that the cluster needs: {', '.join(lacking)}"
        return Reject(
            code=ErrorCode.LACKS_CAPABILITY, text=text, hint="run a newer version of leasehold on this machine"
        )
    return None


def _bad_history(request: Join, cluster: ClusterRecord, history: JoinerHistory) -> Reject | None:
    if request.generation > cluster.generation:
        text = f"this directory follows generation {request.generation}, the cluster is at {cluster.generation}"
        return Reject(code=ErrorCode.AHEAD_OF_CLUSTER, text=text, hint=RESTORE)
    if is_beyond(cluster, request.generation, request.applied, request.lineage):
        end = end_of(cluster, request.generation)
        known = (
            "knows nothing of that generation"
            if end is None
            else f"keeps that generation up to revision {end.revision}"
        )
        return rejections.beyond_recovery(
            f"this directory has applied revision {request.applied} of generation {request.generation}; the cluster"
            f" was recovered from an older state, continues as generation {cluster.generation}, and {known}"
        )
    expected = history.lineage_at_applied
    if request.applied > history.latest:
        code = ErrorCode.AHEAD_OF_CLUSTER
        text = f"this directory has applied revision {request.applied}, the cluster is only at {history.latest}"
    elif expected is not None and expected != request.lineage:
        code = ErrorCode.DIVERGED
        text = f"this directory has another history than the cluster at revision {request.applied}"
    else:
        return None
    if is_older(cluster, request.generation):  # nothing newer will come
        return rejections.beyond_recovery(text)
    return Reject(code=code, text=text, hint=RESTORE)


def _bad_attributes(request: Allocate | Join, own: NodeRecord | None, known: Iterable[NodeRecord]) -> Reject | None:
    name = request.name
    if name.isascii() and name.isdigit() and (own is None or own.name != name):
        # People name a node by either, to remove it for good (`core.membership.removal.find_node`).
        text = f"{name[:80]!r} is not a node name: it could be the number of another node"
        return Reject(code=ErrorCode.BAD_NAME, text=text, hint="choose a --name that has a letter")
    if NODE_NAME.fullmatch(name) is None:
        text = f"{name[:80]!r} is not a node name"
        return Reject(code=ErrorCode.BAD_NAME, text=text, hint="use letters, digits, '.', '_' and '-', at most 63")
    if NODE_ADDRESS.fullmatch(request.address) is None:
        text = f"{request.address[:80]!r} is not an address"
        return Reject(code=ErrorCode.BAD_ADDRESS, text=text, hint="give an address as host:port")
    for node in known:
        if node.name == name and node is not own and not node.removed:
            text = f"the name {name!r} belongs to node {node.id} at {node.address}"
            return Reject(code=ErrorCode.NAME_TAKEN, text=text, hint="choose another name with --name")
    return None
