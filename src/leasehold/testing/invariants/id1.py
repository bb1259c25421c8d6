"""INV-ID-1: an id belongs to one token for ever.

Read off the store's revisions and the vaults. Once a node record has tied an id to the hash of a token, no other
token ever has that id, not after a removal either, and that token never has another id. A node that was
removed, or whose id was given up since it never joined, never comes back; the counter that ids are
drawn from never goes back and lies above every id. A vault that says that it owns an id says so with that token.
"""

from typing import Final

from leasehold.core.membership.identity import hash_secret
from leasehold.core.words import keys
from leasehold.core.words.records import Allocated, CountersRecord, Joining, NodeRecord
from leasehold.ids import NodeId
from leasehold.testing.history import Committed
from leasehold.testing.news import VaultChanged
from leasehold.testing.oracle import Oracle

HEARS: Final = frozenset({Committed, VaultChanged})


class Owners:
    """The owner of each id, ever."""

    def __init__(self) -> None:
        self.token_of: dict[NodeId, bytes] = {}
        self.id_of: dict[bytes, NodeId] = {}
        self.next_node = NodeId(1)
        self.removed: set[NodeId] = set()


def check(oracle: Oracle) -> str | None:
    owners = oracle.recall(Owners)
    for news in oracle.of(Committed):
        for key, record in news.wrote.items():
            wrong = _record(owners, key, record)
            if wrong is not None:
                return f"revision {news.revision}: {wrong}"
        newest = max(owners.token_of, default=NodeId(0))
        if newest >= owners.next_node:
            return f"revision {news.revision}: node {newest} exists, the next id is {owners.next_node}"
    for changed in oracle.of(VaultChanged):
        identity = changed.image.identity
        if isinstance(identity, Allocated | Joining):
            owner = owners.token_of.get(identity.node)
            if owner != hash_secret(identity.token):
                return f"the vault of {changed.host} says that it is node {identity.node}, which has another token"
    return None


def _record(owners: Owners, key: bytes, record: object) -> str | None:
    match record:
        case NodeRecord(id=node, token_hash=token, removed=removed):
            if key != keys.node(node):
                return f"the record of node {node} lies under {key!r}"
            if owners.token_of.setdefault(node, token) != token:
                return f"node {node} was given to a second token"
            if owners.id_of.setdefault(token, node) != node:
                return f"the token of node {owners.id_of[token]} was given node {node} too"
            if removed:
                owners.removed.add(node)
            elif node in owners.removed:
                return f"node {node} is back after its removal"
        case CountersRecord(next_node=following):
            if following < owners.next_node:
                return f"the next id went back from {owners.next_node} to {following}"
            owners.next_node = following
        case _:
            pass
    return None
