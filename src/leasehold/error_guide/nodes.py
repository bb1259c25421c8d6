"""Codes of nodes that join, recover, are fenced or leave."""

from leasehold.error_codes import ErrorCode
from leasehold.error_guide.entry import USAGE, GuideEntry

NODES = {
    ErrorCode.AHEAD_OF_CLUSTER: GuideEntry(
        "the node's directory is newer than the meta storage, which was restored from an older backup",
        "restore the newest meta storage; if it is lost, stop the coordinator and run `leasehold recover`",
    ),
    ErrorCode.ALIVE_ELSEWHERE: GuideEntry(
        "another process serves as this node, so one of the two directories is a copy",
        "stop one of the two processes; `leasehold node reset` makes the directory a new node",
    ),
    ErrorCode.BAD_ADDRESS: GuideEntry("the address of a node is not valid", "give an address as host:port"),
    ErrorCode.BAD_SNAPSHOT: GuideEntry(
        "a snapshot of the catalog arrived damaged",
        "check memory, disk and network of this machine and of the leader, then start the node again",
    ),
    ErrorCode.BEYOND_RECOVERY: GuideEntry(
        "the directory holds changes that the recovered cluster does not have",
        "run `leasehold node adopt --dir DIR` to continue with what the cluster has",
    ),
    ErrorCode.CLOCK_SET_BACK: GuideEntry(
        "the clock of the machine is earlier than the start of the cluster's generation",
        "set the clock, then run the command again",
    ),
    ErrorCode.COORDINATOR_UNPROVEN: GuideEntry(
        "the process at the coordinator's address can't prove that it is a coordinator of the cluster",
        "check the address and the cluster key; `ss -ltnp` shows which process listens there",
    ),
    ErrorCode.DIVERGED: GuideEntry(
        "the node's directory has another history than the cluster",
        "restore the directory that belongs to the cluster, or run `leasehold node reset`",
    ),
    ErrorCode.INITIALISED: GuideEntry(
        "the meta storage already belongs to a cluster",
        "use another directory for a second cluster",
    ),
    ErrorCode.LACKS_CAPABILITY: GuideEntry(
        "the version of Leasehold on this machine lacks a capability that the cluster needs",
        "install a newer version of Leasehold on this machine",
    ),
    ErrorCode.LAST_NODE: GuideEntry(
        "the node is the last node of the cluster",
        "start another node first, or remove it with --force",
    ),
    ErrorCode.NAME_TAKEN: GuideEntry(
        "another node of the cluster has this name",
        "choose another --name; `leasehold node remove NAME` frees the name of a node that is gone for good",
    ),
    ErrorCode.NOT_A_MEMBER: GuideEntry(
        "the node could not prove that it has the cluster key",
        "start the node with --cluster-key FILE and the key of this cluster",
    ),
    ErrorCode.NOT_INITIALISED: GuideEntry("the meta storage holds no cluster yet", "run `leasehold init`"),
    ErrorCode.NOT_JOINED: GuideEntry("the node has not joined the cluster", "wait until it has joined, then try again"),
    ErrorCode.NO_CLUSTER_KEY: GuideEntry(
        "the coordinator has no cluster key, so it can't prove that it belongs to the cluster",
        "start the coordinator with --cluster-key FILE",
    ),
    ErrorCode.NO_COORDINATOR: GuideEntry(
        "the node knows no address of a coordinator",
        "give --coordinator HOST:PORT, or --seed HOST:PORT with --cluster-key FILE",
        USAGE,
    ),
    ErrorCode.ONLY_HOLDER: GuideEntry(
        "the node is the only node that holds some rows",
        "start it and wait until other nodes have copies; --force gives these rows up",
    ),
    ErrorCode.OTHER_ADDRESS: GuideEntry(
        "the coordinator does not serve at the address that it was asked to prove",
        "connect to an address that the coordinator listens on or advertises",
    ),
    ErrorCode.OTHER_CLUSTER: GuideEntry(
        "the process belongs to another cluster",
        "check the address; `leasehold node reset` lets a node join another cluster",
    ),
    ErrorCode.OTHER_GENERATION: GuideEntry(
        "the cluster was recovered from an older state, and the process belongs to the state before it",
        "start the node again: it recovers, or its error says what to do",
    ),
    ErrorCode.OTHER_PROTOCOL: GuideEntry(
        "the versions of Leasehold on the two machines are too far apart",
        "install versions that follow each other",
    ),
    ErrorCode.RECOVERING: GuideEntry("the node is still catching up with the cluster", "wait until the node is ACTIVE"),
    ErrorCode.REMOVED: GuideEntry(
        "the node was removed from the cluster",
        "run `leasehold node reset --dir DIR`: the machine joins as a new node",
    ),
    ErrorCode.SEAL_UNKNOWN: GuideEntry(
        "a new leader has not yet heard from a node whose seal the commit needs, so nothing was committed",
        "try again in a moment",
    ),
    ErrorCode.STALE_COPY: GuideEntry(
        "the node's directory is a copy, or was restored from a backup",
        "start the newest directory; if it is lost, run `leasehold node adopt --dir DIR`",
    ),
    ErrorCode.SUPERSEDED: GuideEntry(
        "a newer process serves as this node, so this process ends",
        "look up the process that serves with `leasehold status`",
    ),
    ErrorCode.TOO_FEW_NODES: GuideEntry(
        "the cluster has fewer nodes than a table needs replicas",
        "start more nodes, or set a smaller replication",
    ),
    ErrorCode.TOO_MANY_NODES: GuideEntry(
        "the cluster has as many nodes, or has given out as many node ids, as it can have",
        "remove nodes with `leasehold node remove`, or start a second cluster",
    ),
    ErrorCode.UNKNOWN_NODE: GuideEntry(
        "the cluster does not know the id of the node",
        "restore the newest meta storage, or run `leasehold node reset`",
    ),
    ErrorCode.WRONG_TOKEN: GuideEntry(
        "the token of the directory does not belong to the node",
        "start the node from its own directory, or run `leasehold node reset`",
    ),
}
