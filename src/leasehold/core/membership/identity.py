"""Identity: how a node gets an id once and is let in at every start (docs/design.md, "Identity").

Theory of operation. The node writes a request to its vault **before** it sends it, and an answer before it acts on it.
The leader decides inside one transaction and answers after it. So a crash, or a lost, doubled or late message, leads
back to the same id (INV-ID-3). Only an explicit rejection discards anything.

| the vault holds                | next step                                  | answer -> the vault holds             |
| nothing                        | write CLAIMING with a fresh token          | CLAIMING                              |
| CLAIMING(token)                | `Allocate(token)`                          | ALLOCATED(id, incarnation 0)          |
| ALLOCATED(id, incarnation k)   | write JOINING(previous k, a fresh nonce)   | JOINING                               |
| JOINING(previous k, nonce)     | `Join(previous k, nonce, session)`         | ALLOCATED(id, incarnation > k, nonce) |

A `Join` of a process that died may arrive after that of the next process, and raise the incarnation past it. The next
process is superseded and ends. The start after it names the nonce of the last finished attempt, which shows that the
raise belongs to an attempt of this directory. Once a process has entered the logical topology, its directory knows its
incarnation, and the nonce shows nothing any more.

The token proves the ownership of the id, the nonce names one attempt to join, the session one process. A clone of
a vault shows itself in one of two ways: its previous incarnation is no longer the newest one, or the original still
renews its lease while the clone waits for it to end. The leader's decisions are in `core/membership/admission.py`.
"""

import hashlib
from typing import Final, TypeAlias, assert_never

import msgspec

from leasehold.core.words.messages import Allocate, ClusterFacts, Join
from leasehold.core.words.records import Allocated, Claiming, IdentityRecord, Joining
from leasehold.ids import (
    ApplicationSecret,
    Generation,
    Incarnation,
    LineageHash,
    LoginToken,
    NodeId,
    NodeLogin,
    Nonce,
    Revision,
    Session,
    Token,
    UserToken,
)
from leasehold.limits.messages import PROTOCOL_VERSION, PROTOCOL_VERSION_MIN

CAPABILITIES: Final = ("leap", "reports-missing", "generations")
"""What this program supports, as its join says: it takes a snapshot in one leap, and reports which segments its disk
lacks and in which generation it has applied its revision."""


SECRET_HASH_BYTES: Final = 32


def hash_secret(secret: Token | Session | NodeLogin | UserToken | ApplicationSecret) -> bytes:
    """What records hold of a token, session or application, and of a login as nodes see it: its SHA-256."""
    return hashlib.sha256(secret.encode()).digest()


def node_login(login: LoginToken | None) -> NodeLogin | None:
    """What the holder of a login shows to nodes, which see no more of it. So a node that was taken over can't speak for
    the user to a coordinator."""
    return None if login is None else NodeLogin(hashlib.sha256(b"node login " + login.encode()).hexdigest()[:32])


def hash_login(login: LoginToken) -> bytes:
    """What records hold of a login. Coordinators compute it from the login, nodes from what they are shown."""
    shown = node_login(login)
    assert shown is not None, "there is a login"
    return hash_secret(shown)


class ClusterLearned(msgspec.Struct, frozen=True, kw_only=True):
    """A coordinator has said which cluster it serves."""

    facts: ClusterFacts


class RecordWritten(msgspec.Struct, frozen=True, kw_only=True):
    """The identity record last asked for is durable."""


class IdAllocated(msgspec.Struct, frozen=True, kw_only=True):
    """The leader named the id of our token."""

    node: NodeId


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """The leader let us in. Without a known history every file has to be verified."""

    incarnation: Incarnation
    history_known: bool = True


ClaimEvent: TypeAlias = ClusterLearned | RecordWritten | IdAllocated | Admitted


class WriteRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Make this identity record durable, then say `RecordWritten`."""

    record: IdentityRecord


class SendAllocate(msgspec.Struct, frozen=True, kw_only=True):
    """Ask until there is a definite answer, always with this request."""

    request: Allocate


class SendJoin(msgspec.Struct, frozen=True, kw_only=True):
    """Ask until there is a definite answer, always with this request."""

    request: Join


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """The incarnation is durable: messages may be sent under it."""

    node: NodeId
    incarnation: Incarnation
    history_known: bool = True
    unverified: bool = False
    token: Token
    """Proves which node this is to coordinators; a secret."""


class WrongCluster(msgspec.Struct, frozen=True, kw_only=True):
    """The coordinator serves another cluster than the one this vault belongs to: end."""

    ours: str
    theirs: str


ClaimEffect: TypeAlias = WriteRecord | SendAllocate | SendJoin | Joined | WrongCluster


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """What one start of a process brings along; the vault's token and nonce, if any, are used instead of these."""

    name: str
    address: str
    session: Session
    token: Token
    nonce: Nonce
    applied: Revision
    lineage: LineageHash
    generation: Generation
    """In which `applied` was applied (`core.membership.generations`); 0 for nothing."""
    rack: str = ""


class Candidate:
    """The node's side of registration and join, for one process."""

    def __init__(self, record: IdentityRecord | None, start: Start) -> None:
        self._record = record
        self._writing: IdentityRecord | None = None
        self._start = start
        self._facts: ClusterFacts | None = None
        self._admitted: Admitted | None = None

    @property
    def has_id(self) -> bool:
        """Whether a cluster has given this node its id."""
        return isinstance(self._record, Allocated | Joining)

    def step(self, event: ClaimEvent) -> ClaimEffect:
        """Takes one event and answers the next effect; the last is `Joined`. An event out of turn raises."""
        match event:
            case ClusterLearned(facts=facts):
                known = self._record
                if isinstance(known, Allocated | Joining) and known.cluster_id != facts.cluster_id:
                    return WrongCluster(ours=known.cluster_id, theirs=facts.cluster_id)
                self._facts = facts
            case RecordWritten():
                assert self._writing is not None, "nothing was being written"
                self._record, self._writing = self._writing, None
            case IdAllocated(node=node):
                record = self._record
                assert isinstance(record, Claiming), "an id that was not asked for"
                assert self._facts is not None
                return self._write(
                    Allocated(
                        token=record.token,
                        node=node,
                        cluster_id=self._facts.cluster_id,
                        incarnation=Incarnation(0),
                    )
                )
            case Admitted(incarnation=incarnation, history_known=history_known):
                record = self._record
                assert isinstance(record, Joining), "let in without having asked"
                assert incarnation > record.previous, "incarnations only rise"
                effect = self._write(
                    Allocated(
                        token=record.token,
                        node=record.node,
                        cluster_id=record.cluster_id,
                        incarnation=incarnation,
                        nonce=record.nonce,
                        unverified=record.unverified or not history_known,
                    )
                )
                self._admitted = event
                return effect
            case _:
                assert_never(event)
        return self._next()

    def _write(self, record: IdentityRecord) -> WriteRecord:
        assert self._writing is None, "one record at a time"
        self._writing = record
        return WriteRecord(record=record)

    def _next(self) -> ClaimEffect:
        assert self._facts is not None, "the cluster must be known first"
        start, record = self._start, self._record
        match record:
            case None:
                return self._write(Claiming(token=start.token))
            case Claiming(token=token):
                return SendAllocate(
                    request=Allocate(
                        cluster_id=self._facts.cluster_id, token=token, name=start.name, address=start.address
                    )
                )
            case Allocated():
                if self._admitted is not None:
                    return Joined(
                        node=record.node,
                        incarnation=record.incarnation,
                        history_known=self._admitted.history_known,
                        unverified=record.unverified,
                        token=record.token,
                    )
                return self._write(
                    Joining(
                        token=record.token,
                        node=record.node,
                        cluster_id=record.cluster_id,
                        previous=record.incarnation,
                        nonce=start.nonce,
                        finished=record.nonce,
                        unverified=record.unverified,
                    )
                )
            case Joining():
                return SendJoin(
                    request=Join(
                        cluster_id=record.cluster_id,
                        generation=start.generation,
                        token=record.token,
                        node=record.node,
                        name=start.name,
                        address=start.address,
                        previous=record.previous,
                        nonce=record.nonce,
                        session=start.session,
                        protocol=PROTOCOL_VERSION,
                        applied=start.applied,
                        lineage=start.lineage,
                        finished=record.finished,
                        protocol_min=PROTOCOL_VERSION_MIN,
                        capabilities=CAPABILITIES,
                        rack=start.rack,
                    )
                )
            case _:
                assert_never(record)
