"""The ports the runtimes stand on; here their shapes, beside it the real ones, in `testing` the simulated ones.

A runtime is plain asyncio over these and nothing else, so that the same code runs on sockets and disks and,
from one seed, in the simulator.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol, TypeVar

from leasehold.core.data.manifest import Manifest
from leasehold.core.replicas.reconcile import Emptied, Listing, OnDisk
from leasehold.core.words.messages import Message
from leasehold.core.words.operations import Change, RevisionChanges, StoredProjection
from leasehold.core.words.records import IdentityRecord, SegmentRecord
from leasehold.errors import LeaseholdError
from leasehold.ids import ClusterId, LineageHash, NodeId, ObjectId, Revision

T = TypeVar("T")


class Timer(Protocol):
    """A call that has been asked for."""

    def cancel(self) -> None:
        """Takes it back; harmless once it has run."""
        ...


class Clock(Protocol):
    """A local clock that counts suspended time. Its readings never leave the process but for the serve log."""

    def now_ns(self) -> int:
        """CLOCK_BOOTTIME in the real one; never goes back."""
        ...

    def wall_us(self) -> int:
        """Microseconds since 1970 UTC, as the machine believes. It orders nothing: only TTL horizons are made of it."""
        ...

    async def sleep_until(self, deadline_ns: int) -> None:
        """Returns as soon as `now_ns() >= deadline_ns`, at once if it is past."""
        ...

    def call_at(self, deadline_ns: int, callback: Callable[[], None]) -> Timer:
        """Calls back on the running loop, never from inside this call, once `now_ns() >= deadline_ns`."""
        ...


class Entropy(Protocol):
    """Where random bits come from."""

    def hex_128(self) -> str:
        """128 random bits as 32 lower-case hex digits."""
        ...


class Passwords(Protocol):
    """Password hashes. They cost much on purpose: whoever calls bounds how many are made at once."""

    async def hashed(self, password: str) -> str:
        """What to store of a password, salt and parameters included."""
        ...

    async def matches(self, password_hash: str | None, password: str) -> bool:
        """Whether it is of that password; None, of which it never is, takes as long."""
        ...


class Threads(Protocol):
    """For what computes for long, so that an event loop goes on meanwhile."""

    async def run(self, compute: Callable[[], T]) -> T:
        """What `compute` answers or raises."""
        ...


class Duplex(Protocol):
    """One end of a session stream: messages in order, none lost while it is open."""

    async def send(self, message: Message) -> None:
        """Hands one message over; raises `Unreachable` once the stream is broken or its bounded queue is full."""
        ...

    async def receive(self) -> Message | None:
        """The next message, or None once the peer has ended the stream in order. Raises `Unreachable` if it broke,
        and the error that a `Failure` message carries."""
        ...

    async def close(self) -> None:
        """Ends the stream; idempotent."""
        ...


class Connection(Protocol):
    """A way to one address. A `Failure` answered by the peer is raised as the error that it describes."""

    async def call(self, request: Message, *, timeout_ns: int) -> Message:
        """One question, one answer. Raises `Unreachable` (indefinite) when none came in time."""
        ...

    def stream(self, request: Message, *, timeout_ns: int) -> AsyncIterator[Message]:
        """One question, several answers, the last one final."""
        ...

    async def session(self) -> Duplex:
        """Opens a stream in both directions. Raises `Unreachable`."""
        ...

    async def close(self) -> None:
        """Ends everything open on it; idempotent."""
        ...


class Transport(Protocol):
    """Makes connections."""

    def connect(self, address: str) -> Connection:
        """A connection to `host:port`; lazily, so this alone never fails."""
        ...


class Service(Protocol):
    """What a server serves. A `LeaseholdError` it raises reaches the peer as `Failure`; any other error ends as an
    opaque INTERNAL failure, without its traceback."""

    async def call(self, request: Message) -> Message:
        """Answers a question."""
        ...

    def stream(self, request: Message) -> AsyncIterator[Message]:
        """Answers a question in several messages."""
        ...

    async def session(self, duplex: Duplex) -> None:
        """Serves one stream until it ends."""
        ...


class Vault(Protocol):
    """A node's durable local state. Every write is one transaction, durable as its method says when it returns."""

    @property
    def manifest(self) -> Manifest:
        """Its segments, as of the applied revision."""
        ...

    async def identity(self) -> IdentityRecord | None:
        """The identity record, or None on a new vault. Raises `Corrupt`."""
        ...

    async def write_identity(self, record: IdentityRecord) -> None:
        """Replaces the identity record; synced to disk when this returns."""
        ...

    async def begin_anew(self, record: IdentityRecord) -> None:
        """Forgets the projection and replaces the identity record, in one transaction: nothing is applied any more.
        Synced to disk when this returns."""
        ...

    async def coordinators(self) -> tuple[str, ...]:
        """The last known coordinator addresses."""
        ...

    async def write_coordinators(self, addresses: tuple[str, ...]) -> None:
        """Replaces them."""
        ...

    async def projection(self) -> StoredProjection:
        """The whole projection as of its applied revision. Raises `Corrupt`."""
        ...

    async def reopened(self) -> StoredProjection:
        """What a process goes on from, which does not take longer the more segments there are: every other item as of
        the applied revision, verified. Raises `Corrupt`."""
        ...

    async def verify(self, rows_max: int) -> bool:
        """Goes on checking what is stored for up to `rows_max` items; True when all has been, and then it starts over.
        Raises `Corrupt`, also for damage that `manifest` has met: with 0 items for that alone."""
        ...

    async def apply(self, batches: Sequence[RevisionChanges], lineage: LineageHash) -> None:
        """Applies whole revisions in order; projection, applied revision and `lineage` (the hash at the last
        one) change in one transaction. Revisions must lie above the applied one. It survives the process at
        once and the machine from the next `sync` on."""
        ...

    async def stage(self, items: Sequence[Change], *, first: bool) -> None:
        """Takes a page of a snapshot, in key order after the page before; `first` forgets what was staged before.

        Not durable: what is staged ends with the process. `Refused` with code BAD_SNAPSHOT (a page out of order, or
        a delete in it) leaves what was staged before.
        """
        ...

    async def leap(self, revision: Revision, lineage: LineageHash, digest: bytes) -> tuple[Change, ...]:
        """Replaces the projection by what was staged: deletes what the snapshot lacks, puts what differs, applied
        revision and lineage with it in one transaction (R2). Answers those changes in key order, for listeners.

        `digest` is the XOR of the items' hashes (`core.words.digest`) as the sender counted them; other items are
        `Refused` with code BAD_SNAPSHOT. A revision below the applied one, or the same one with another lineage, is
        `Refused` with code NOT_ASCENDING. The same one with the same lineage answers no changes: a leap asked for
        again. After a refusal nothing has changed. As durable as `apply`.
        """
        ...

    async def sync(self) -> Revision:
        """Makes what was applied survive the machine; answers the durable applied revision."""
        ...

    async def close(self) -> None:
        """Idempotent."""
        ...


