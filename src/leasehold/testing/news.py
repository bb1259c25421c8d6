"""What an oracle gets from both simulated worlds: who acts there, and what has just happened.

A leader is one coordinator in one term, a process is one start of one node. An observer of real time can read their
clocks backwards.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.lease.grantor import Grantor
from leasehold.core.lease.grants import GrantorEffect, HeldLease
from leasehold.core.lease.holder import Lease, Pass
from leasehold.core.words.lineage import GENESIS
from leasehold.core.words.messages import Cutoff, Grant, Receipt, Renewal, ReportProcessEnd, Surrender
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
)
from leasehold.testing.history import Committed, Elected
from leasehold.testing.linearizability import Operation
from leasehold.testing.local_news import LocallyOpened, SubLeased
from leasehold.testing.log_news import Acknowledged, EntryAppended, LeftUnknown, ReplicaMoved
from leasehold.testing.vault import VaultStep
from leasehold.testing.write_news import WriteEnded, Wrote

# ---------------------------------------------------------------- who acts


class RealClock(Protocol):
    """A local clock, for an observer who knows real time."""

    def real_ns(self, local_ns: int) -> int:
        """The first real instant at which it reads at least `local_ns`, if it goes on as it does now."""
        ...


class LeaseView(Protocol):
    """A view: only its revision matters to a lease."""

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
    """A coordinator in one term, from the start of its grantor on."""

    def __init__(self, *, name: str, term: Term, clock: RealClock, grantor: Grantor, due_floor: Revision) -> None:
        self.name = name
        self.term = term
        self.clock = clock
        self.grantor = grantor
        self.due_floor = due_floor
        """No grant may be given below it: LM at the election, raised by every barrier it has opened since."""
        self.leads_until_ns: int | None = None
        """When its leadership ends, on its clock, as far as it knows; None if a lock holds it."""
        self.reports: dict[tuple[NodeId, Incarnation], Revision] = {}
        """The revision that each incarnation has reported to this leader."""


class StoredSegments(Protocol):
    """The part of a node's segment disk that would survive the machine."""

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
    """A node's directory; its replacement is another one."""

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
    """A leader gave a grant for this renewal; `due_floor` is the lowest floor allowed, by the oracle's own count."""

    leader: LeaderSeen
    renewal: Renewal
    grant: Grant
    due_floor: Revision


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """A leader took a message of a node: the node's lease before and after, and the effects."""

    leader: LeaderSeen
    message: Renewal | Surrender | ReportProcessEnd
    same_session: bool
    """Whether it came from the session that the leader knew before."""
    before: HeldLease | None
    after: HeldLease | None
    effects: tuple[GrantorEffect, ...]


class LetIn(msgspec.Struct, frozen=True, kw_only=True):
    """A leader heard that this incarnation has joined; it must apply `required` before its first lease."""

    node: NodeId
    incarnation: Incarnation
    required: Revision


class EnteredTopology(msgspec.Struct, frozen=True, kw_only=True):
    """This incarnation enters the logical topology, and its leader requires that it has applied `required`."""

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
    segment: SegmentId | None = None
    """The segment of `rows`."""


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
    """A process on a host has joined as this incarnation: from now on it may send messages."""

    host: str
    node: NodeId
    incarnation: Incarnation
    identity: IdentityRecord | None
    """The durable identity in the host's vault at that instant."""


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
    """A process reports that it holds these segments of a bucket, verified; or, if `bucket` is None, nothing of a
    dropped table any more."""

    node: NodeId
    incarnation: Incarnation
    table: ObjectId
    bucket: BucketNumber | None
    segments: tuple[SegmentId, ...]


# ---------------------------------------------------------------- disks


class VaultChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A vault after a step. `directory` is the number of the directory."""

    host: str
    directory: int
    step: VaultStep
    image: DiskImage
    durable: DiskImage


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """A segment file was removed. `durable` is the revision that the host's vault held durably then."""

    host: str
    node: NodeId
    table: ObjectId
    bucket: BucketNumber
    segment: SegmentId
    durable: Revision
    newest: Revision
    damaged: bool


class Damaged(msgspec.Struct, frozen=True, kw_only=True):
    """A segment file was damaged on purpose: that copy may go."""

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
    """A client heard how a statement ended: a receipt, or the code with which it did not happen."""

    statement: StatementId
    answer: Receipt | str
    real_ns: int


class CatalogRead(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to SHOW TABLES; `floor` is the newest revision that any client had seen before it was asked."""

    by: str
    """The coordinator that answered."""
    revision: Revision
    floor: Revision
    tables: frozenset[tuple[str, str]]
    """Database and name, as SHOW TABLES tells them."""


class ClientHistory(msgspec.Struct, frozen=True, kw_only=True):
    """All that the clients of a run asked about tables, and were answered; told once, at its end."""

    operations: tuple[Operation, ...]


ScannedRows: TypeAlias = "Counter[str] | Mapping[SegmentId, int]"


class Scanned(msgspec.Struct, frozen=True, kw_only=True):
    """A scan planned at `revision` returned these rows, or these segments with their numbers of rows. Without a cutoff,
    rows that were deleted at that revision were left out."""

    table: ObjectId
    revision: Revision
    cutoff: Cutoff | None
    rows: ScannedRows
    by_segment: bool


class HandedOut(msgspec.Struct, frozen=True, kw_only=True):
    """A client was handed a batch that was released on this revision, when `returned` had returned to it."""

    released: Revision
    returned: Revision


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
    | CatalogRead
    | ClientHistory
    | Scanned
    | HandedOut
    | Wrote
    | WriteEnded
    | SubLeased
    | LocallyOpened
    | Committed
    | Elected
    | Acknowledged
    | LeftUnknown
    | EntryAppended
    | ReplicaMoved
)
