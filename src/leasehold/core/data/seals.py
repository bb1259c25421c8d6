"""Seals: a node's signature under its description of a segment, which a client carries from the node to the leader.

So that a client can't make up or change an answer of a node, each holder seals it under a key that clients do not know.
A seal is an HMAC-SHA256 over the segment as the commit will describe it, the holder with its incarnation, and the
number of the write transaction: the id of a forgotten transaction may be used again, its number never.

| the key                     | is known                                                                              |
| made from token and session | to the node, from its start to its end                                                |
| sent in `OpenSession`       | to each leader that the node follows, in memory, until the node joins anew            |
| of a node that this leader has not heard yet | to nobody: a commit that needs that seal is refused with SEAL_UNKNOWN |

A node sends its session to other nodes, but never this key.
"""

import hmac
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import SegmentHolder, StagedSegment
from leasehold.ids import Incarnation, NodeId, Session, Token

_PURPOSE: Final = b"leasehold/segment-seal/1:"


def seal_key(token: Token, session: Session) -> bytes:
    """The key of one process; it does not follow from its session alone."""
    return hmac.digest(token.encode(), _PURPOSE + session.encode(), "sha256")


def sealed(holder: SegmentHolder, key: bytes, segment: StagedSegment, order: int) -> SegmentHolder:
    """The holder with its seal under `segment`, of the write transaction with the number `order`."""
    bare = SegmentHolder(node=holder.node, incarnation=holder.incarnation)
    said = encode(msgspec.structs.replace(segment, holders=(bare,)))
    return msgspec.structs.replace(bare, seal=hmac.digest(key, b"%d:%b" % (order, said), "sha256"))


def is_sealed(holder: SegmentHolder, key: bytes, segment: StagedSegment, order: int) -> bool:
    """Whether that node has said just this of that segment, in that write transaction."""
    return hmac.compare_digest(holder.seal, sealed(holder, key, segment, order).seal)


class SealKeys:
    """The keys that nodes sent to one leader; a key stays known while its node is away."""

    def __init__(self) -> None:
        self._keys: dict[NodeId, tuple[Incarnation, bytes]] = {}

    def learn(self, node: NodeId, incarnation: Incarnation, key: bytes) -> None:
        """The newest process of a node has opened its session."""
        self._keys[node] = (incarnation, key)

    def of_living(self, live: Mapping[NodeId, Incarnation]) -> dict[NodeId, bytes]:
        return {node: key for node, (incarnation, key) in self._keys.items() if live.get(node) == incarnation}

    def unheard(self, segments: Iterable[StagedSegment], live: Mapping[NodeId, Incarnation]) -> frozenset[NodeId]:
        """The living holders of these segments that have brought no key yet."""
        named = {(one.node, one.incarnation) for segment in segments for one in segment.holders}
        return frozenset(node for node, incarnation in named if live.get(node) == incarnation) - self._keys.keys()
