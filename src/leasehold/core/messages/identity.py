"""Identity and admission (DESIGN section 5)."""

from leasehold.core.messages.base import Base
from leasehold.ids import ClusterId, Generation, Incarnation, LineageHash, NodeId, Nonce, Revision, Session, Term, Token


class WhoAreYou(Base, frozen=True, kw_only=True, tag="who-are-you/1"):
    """Asks a coordinator which cluster it serves."""


class ClusterFacts(Base, frozen=True, kw_only=True, tag="cluster-facts/1"):
    """What a coordinator serves; `leader` says whether it leads."""

    cluster_id: ClusterId
    generation: Generation
    term: Term
    leader: bool


class Initialise(Base, frozen=True, kw_only=True, tag="initialise/1"):
    """Gives a new meta storage its cluster id, once; a second one is refused."""

    cluster_id: ClusterId


class Allocate(Base, frozen=True, kw_only=True, tag="allocate/1"):
    """Asks for an id; the token makes it idempotent."""

    cluster_id: ClusterId
    token: Token
    name: str
    address: str


class AllocateAnswer(Base, frozen=True, kw_only=True, tag="allocate-answer/1"):
    """The id that belongs to the token for ever."""

    node: NodeId


class Join(Base, frozen=True, kw_only=True, tag="join/1"):
    """Asks to be let in as the next incarnation. `finished` is the nonce of the attempt that led to `previous`."""

    cluster_id: ClusterId
    generation: Generation
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


class JoinAnswer(Base, frozen=True, kw_only=True, tag="join-answer/1"):
    """Admitted: write the incarnation durably before anything is sent under it."""

    incarnation: Incarnation


class JoinWait(Base, frozen=True, kw_only=True, tag="join-wait/1"):
    """The lease of the previous incarnation has not ended; ask again, same nonce, after this long."""

    wait_ns: int
