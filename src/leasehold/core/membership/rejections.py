"""Why a process is not let in, in the words that its operator reads."""

import msgspec

from leasehold.core.words.records import ClusterRecord, NodeRecord
from leasehold.error_codes import ErrorCode
from leasehold.ids import NodeId
from leasehold.limits.membership import UNJOINED_KEPT_NS
from leasehold.limits.units import SECOND_NS


class Reject(msgspec.Struct, frozen=True, kw_only=True):
    """A definite no; the node ends and shows it."""

    code: ErrorCode
    text: str
    hint: str


def beyond_recovery(text: str) -> Reject:
    """What it holds can not be brought to where the cluster is."""
    hint = "`leasehold node adopt --dir DIR` makes it continue with what the cluster knows"
    return Reject(code=ErrorCode.BEYOND_RECOVERY, text=text, hint=hint)


def other_cluster(asked: str, cluster: ClusterRecord) -> Reject:
    return Reject(
        code=ErrorCode.OTHER_CLUSTER,
        text=f"this is cluster {cluster.cluster_id}, the request is for {asked[:64]}",
        hint="check the coordinator's address; a directory belongs to the cluster it was first used with",
    )


def removed_node(node: NodeRecord) -> Reject:
    text = f"node {node.id} ({node.name}) was removed from the cluster"
    if node.incarnation == 0:
        minutes = UNJOINED_KEPT_NS // (60 * SECOND_NS)
        text += f": an id is released if its node has not joined within {minutes} minutes, and this one never joined"
    return Reject(
        code=ErrorCode.REMOVED,
        text=text,
        hint="move this directory away and start with an empty one: the node gets a new id",
    )


def unknown_id(node: NodeId) -> Reject:
    return Reject(
        code=ErrorCode.UNKNOWN_NODE,
        text=f"no node has the id {node} here",
        hint="the meta storage may have been restored from an older backup",
    )


def wrong_token(node: NodeRecord) -> Reject:
    text = f"the token does not belong to node {node.id}"
    return Reject(code=ErrorCode.WRONG_TOKEN, text=text, hint="start this node from its own directory")


def alive_elsewhere(node: NodeRecord, how: str) -> Reject:
    return Reject(
        code=ErrorCode.ALIVE_ELSEWHERE,
        text=f"node {node.id} ({node.name}) is alive at {node.address} and {how}: this directory is a copy of it",
        hint="stop one of the two processes; to run this machine as another node, start with an empty directory and"
        " another --name",
    )
