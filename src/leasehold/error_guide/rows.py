"""Codes of reading and writing rows."""

from leasehold.error_codes import ErrorCode
from leasehold.error_guide.entry import REFUSED, UNKNOWN, UNREACHABLE, GuideEntry

ROWS = {
    ErrorCode.ABORTED: GuideEntry(
        "the write transaction was aborted, or it expired before its commit",
        "write the rows again",
    ),
    ErrorCode.BAD_SCHEMA: GuideEntry(
        "Spark asks for columns that the table does not have in this form",
        "load the table again and cast its columns afterwards",
    ),
    ErrorCode.BEHIND: GuideEntry(
        "the process has not yet applied a revision that the request has seen",
        "try again in a moment; another replica may answer",
    ),
    ErrorCode.BROKEN_STREAM: GuideEntry(
        "a stream of rows ended too early, or its bytes were damaged on the way",
        "try again; check the network if it happens often",
        REFUSED + UNREACHABLE,
    ),
    ErrorCode.FENCED: GuideEntry(
        "the node can't prove that its view of the cluster is current, so it does not serve",
        "check that a coordinator runs and that the node can reach it; another replica may serve",
    ),
    ErrorCode.FORKED: GuideEntry(
        "the process was forked from a process that had used Arrow Flight",
        "start worker processes with the start method 'spawn'",
    ),
    ErrorCode.INCOMPLETE: GuideEntry("a Spark task did not report what it wrote", "write the rows again"),
    ErrorCode.NOT_ASSIGNED: GuideEntry(
        "the bucket is not assigned to the node that was asked",
        "look up the table again: its buckets may have moved",
    ),
    ErrorCode.NOT_LOST: GuideEntry(
        "the segment to give up is not lost, or was given up before",
        "run `leasehold forget-lost TABLE` again: it first says what is lost",
    ),
    ErrorCode.NOT_WRITTEN: GuideEntry(
        "rows were not written: the cluster could not be reached, or the target file could not be created",
        "write the rows again once the cause in the message is gone",
        REFUSED + UNREACHABLE,
    ),
    ErrorCode.NO_ADDRESS: GuideEntry(
        "the address of a node is not known",
        "check with `leasehold status` that the node has joined",
        UNREACHABLE,
    ),
    ErrorCode.NO_REPLICA: GuideEntry(
        "no replica of some rows can serve them now",
        "start a node that holds these rows: `leasehold status` shows which nodes serve",
        UNREACHABLE,
    ),
    ErrorCode.OVERWRITE: GuideEntry(
        "Spark was asked to replace the rows of a table, which can only be added to",
        'write with mode("append"), or DROP and CREATE the table first',
    ),
    ErrorCode.REWRITE_STALE: GuideEntry("the table changed while it was rewritten", "rewrite the table again"),
    ErrorCode.ROWS_DO_NOT_FIT: GuideEntry(
        "the rows do not fit the columns of the table, or one row is too large",
        "select and cast the columns before the write; keep large values in files of their own",
    ),
    ErrorCode.SCHEMA_CHANGED: GuideEntry(
        "the columns of the table changed meanwhile", "look up the table and try again"
    ),
    ErrorCode.SEGMENT_MISSING: GuideEntry(
        "the node does not hold the segment, or its file is gone",
        "read from another replica; the node fetches what it lacks",
    ),
    ErrorCode.SEGMENT_TOO_LARGE: GuideEntry(
        "a segment would grow over its limit", "write the rows in several segments"
    ),
    ErrorCode.SEGMENT_UNKNOWN: GuideEntry("the segment is not part of the table any more", "run the query again"),
    ErrorCode.SILENT: GuideEntry(
        "a process did not answer in time",
        "check that it runs and can be reached",
        UNREACHABLE,
    ),
    ErrorCode.TIMED_OUT: GuideEntry(
        "the timeout passed before the work was done, or before a statement began",
        "try again with a longer timeout; SHOW PROCEDURES shows which statements run",
        REFUSED + UNREACHABLE,
    ),
    ErrorCode.TOO_FEW_HOLDERS: GuideEntry(
        "fewer live nodes hold the written rows than the setting min_in_sync needs",
        "start the nodes that `leasehold status` shows as away, then write the rows again",
    ),
    ErrorCode.TOO_MANY_SEGMENTS: GuideEntry(
        "the table or the commit has too many segments",
        "run `leasehold rewrite TABLE`, which joins small segments, and write fewer, larger parts",
    ),
    ErrorCode.TRANSACTION_ENDED: GuideEntry(
        "the write transaction has ended and takes no more rows",
        "write the rows again in a new transaction",
    ),
    ErrorCode.TRANSACTION_FORGOTTEN: GuideEntry(
        "the outcome of the write transaction is not recorded any more",
        "count the rows of the table before you write them again",
        UNKNOWN,
    ),
    ErrorCode.TRANSACTION_UNKNOWN: GuideEntry(
        "the write transaction is not open on this table",
        "write the rows again in a new transaction",
    ),
    ErrorCode.TRANSACTION_USED: GuideEntry(
        "the id of the write transaction belongs to another write",
        "draw a new id for each write transaction",
    ),
}
