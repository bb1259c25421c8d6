"""What a node keeps of its own identity."""

from typing import TypeAlias

from leasehold.core.words.records.base import Record
from leasehold.ids import ClusterId, Incarnation, NodeId, Nonce, Token


class Claiming(Record, frozen=True, kw_only=True, tag="claiming/1"):
    """A node that asks for an id; durable before it asks."""

    token: Token


class Allocated(Record, frozen=True, kw_only=True, tag="allocated/1"):
    """A node that owns an id. `incarnation` is its newest known one, 0 before the first join; `nonce` named the
    attempt that led to it."""

    token: Token
    node: NodeId
    cluster_id: ClusterId
    incarnation: Incarnation
    nonce: Nonce | None = None
    unverified: bool = False
    """The directory was let in with a history that nobody could compare, and its segments have not all been verified
    since."""


class Joining(Record, frozen=True, kw_only=True, tag="joining/1"):
    """A node in the middle of a join; an unfinished one is retried with its own nonce. `finished` is the nonce of the
    attempt that led to `previous`."""

    token: Token
    node: NodeId
    cluster_id: ClusterId
    previous: Incarnation
    nonce: Nonce
    finished: Nonce | None = None
    unverified: bool = False


IdentityRecord: TypeAlias = Claiming | Allocated | Joining