class Disk(Protocol):
    """A data node's finished segment files, and copies of them from other nodes.

    Errors of the disk are `Refused` with code DISK_FULL and `Definite` with code DISK_ERROR; a name that is none of a
    segment is `Refused` with code BAD_SEGMENT_NAME.
    """

    async def listing(self) -> Listing:
        """The finished segments. What has not changed since the last listing costs no more than a look at each
        bucket; whatever changed before this is called is in it."""
        ...

    async def trash(self, one: OnDisk) -> bool:
        """Moves a segment to the trash, durably; False if it was not there."""
        ...

    async def trash_table(self, table: ObjectId) -> bool:
        """Moves all segments of a table to the trash, durably; False if there was nothing of it."""
        ...

    async def empty_trash(self, max_files: int, max_bytes: int) -> Emptied:
        """Deletes up to `max_files` files of the trash for good; the one with which `max_bytes` is reached goes too."""
        ...

    async def check_sizes(self, records: Sequence[SegmentRecord]) -> tuple[SegmentRecord, ...]:
        """Those of `records` that are here with another size than the manifest says; they go to the trash (I5)."""
        ...

    async def verify(self, record: SegmentRecord) -> bool:
        """Whether the segment is here and what the manifest says; a file that is not goes to the trash.

        Raises `Refused` with code BAD_SEGMENT_RECORD for a record that describes no segment.
        """
        ...

    async def fetch(
        self,
        record: SegmentRecord,
        places: Sequence[tuple[NodeId, str]],
        cluster_id: ClusterId,
        on_asked: Callable[[NodeId, LeaseholdError | None], None],
    ) -> bool:
        """Copies a segment from the first of `places`, nodes and their addresses, that has it whole; whether it is
        here now, verified and durable. A file that is here already is never replaced.

        `on_asked` is told of each place that was asked what was wrong with it, None for a whole copy; perhaps on
        another thread, but before this returns. Raises `Refused` with code BAD_SEGMENT_RECORD as `verify`.
        """
        ...


class Datagrams(Protocol):
    """Sends and hears datagrams at one address. They may be lost, doubled, late and reordered, and anybody may send."""

    @property
    def address(self) -> str:
        """The `host:port` it hears on."""
        ...

    def send(self, address: str, blob: bytes) -> None:
        """Hands one over; that it can't be sent shows only by its getting lost."""
        ...

    async def receive(self) -> tuple[str, bytes]:
        """The next one and where it came from. What comes while too many wait is dropped."""
        ...

    def pending(self) -> tuple[str, bytes] | None:
        """One that has arrived already, if any has."""
        ...

    async def close(self) -> None:
        """Hears no more; idempotent."""
        ...
