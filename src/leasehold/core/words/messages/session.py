"""A node's session stream."""

from typing import Annotated

from msgspec import Meta

from leasehold.core.words.messages.base import BaseMessage
from leasehold.core.words.operations import RevisionChanges
from leasehold.ids import (
    FIRST_GENERATION,
    BucketNumber,
    ClusterId,
    Generation,
    Incarnation,
    LineageHash,
    NodeId,
    ObjectId,
    RequestNumber,
    Revision,
    SegmentId,
    Sequence,
    Session,
    Term,
)
from leasehold.limits.messages import ASKED_MAX


class OpenSession(BaseMessage, frozen=True, kw_only=True, tag="open-session/1"):
    """First message of a stream: the node's process, and where its watch begins."""

    cluster_id: ClusterId
    node: NodeId
    incarnation: Incarnation
    session: Session
    watch_from: Revision
    generation: Generation = FIRST_GENERATION
    """In which what lies before `watch_from` was applied; 0 where nothing was."""
    seal_key: bytes = b""
    """By which the leader checks what this process has sealed (`core.data.seals`); a secret."""


class SessionOpened(BaseMessage, frozen=True, kw_only=True, tag="session-opened/1"):
    """The answer to it: the leader's term, how often to renew, and LM, read after the watch began."""

    term: Term
    renew_every_ns: int
    latest: Revision
    minimum: Revision = Revision(1)
    """MM, as of `latest`."""
    live_keys: int = 0
    """How many keys a snapshot would have."""
    catch_up_difference: int = 100
    member: bool = False
    """Whether this incarnation is in the logical topology still."""


class NodeMessage(BaseMessage, frozen=True, kw_only=True):
    """What a node says on its session."""

    node: NodeId
    incarnation: Incarnation
    session: Session


class Renewal(NodeMessage, frozen=True, kw_only=True, tag="renewal/1"):
    """The holder asks for its lease; `applied` is published in its view already."""

    request: RequestNumber
    applied: Revision
    lineage: LineageHash
    disk_full: bool = False
    """The node's disk takes no writes now; for people, nothing is decided by it."""
    disk_failing: bool = False
    """This process has met another error of the disk, at a read too: the node's buckets get other replicas."""


class Grant(BaseMessage, frozen=True, kw_only=True, tag="grant/1"):
    """Permission to serve for `duration_ns` from the local instant at which `request` was stamped."""

    request: RequestNumber
    term: Term
    sequence: Sequence
    duration_ns: int
    floor: Revision


class RenewalRefused(BaseMessage, frozen=True, kw_only=True, tag="renewal-refused/1"):
    """No grant. The codes in `FINAL` (`node/agent/remedies.py`) end the process that asked; the others may pass."""

    request: RequestNumber
    code: str
    text: str


class Watched(BaseMessage, frozen=True, kw_only=True, tag="watched/1"):
    """A whole revision of the watched range."""

    batch: RevisionChanges


class WatchFailed(BaseMessage, frozen=True, kw_only=True, tag="watch-failed/1"):
    """The watch can't go on: the revision asked for is compacted or lies in the future."""

    code: str
    minimum: Revision


class Surrender(NodeMessage, frozen=True, kw_only=True, tag="surrender/1"):
    """The last message of an incarnation: it serves nothing any more."""


class SurrenderAccepted(BaseMessage, frozen=True, kw_only=True, tag="surrender-accepted/1"):
    """The incarnation is closed."""


class ReportProcessEnd(BaseMessage, frozen=True, kw_only=True, tag="report-process-end/1"):
    """The supervisor of a node's process tells the leader that every thread of this process has ended."""

    cluster_id: ClusterId
    node: NodeId
    incarnation: Incarnation
    proof: bytes
    """Of just this process (`core.lease.process_end`)."""
    disk_failing: bool = False
    """As in `Renewal`; a process whose vault meets an error of the disk ends at once."""


class ProcessEndReported(BaseMessage, frozen=True, kw_only=True, tag="process-end-reported/1"):
    """The incarnation is closed."""


class SegmentsHeld(NodeMessage, frozen=True, kw_only=True, tag="segments-held/1"):
    """A node has fetched and verified these segments of a bucket, durably."""

    table: ObjectId
    bucket: BucketNumber
    segments: Annotated[tuple[SegmentId, ...], Meta(max_length=ASKED_MAX)]


class TableCleaned(NodeMessage, frozen=True, kw_only=True, tag="table-cleaned/1"):
    """A node holds no file of a dropped table any more."""

    table: ObjectId


class RecoveryFinished(NodeMessage, frozen=True, kw_only=True, tag="recovery-finished/1"):
    """A node's vault holds `applied`, at most `catch_up_difference` behind the newest revision that it knows."""

    applied: Revision


class RecoveryAccepted(BaseMessage, frozen=True, kw_only=True, tag="recovery-accepted/1"):
    """The node is in the logical topology; it gets a lease once it has applied `required`."""

    required: Revision


class RecoveryBehind(BaseMessage, frozen=True, kw_only=True, tag="recovery-behind/1"):
    """Too far behind `latest` still: replay on, and say so again."""

    latest: Revision
    catch_up_difference: int


class RecoveryProgress(NodeMessage, frozen=True, kw_only=True, tag="recovery-progress/1"):
    """How far a node's recovery is, for people. Counts are of this process; `left_ns` is a guess, None without one."""

    case: str
    """a, b or c, as docs/recovery.md names them."""
    why: str
    applied: Revision
    target: Revision
    keys: int = 0
    """Taken of a snapshot so far."""
    keys_total: int = 0
    segments_kept: int = 0
    segments_fetched: int = 0
    segments_missing: int = 0
    segments_evicted: int = 0
    left_ns: int | None = None


class SegmentsMissing(NodeMessage, frozen=True, kw_only=True, tag="segments-missing/1"):
    """The manifest names this node as a holder of these segments of a bucket, and it does not hold them (I7)."""

    table: ObjectId
    bucket: BucketNumber
    segments: Annotated[tuple[SegmentId, ...], Meta(max_length=ASKED_MAX)]
