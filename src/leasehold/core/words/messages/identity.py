"""Identity and admission (docs/design.md, "Identity")."""

from typing import Annotated

from msgspec import Meta

from leasehold.core.words.messages.base import BaseMessage
from leasehold.core.words.operations import Change
from leasehold.ids import ClusterId, Generation, Incarnation, LineageHash, NodeId, Nonce, Revision, Session, Term, Token
from leasehold.limits.messages import ASKED_MAX


class WhoAreYou(BaseMessage, frozen=True, kw_only=True, tag="who-are-you/1"):
    """Asks a coordinator which cluster it serves."""


class ClusterFacts(BaseMessage, frozen=True, kw_only=True, tag="cluster-facts/1"):
    """What a coordinator serves; `leader` says whether it leads."""

    cluster_id: ClusterId
    generation: Generation
    term: Term
    leader: bool
    coordinators: tuple[str, ...] = ()
    """The addresses of all coordinators, where several share a meta storage."""
    running_ns: int = 0
    """For how long its process has run, by the clock of its leases: `leasehold doctor` compares how fast clocks run."""


class ChallengeCoordinator(BaseMessage, frozen=True, kw_only=True, tag="challenge-coordinator/1"):
    """Asks a coordinator to prove that it is of this cluster and is meant to be reached at `address`."""

    cluster_id: ClusterId
    address: str
    nonce: Nonce


class CoordinatorProof(BaseMessage, frozen=True, kw_only=True, tag="coordinator-proof/1"):
    """The answer to a challenge: its HMAC (`core.membership.proofs`)."""

    proof: bytes


class Initialise(BaseMessage, frozen=True, kw_only=True, tag="initialise/1"):
    """Gives a new meta storage its cluster id, once; a second one is refused."""

    cluster_id: ClusterId


class Allocate(BaseMessage, frozen=True, kw_only=True, tag="allocate/1"):
    """Asks for an id; the token makes it idempotent."""

    cluster_id: ClusterId
    token: Token
    name: str
    address: str
    proof: bytes | None = None
    """That the sender holds the cluster key (`core.membership.proofs`); so in each request of a process that has no
    session."""


class AllocateAnswer(BaseMessage, frozen=True, kw_only=True, tag="allocate-answer/1"):
    """The id that belongs to the token for ever."""

    node: NodeId


class Join(BaseMessage, frozen=True, kw_only=True, tag="join/1"):
    """Asks to be let in as the next incarnation. `finished` is the nonce of the attempt that led to `previous`."""

    cluster_id: ClusterId
    generation: Generation
    """In which `applied` was applied; 0 where nothing was."""
    token: Token
    node: NodeId
    name: str
    address: str
    previous: Incarnation
    nonce: Nonce
    session: Session
    protocol: int
    applied: Revision
    lineage: LineageHash
    finished: Nonce | None = None
    protocol_min: int = 1
    """The oldest version that this program speaks; `protocol` is the newest."""
    capabilities: Annotated[tuple[str, ...], Meta(max_length=ASKED_MAX)] = ()
    proof: bytes | None = None
    rack: str = ""


class JoinAnswer(BaseMessage, frozen=True, kw_only=True, tag="join-answer/1"):
    """Admitted: write the incarnation durably before anything is sent under it."""

    incarnation: Incarnation
    history_known: bool = True
    """Whether the hash at the applied revision could be compared. If not, the directory is trusted in nothing: a
    snapshot replaces its projection, and every segment is verified."""
    protocol: int = 1
    """The version to speak."""


class JoinWait(BaseMessage, frozen=True, kw_only=True, tag="join-wait/1"):
    """The lease of the previous incarnation has not ended; ask again, same nonce, after this long."""

    wait_ns: int


class AskIncarnation(BaseMessage, frozen=True, kw_only=True, tag="ask-incarnation/1"):
    """Asks for a node's newest incarnation with its token, to adopt a directory that is an older copy."""

    cluster_id: ClusterId
    token: Token
    node: NodeId
    proof: bytes | None = None


class NewestIncarnation(BaseMessage, frozen=True, kw_only=True, tag="newest-incarnation/1"):
    """No process of the node lives: a directory that takes this incarnation may join as the next one."""

    incarnation: Incarnation
    name: str


class ReportCoordinator(BaseMessage, frozen=True, kw_only=True, tag="report-coordinator/1"):
    """A coordinator that follows tells the leader, again and again, where it is and how far it has come."""

    cluster_id: ClusterId
    address: str
    name: str
    version: str
    applied: Revision
    member: str = ""
    """The member of the store that it asks first."""
    proof: bytes | None = None


class CoordinatorReported(BaseMessage, frozen=True, kw_only=True, tag="coordinator-reported/1"):
    """The catalog shows this coordinator."""


class AskSnapshot(BaseMessage, frozen=True, kw_only=True, tag="ask-snapshot/1"):
    """Asks for all of the watched range at one revision, in pages; the revisions after it are held meanwhile.

    The answer is a stream: `SnapshotBegin`, pages in key order, `SnapshotEnd`.
    """

    cluster_id: ClusterId
    node: NodeId
    incarnation: Incarnation
    session: Session


class SnapshotBegin(BaseMessage, frozen=True, kw_only=True, tag="snapshot-begin/1"):
    """Which revision it shows, and about how many keys there will be."""

    revision: Revision
    keys: int


class SnapshotPage(BaseMessage, frozen=True, kw_only=True, tag="snapshot-page/1"):
    """The next keys and their values; at most about SNAPSHOT_PAGE_BYTES_MAX."""

    items: tuple[Change, ...]


class SnapshotEnd(BaseMessage, frozen=True, kw_only=True, tag="snapshot-end/1"):
    """The history hash at the revision; how many keys there were, and the XOR of their hashes (`core.words.digest`)."""

    revision: Revision
    lineage: LineageHash
    keys: int
    digest: bytes
