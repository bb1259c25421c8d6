"""What an oracle is told: who acts in a simulated world, and what has just happened there.

Both worlds speak these words. A leader is one coordinator in one term, a process one start of one node; each has a
clock that an observer of real time can read backwards.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.lease.grantor import Grantor, GrantorEffect, HeldLease
from leasehold.core.lease.holder import Lease, Pass
from leasehold.core.words.lineage import GENESIS
from leasehold.core.words.messages import Cutoff, Grant, Receipt, Renewal, Surrender
from leasehold.core.words.records import BarrierReceipt, IdentityRecord, NodeRecord
from leasehold.error_codes import ErrorCode
from leasehold.ids import (
    BucketNumber,
    Incarnation,
    LineageHash,
    NodeId,
    ObjectId,
    Revision,
    SegmentId,
    StatementId,
    Term,
    TransactionId,
)
from leasehold.testing.history import Committed, Elected
from leasehold.testing.vault import VaultStep

# ---------------------------------------------------------------- who acts


class RealClock(Protocol):
    """A local clock, as somebody sees it who knows real time."""

    def real_ns(self, local_ns: int) -> int:
        """The first real instant at which it reads at least `local_ns`, if it goes on as it does now."""
        ...


class LeaseView(Protocol):
    """A view, as far as a lease cares."""

    @property
    def revision(self) -> Revision:
        """What it shows."""
        ...


class ProcessSeen(Protocol):
    """A process of a node: it shows a view under a lease."""

    @property
    def name(self) -> str:
        """As in the trace; a newer process of the same name takes the older one's place."""
        ...

    @property
    def node(self) -> NodeId:
        """Its id, 0 before it has joined."""
        ...

    @property
    def incarnation(self) -> Incarnation:
        """0 before it has joined."""
        ...

    @property
    def lease(self) -> Lease:
        """As published."""
        ...

    @property
    def view(self) -> LeaseView:
        """As published."""
        ...

    def lease_ends_ns(self) -> int:
        """The real instant at which its lease ends."""
        ...


class LeaderSeen:
    """A coordinator in one term, from the making of its grantor on."""

    def __init__(self, *, name: str, term: Term, clock: RealClock, grantor: Grantor, due_floor: Revision) -> None:
        self.name = name
        self.term = term
        self.clock = clock
        self.grantor = grantor
        self.due_floor = due_floor
        """No grant may be given below it: LM at the election, raised by every barrier it has opened since."""
        self.leads_until_ns: int | None = None
        """When its leadership ends, on its clock, as far as it has been told; None where a lock holds it."""
        self.reports: dict[tuple[NodeId, Incarnation], Revision] = {}
        """What each incarnation has told this leader that it applied."""


class StoredSegments(Protocol):
    """A node's segment disk: what of it would survive the machine."""

    on_removed: Callable[[ObjectId, BucketNumber, SegmentId], None]
    """Called with each finished file that leaves it, a damaged one perhaps left out."""

    def holds(self, table: ObjectId, bucket: BucketNumber, segment: SegmentId) -> bool:
        """Whether the finished file is there, durably."""
        ...


class DiskImage(msgspec.Struct, frozen=True, kw_only=True):
    """What a vault holds."""

    identity: IdentityRecord | None = None
    applied: Revision = Revision(0)
    lineage: LineageHash = GENESIS
    items: Mapping[bytes, bytes] = {}


class VaultSeen(Protocol):
    """A node's directory; a directory that takes its place is another one."""

    @property
    def image(self) -> DiskImage:
        """As the process sees it."""
        ...

    @property
    def durable(self) -> DiskImage:
        """What would survive the machine."""
        ...


# ---------------------------------------------------------------- leases and barriers


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """A leader gave a grant for this renewal; `due_floor` is the floor it owed, by the oracle's own count."""

    leader: LeaderSeen
    renewal: Renewal
    grant: Grant
    due_floor: Revision


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """A leader took a message of a node; what it knew of the node's lease before and after, and what it did."""

    leader: LeaderSeen
    message: Renewal | Surrender
    same_session: bool
    """Whether it came from the session that the leader knew before."""
    before: HeldLease | None
    after: HeldLease | None
    effects: tuple[GrantorEffect, ...]


class LetIn(msgspec.Struct, frozen=True, kw_only=True):
    """A leader heard that this incarnation has joined; `required` is what it has to apply before its first lease."""

    node: NodeId
    incarnation: Incarnation
    required: Revision


class EnteredTopology(msgspec.Struct, frozen=True, kw_only=True):
    """A leader counts this incarnation as a member of the logical topology from now on, and requires that of it."""

    node: NodeId
    incarnation: Incarnation
    required: Revision


