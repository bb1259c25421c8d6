"""Codes that processes send each other; a person sees them in logs, or after a defect."""

from leasehold.error_codes import ErrorCode
from leasehold.error_guide.entry import REFUSED, UNKNOWN, GuideEntry

UPGRADE = "run the same version of Leasehold on all machines"

PEERS = {
    ErrorCode.BAD_ACTION: GuideEntry("a node was asked for a Flight action that it does not have", UPGRADE),
    ErrorCode.BAD_ANSWER: GuideEntry("a node confirmed other rows than it was sent", "write the rows again"),
    ErrorCode.BAD_BATCH: GuideEntry("a batch of rows arrived out of order", "run the query again"),
    ErrorCode.BAD_CALL: GuideEntry("a node was asked for a Flight call that it does not serve", "ask a coordinator"),
    ErrorCode.BAD_CAPABILITIES: GuideEntry("the list of capabilities of a node is not valid", UPGRADE),
    ErrorCode.BAD_CLUSTER_ID: GuideEntry("a cluster id is not 128 bits in hexadecimal digits", "draw a random id"),
    ErrorCode.BAD_KEY: GuideEntry("a key of the meta storage is empty", UPGRADE),
    ErrorCode.BAD_LIMIT: GuideEntry("a page of the meta storage was requested with less than one key", UPGRADE),
    ErrorCode.BAD_MESSAGE: GuideEntry("a message is not valid, or not expected here", UPGRADE),
    ErrorCode.BAD_NONCE: GuideEntry(
        "the nonce or the session of a node is not 128 bits in hexadecimal digits", UPGRADE
    ),
    ErrorCode.BAD_SEAL: GuideEntry(
        "a commit claims a segment with a seal that is not the node's",
        "write the rows again; upgrade the node if it does not seal segments",
    ),
    ErrorCode.BAD_SEGMENT: GuideEntry("a write or rewrite names segments that it can't name", UPGRADE),
    ErrorCode.BAD_SEGMENT_NAME: GuideEntry("the name of a segment can't be the name of a file", UPGRADE),
    ErrorCode.BAD_SEGMENT_RECORD: GuideEntry("the description of a segment is not valid", UPGRADE),
    ErrorCode.BAD_TICKET: GuideEntry("a Flight ticket is not valid", UPGRADE),
    ErrorCode.BAD_TOKEN: GuideEntry("the token of a node is not 128 bits in hexadecimal digits", UPGRADE),
    ErrorCode.BAD_TRANSACTION: GuideEntry("the id or the hash of a write transaction is not valid", UPGRADE),
    ErrorCode.CLOSED: GuideEntry(
        "the vault or the meta storage of the process is closed",
        "start the process again",
        REFUSED + UNKNOWN,
    ),
    ErrorCode.COMPACTED: GuideEntry(
        "a revision is too old to be read",
        "no action is needed: the node takes a snapshot instead",
    ),
    ErrorCode.DUPLICATE_KEY: GuideEntry("a transaction of the meta storage changes a key twice", UPGRADE),
    ErrorCode.FUTURE_REVISION: GuideEntry("a revision does not exist yet", "try again in a moment"),
    ErrorCode.LEADERSHIP_LOST: GuideEntry(
        "the coordinator does not lead any more",
        "ask another coordinator, or try again in a moment",
    ),
    ErrorCode.MESSAGE_TOO_LARGE: GuideEntry("a message is too large", "send less at once"),
    ErrorCode.NOT_ASCENDING: GuideEntry(
        "a revision does not follow the revision that the node has applied",
        "start the node again; if it fails again, run `leasehold node reset`",
    ),
    ErrorCode.NOT_FETCHED: GuideEntry(
        "no replica gave the node a segment that it lacks",
        "check with SHOW NODES which nodes are up; the node tries again",
    ),
}
