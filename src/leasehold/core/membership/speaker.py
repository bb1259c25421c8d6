"""Who may speak for a node: its newest process, of the generation that the cluster is in."""

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.membership.generations import is_beyond, is_older
from leasehold.core.membership.identity import hash_secret
from leasehold.core.words.messages import AskCompaction, AskSnapshot, EndCompaction, OpenSession
from leasehold.core.words.records import ClusterRecord, NodeRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotLeader, Refused, Superseded
from leasehold.ids import Revision


def check_speaker(speaker: OpenSession | AskSnapshot | AskCompaction | EndCompaction, catalog: Catalog) -> None:
    """Raises unless the newest process of a node speaks; `NotLeader` where this leader can't know of it yet."""
    node = catalog.nodes.get(speaker.node)
    if catalog.cluster is None or speaker.cluster_id != catalog.cluster.cluster_id:
        raise Refused("a session for another cluster", code=ErrorCode.OTHER_CLUSTER, hint="check the address")
    if isinstance(speaker, OpenSession) and _left_behind(speaker, catalog.cluster, node):
        raise Refused(
            f"the cluster was recovered from an older state and continues as generation {catalog.cluster.generation};"
            f" this process is of generation {speaker.generation}",
            code=ErrorCode.OTHER_GENERATION,
            hint="start this node again: it recovers, or its error says what to do",
        )
    if node is None or speaker.incarnation > node.incarnation:
        raise NotLeader(
            f"incarnation {speaker.incarnation} of node {speaker.node} joined under a later leader, if it did",
            hint="the node asks another coordinator",
        )
    if node.removed:
        raise Refused(
            f"node {speaker.node} was removed",
            code=ErrorCode.REMOVED,
            hint="start with an empty directory and another --name",
        )
    if speaker.incarnation < node.incarnation or hash_secret(speaker.session) != node.session_hash:
        raise Superseded(
            f"incarnation {speaker.incarnation} of node {node.id} is not the newest, which is {node.incarnation}",
            hint="only the newest process of a node may speak for it; this process ends",
        )


def _left_behind(speaker: OpenSession, cluster: ClusterRecord, node: NodeRecord | None) -> bool:
    """Whether a process has run on through a recovery of the cluster, and can't follow it."""
    if is_beyond(cluster, speaker.generation, Revision(speaker.watch_from - 1), None):
        return True
    older = is_older(cluster, speaker.generation)
    return older and node is not None and not node.removed and speaker.incarnation < node.incarnation
