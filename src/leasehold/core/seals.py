"""Seals: a node's signature under what it says of a segment, which a client carries from the node to the leader.

A client hands the answers of nodes to the leader when it commits. So that a client can't make up an answer, or change
one, each holder of a segment seals all that is said of it, under a key that the node and the leader know and clients
do not. A seal is an HMAC-SHA256 and covers the segment as the commit will describe it (id, table, bucket, schema
version, rows, size, hash, statistics), the holder with its incarnation, and the number of the write transaction: an id
of a transaction that was forgotten may be used once more, its number never.

| the key                     | is known                                                                              |
| made from token and session | to the node, from its start to its end                                                |
| sent in `OpenSession`       | to each leader that the node follows, in memory, until the node joins anew            |
| of a node that this leader has not heard yet | to nobody: a commit that needs that seal is refused with SEAL_UNKNOWN |

A node does not send the key to other nodes, as it does its session: who listens where a node was can't seal.
"""

import hmac
from typing import Final

import msgspec

from leasehold.core.codec import encode
from leasehold.core.messages import Holder, StagedSegment
from leasehold.ids import Session, Token

_PURPOSE: Final = b"leasehold/segment-seal/1:"


def seal_key(token: Token, session: Session) -> bytes:
    """The key of one process: another one for each start, and not to be told from its session alone."""
    return hmac.digest(token.encode(), _PURPOSE + session.encode(), "sha256")


def sealed(holder: Holder, key: bytes, segment: StagedSegment, order: int) -> Holder:
    """The holder with its seal under `segment`, of the write transaction with the number `order`."""
    bare = Holder(node=holder.node, incarnation=holder.incarnation)
    said = encode(msgspec.structs.replace(segment, holders=(bare,)))
    return msgspec.structs.replace(bare, seal=hmac.digest(key, b"%d:%b" % (order, said), "sha256"))


def is_sealed(holder: Holder, key: bytes, segment: StagedSegment, order: int) -> bool:
    """Whether that node has said just this of that segment, in that write transaction."""
    return hmac.compare_digest(holder.seal, sealed(holder, key, segment, order).seal)
