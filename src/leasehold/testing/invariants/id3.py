"""INV-ID-3: a crash anywhere in registration or join leads back to the same id.

A directory's durable identity only moves forward: nothing, CLAIMING, ALLOCATED, JOINING, ALLOCATED with a higher
incarnation, and so on, whatever crashes; beside that it may forget that its files are still to be verified. Once the
store has given an id to its token, the directory holds that token and, if an id, that one; where directories are
followed at all, one held the token durably before. (A directory put in the place of another begins anew.) An
incarnation is durable before its process goes on under it, and so before any message of it is sent.
"""

from typing import Final

import msgspec

from leasehold.core.membership.identity import hash_secret
from leasehold.core.words import keys
from leasehold.core.words.records import Allocated, Claiming, IdentityRecord, Joining, NodeRecord
from leasehold.ids import NodeId
from leasehold.testing.history import Committed
from leasehold.testing.news import Spoke, VaultChanged
from leasehold.testing.oracle import Oracle

HEARS: Final = frozenset({Committed, Spoke, VaultChanged})


class Directories:
    """The last durable identity of each directory, and the tokens that have an id."""

    def __init__(self) -> None:
        self.held: dict[int, IdentityRecord | None] = {}
        self.given: dict[bytes, NodeId] = {}
        self.claimed: set[bytes] = set()
        """Hashes of the tokens that a directory has durably held."""


def check(oracle: Oracle) -> str | None:
    known = oracle.recall(Directories)
    for changed in oracle.of(VaultChanged):
        identity = changed.durable.identity
        if identity is not None and identity is not known.held.get(changed.directory):
            known.claimed.add(hash_secret(identity.token))
    for news in oracle.of(Committed):
        for key, record in news.wrote.items():
            if key.startswith(keys.NODES) and isinstance(record, NodeRecord):
                if known.claimed and record.token_hash not in known.claimed:
                    return f"node {record.id} was given to a token that no directory holds durably"
                known.given.setdefault(record.token_hash, record.id)
    for changed in oracle.of(VaultChanged):
        before, after = known.held.get(changed.directory), changed.durable.identity
        if before is not after and before != after:
            wrong = _step(known, before, after)
            if wrong is not None:
                return f"the vault of {changed.host} {wrong}"
        known.held[changed.directory] = after
    for spoke in oracle.of(Spoke):
        identity = spoke.identity
        durable = identity.incarnation if isinstance(identity, Allocated) else None
        if durable != spoke.incarnation or not isinstance(identity, Allocated) or identity.node != spoke.node:
            return (
                f"{spoke.host} goes on as incarnation {spoke.incarnation} of node {spoke.node}, durable is {identity}"
            )
    return None


def _step(known: Directories, before: IdentityRecord | None, after: IdentityRecord | None) -> str | None:
    given = None if before is None else known.given.get(hash_secret(before.token))
    if given is not None and (after is None or after.token != _token(before)):
        return f"let go of the token of node {given}"
    if isinstance(after, Allocated | Joining):
        owned = known.given.get(hash_secret(after.token))
        if owned is not None and owned != after.node:
            return f"holds node {after.node}, its token was given node {owned}"
    if not _forward(before, after):
        return f"went from {_brief(before)} to {_brief(after)}"
    return None


def _token(record: IdentityRecord | None) -> str | None:
    return None if record is None else record.token


def _forward(before: IdentityRecord | None, after: IdentityRecord | None) -> bool:
    match before, after:
        case None, _:
            return True
        case Claiming(), Claiming():
            return True  # only an id binds a token: before that, a rejected one may be drawn anew
        case Claiming(), Allocated(incarnation=incarnation):
            return incarnation == 0
        case Allocated(), Allocated():
            # All files were verified: nothing else of who it is has changed.
            return after == msgspec.structs.replace(before, unverified=False)
        case Allocated(node=old, incarnation=incarnation), Joining(node=new, previous=previous):
            return old == new and incarnation == previous
        case Joining(node=old, previous=previous), Allocated(node=new, incarnation=incarnation):
            return old == new and incarnation > previous
        case _:
            return False


def _brief(record: IdentityRecord | None) -> str:
    match record:
        case None:
            return "nothing"
        case Claiming():
            return "CLAIMING"
        case Allocated(node=node, incarnation=incarnation):
            return f"ALLOCATED(node {node}, incarnation {incarnation})"
        case Joining(node=node, previous=previous):
            return f"JOINING(node {node}, previous {previous})"
