"""Statements: what became of them, and the procedures that run them."""

from enum import Enum, StrEnum
from typing import TypeAlias

import msgspec

from leasehold.core.words.records.base import Record
from leasehold.core.words.records.principals import Right
from leasehold.ids import FieldId, NodeId, ObjectId, PrincipalId, Revision, Sequence, StatementId, Term


class Claim(Enum):
    """How a statement uses an object (`core/ddl/queue.py`)."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


class SettledHow(StrEnum):
    """Why a node no longer holds a barrier up."""

    APPLIED = "applied"
    FENCED = "fenced"
    SURRENDERED = "surrendered"
    ENDED = "ended"
    """Its supervisor saw the process end (`core/lease/process_end.py`)."""
    REMOVED = "removed"


class SettledNode(Record, frozen=True, kw_only=True, tag="settled/1"):
    """One line of a receipt: `after_ns` is the time since the barrier began."""

    node: NodeId
    how: SettledHow
    after_ns: int


class BarrierReceipt(Record, frozen=True, kw_only=True, tag="barrier/1"):
    """A barrier that proceeded: each grant after `sequence` of `term`, or of a later term, has floor >= `revision`."""

    revision: Revision
    term: Term
    sequence: Sequence
    settled: tuple[SettledNode, ...]


class Waited(Record, frozen=True, kw_only=True, tag="waited/1"):
    """What a statement waited for before its own time counts: `queued_ns` for earlier statements on its objects, then
    `settling_ns` until no node could serve what was before the last change of these objects; `nodes` were the last."""

    queued_ns: int = 0
    settling_ns: int = 0
    nodes: tuple[NodeId, ...] = ()


class Outcome(StrEnum):
    """How a statement ended."""

    COMMITTED = "COMMITTED"
    COMMITTED_PENDING = "COMMITTED_PENDING"
    ROLLED_BACK = "ROLLED_BACK"
    REFUSED = "REFUSED"
    RUNNING = "RUNNING"


class StatementRecord(Record, frozen=True, kw_only=True, tag="statement/1"):
    """A statement that committed something; `order` says which to purge first.

    `objects` are the names of what it changed, as its claims have them; `user` is None in a cluster without users.
    Secrets are left out of `text`.
    """

    id: StatementId
    order: int
    text: str
    outcome: Outcome
    revision: Revision | None
    elapsed_ns: int
    bound_ns: int
    barriers: tuple[BarrierReceipt, ...]
    pending: tuple[NodeId, ...]
    user: str | None = None
    objects: tuple[str, ...] = ()
    dropped: tuple[ObjectId, ...] = ()
    """The tables whose files nodes delete once it is past its point of no return."""
    notes: tuple[str, ...] = ()
    """What people should know of it besides its outcome, a sentence each."""
    term: Term = Term(0)
    """Of the leader under which it began; 0 if that is not known."""
    login: bytes | None = None
    """The hash of the login that it came with."""
    text_sha256: bytes = b""
    """Of the whole text, without a secret in it; empty in records of older versions."""
    waited: Waited | None = None
    """Before its time counts; None for nothing, or in records of older versions."""


class Step(StrEnum):
    """Where a procedure stands; written in the same transaction as the catalog."""

    PUBLISHED = "PUBLISHED"
    """Additive: the change is committed at the revision of this record; its barrier comes next."""
    PRE_STATE = "PRE_STATE"
    """Destructive: the pre-state is committed at the revision of this record; its barrier comes next."""
    FINISHED = "FINISHED"
    """Destructive: past the point of no return; only the statement's record is left to close."""


class HiddenDatabase(Record, frozen=True, kw_only=True, tag="hidden-database/1"):
    """A database in PRE_DELETE."""

    database: ObjectId


class HiddenTable(Record, frozen=True, kw_only=True, tag="hidden-table/1"):
    """A table in PRE_DELETE."""

    table: ObjectId


class HiddenColumn(Record, frozen=True, kw_only=True, tag="hidden-column/1"):
    """A column in PRE_DELETE."""

    table: ObjectId
    field: FieldId


class HiddenView(Record, frozen=True, kw_only=True, tag="hidden-view/1"):
    """A view in PRE_DELETE."""

    view: ObjectId


class HiddenRows(Record, frozen=True, kw_only=True, tag="hidden-rows/1"):
    """The rows of a DELETE whose record is in PRE_DELETE."""

    table: ObjectId
    number: int


class ExpiredRows(Record, frozen=True, kw_only=True, tag="expired-rows/1"):
    """The rows that a shorter TTL takes away: the table's horizon hides them."""

    table: ObjectId
    ttl_ns: int
    properties: dict[str, str | None] = msgspec.field(default_factory=dict)
    """What the statement sets beside it; None for a key that goes."""


class HiddenPrincipal(Record, frozen=True, kw_only=True, tag="hidden-principal/1"):
    """A user or role in PRE_DELETE."""

    principal: PrincipalId


class HiddenRights(Record, frozen=True, kw_only=True, tag="hidden-rights/1"):
    """Rights that are being revoked."""

    principal: PrincipalId
    object: ObjectId
    rights: tuple[Right, ...]


class HiddenMembership(Record, frozen=True, kw_only=True, tag="hidden-membership/1"):
    """A role that is being taken from a user."""

    user: PrincipalId
    role: PrincipalId


_OfRelations: TypeAlias = HiddenDatabase | HiddenTable | HiddenColumn | HiddenView | HiddenRows | ExpiredRows
Hidden: TypeAlias = _OfRelations | HiddenPrincipal | HiddenRights | HiddenMembership
"""What a destructive statement hides from its first revision on: goes for good, or comes back."""


class ProcedureRecord(Record, frozen=True, kw_only=True, tag="procedure/1"):
    """A running statement, resumable by any later leader exactly where it stands.

    `hides` goes at the point of no return, or comes back when the statement is rolled back; additive ones hide nothing.
    """

    number: int
    statement: StatementId
    text: str
    step: Step
    claims: dict[str, Claim]
    hides: tuple[Hidden, ...]