class Proceeded(msgspec.Struct, frozen=True, kw_only=True):
    """A leader let a barrier proceed."""

    leader: LeaderSeen
    receipt: BarrierReceipt


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """A guard let a batch pass."""

    process: ProcessSeen
    outcome: Pass[LeaseView]
    returned: Revision
    """The newest change that had returned when the guard began."""
    proceeded: Revision
    """The newest barrier that had proceeded when the guard read the clock."""
    table: ObjectId
    login: bytes | None = None
    """The hash of the token that it was asked for with."""
    rows: tuple[int, ...] = ()
    through: tuple[ObjectId, ...] = ()
    """The views that the table is read through."""


class Leased(msgspec.Struct, frozen=True, kw_only=True):
    """A process published a lease; the revision of its view then."""

    process: ProcessSeen
    lease: Lease
    showing: Revision


class Viewed(msgspec.Struct, frozen=True, kw_only=True):
    """A process published a view of the whole catalog."""

    process: ProcessSeen
    view: Catalog


class Spoke(msgspec.Struct, frozen=True, kw_only=True):
    """A process on a host goes on under this incarnation: from now on it may send messages under it."""

    host: str
    node: NodeId
    incarnation: Incarnation
    identity: IdentityRecord | None
    """What the host's vault held durably at that instant."""


class ProcessEnded(msgspec.Struct, frozen=True, kw_only=True):
    """A process ended by itself, by a definite error."""

    host: str
    node: NodeId
    """0 before it has joined."""
    incarnation: Incarnation
    session_hash: bytes
    code: ErrorCode
    text: str
    record: NodeRecord | None
    """What the store said of this node at that instant."""


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """A process tells the leader that it holds these segments of a bucket, verified; or, where `bucket` is None, that
    nothing of a dropped table is left on it."""

    node: NodeId
    incarnation: Incarnation
    table: ObjectId
    bucket: BucketNumber | None
    segments: tuple[SegmentId, ...]


# ---------------------------------------------------------------- disks


class VaultChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A vault as it is after a step. `directory` counts what was put in its place on this host."""

    host: str
    directory: int
    step: VaultStep
    image: DiskImage
    durable: DiskImage


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """A segment file left a disk. `durable` is the revision that this host's vault held durably then."""

    host: str
    node: NodeId
    table: ObjectId
    bucket: BucketNumber
    segment: SegmentId
    durable: Revision
    newest: Revision
    damaged: bool


class Damaged(msgspec.Struct, frozen=True, kw_only=True):
    """A segment file was damaged on purpose: that copy need not stay."""

    host: str
    segment: SegmentId


class DisksShrank(msgspec.Struct, frozen=True, kw_only=True):
    """A machine crashed, or a disk was lost: fewer copies may be left."""

    host: str


class Crossed(msgspec.Struct, frozen=True, kw_only=True):
    """A point of no return was committed; `behind` are processes with a lease on a view older than its pre-state."""

    revision: Revision
    what: str
    pre_state: Revision | None
    """None where there was no pre-state at all."""
    behind: tuple[str, ...]


# ---------------------------------------------------------------- clients


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A client heard how a statement ended: a receipt, or the code of a definite refusal."""

    statement: StatementId
    answer: Receipt | str
    real_ns: int


class Scanned(msgspec.Struct, frozen=True, kw_only=True):
    """A scan planned at `revision` returned these rows, or these segments with so many rows each. Without a cutoff,
    what was gone at that revision was left out."""

    table: ObjectId
    revision: Revision
    cutoff: Cutoff | None
    rows: "Counter[str] | Mapping[SegmentId, int]"
    by_segment: bool


class HandedOut(msgspec.Struct, frozen=True, kw_only=True):
    """A client was handed a batch that was released on this revision, when `returned` had returned to it."""

    released: Revision
    returned: Revision


class Wrote(msgspec.Struct, frozen=True, kw_only=True):
    """A client put these rows into a write transaction, whatever becomes of it."""

    transaction: TransactionId
    table: ObjectId
    rows: "Counter[str]"


SimulatedEvent: TypeAlias = (
    Granted
    | Heard
    | LetIn
    | EnteredTopology
    | Proceeded
    | Passed
    | Leased
    | Viewed
    | Spoke
    | ProcessEnded
    | Reported
    | VaultChanged
    | Removed
    | Damaged
    | DisksShrank
    | Crossed
    | Answered
    | Scanned
    | HandedOut
    | Wrote
    | Committed
    | Elected
)
