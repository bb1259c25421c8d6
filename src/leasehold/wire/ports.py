"""The ports of the runtimes. The real implementations are in this folder and in other adapters, simulated ones in
`testing`. A runtime uses nothing else, so the same code runs on sockets and disks and, from one seed, in the simulator.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Final, Protocol, TypeVar

from leasehold.core.access.callers import Caller
from leasehold.core.data.manifest import Manifest
from leasehold.core.data.write_access import Peer
from leasehold.core.replicas.reconcile import Emptied, Listing, OnDisk
from leasehold.core.words.messages import Message
from leasehold.core.words.operations import Change, RevisionChanges, StoredProjection
from leasehold.core.words.records import IdentityRecord, SegmentRecord
from leasehold.errors import LeaseholdError
from leasehold.ids import ClusterId, LineageHash, NodeId, ObjectId, Revision

T = TypeVar("T")

PEER: Final[ContextVar[str]] = ContextVar("PEER", default="")
"""The caller's address, or the first half of one of IPv6. The transport sets it for each call to a service; it is empty
where the transport does not know the address."""
CALLER: Final[ContextVar[Caller | None]] = ContextVar("CALLER", default=None)
"""Whom TLS has authenticated, for each call and each session; None without TLS."""
WHO_ASKS: Final[ContextVar[Callable[[str], None]]] = ContextVar("WHO_ASKS", default=lambda _: None)
"""A service calls it once it has checked who asks, with a name that is the same for all calls of a user."""


class Timer(Protocol):
    """A callback that `Clock.call_at` will make."""

    def cancel(self) -> None:
        """Prevents the callback; harmless once it has run."""
        ...


class Clock(Protocol):
    """A local clock that counts suspended time. Only the serve log takes its readings out of the process."""

    def now_ns(self) -> int:
        """Nanoseconds since boot; never goes back."""
        ...

    def wall_us(self) -> int:
        """Microseconds since 1970 UTC, as the machine believes. It orders nothing."""
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
    """Password hashes. They are slow on purpose, so the caller bounds how many are made at once."""

    async def hashed(self, password: str) -> str: ...

    async def matches(self, password_hash: str | None, password: str) -> bool:
        """Whether the hash is of that password. None is the hash of no password; the answer takes as long."""
        ...


class Threads(Protocol):
    """Runs long computations beside the event loop."""

    async def run(self, compute: Callable[[], T]) -> T:
        """Returns or raises what `compute` does."""
        ...


class Duplex(Protocol):
    """One end of a session stream: messages in order, none lost while it is open."""

    async def send(self, message: Message) -> None:
        """Hands one message over; raises `Unreachable` once the stream is broken or its bounded queue is full."""
        ...

    async def receive(self) -> Message | None:
        """The next message, or None once the peer has ended the stream in order. Raises `Unreachable` if the stream
        broke, and the error that a `Failure` message carries."""
        ...

    async def close(self) -> None:
        """Ends the stream; idempotent."""
        ...


class Connection(Protocol):
    """Requests to one address. They raise `Unreachable`, and the error that a `Failure` of the peer describes."""

    async def call(self, request: Message, *, timeout_ns: int) -> Message: ...

    def stream(self, request: Message, *, timeout_ns: int) -> AsyncIterator[Message]:
        """One question, several answers; `timeout_ns` bounds all of them together."""
        ...

    async def session(self) -> Duplex:
        """Opens a stream in both directions."""
        ...

    async def close(self) -> None:
        """Ends everything open on it; idempotent."""
        ...


class Transport(Protocol):
    """Makes connections."""

    checks_peers: bool
    """Whether both sides of a connection have shown a certificate before anything is sent."""

    @property
    def certificate_ends_s(self) -> int | None:
        """When the certificate ends that this side shows, in seconds since 1970 UTC; None if it shows none."""
        ...

    def connect(self, address: str) -> Connection:
        """A connection to `host:port`. Nothing is sent yet, so this never fails."""
        ...


class Service(Protocol):
    """What a server serves. A `LeaseholdError` that it raises reaches the peer as `Failure`. Of any other error the
    peer learns only the code INTERNAL."""

    async def call(self, request: Message) -> Message: ...

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
        """The segments, as of the applied revision."""
        ...

    async def identity(self) -> IdentityRecord | None:
        """The identity record, or None on a new vault. Raises `Corrupt`."""
        ...

    async def write_identity(self, record: IdentityRecord) -> None:
        """Replaces the identity record; synced to disk when this returns."""
        ...

    async def begin_anew(self, record: IdentityRecord) -> None:
        """Forgets the projection and replaces the identity record, in one transaction. The applied revision is 0 then.
        Synced to disk when this returns."""
        ...

    async def coordinators(self) -> tuple[str, ...]: ...

    async def write_coordinators(self, addresses: tuple[str, ...]) -> None:
        """Replaces the addresses; as durable as `apply`."""
        ...

    async def projection(self) -> StoredProjection:
        """The whole projection as of its applied revision. Raises `Corrupt`."""
        ...

    async def reopened(self) -> StoredProjection:
        """Every item but segments, as of the applied revision, verified: what a start reads, in a time that does not
        grow with the segments. Raises `Corrupt`."""
        ...

    async def verify(self, rows_max: int) -> bool:
        """Checks the next `rows_max` items at most; True once all have been checked, then the next call starts over.
        Raises `Corrupt`, also for damage that `manifest` has found; with `rows_max` 0 only for that."""
        ...

    async def apply(self, batches: Sequence[RevisionChanges], lineage: LineageHash) -> None:
        """Applies whole revisions in order. Projection, applied revision and `lineage` (the hash at the last one)
        change in one transaction. It survives the process at once, and the machine from the next `sync` on. Revisions
        that do not ascend from the applied one are `Refused` with code NOT_ASCENDING, and change nothing."""
        ...

    async def stage(self, items: Sequence[Change], *, first: bool) -> None:
        """Takes a page of a snapshot, in key order after the previous page; `first` forgets what was staged before.
        What is staged ends with the process. A page out of order, or with a delete, is `Refused` with code BAD_SNAPSHOT
        and changes nothing."""
        ...

    async def leap(self, revision: Revision, lineage: LineageHash, digest: bytes) -> tuple[Change, ...]:
        """Replaces the projection by what was staged: deletes what the snapshot lacks, puts what differs, and sets the
        applied revision and lineage, in one transaction (R2). Returns the changes in key order. As durable as `apply`.

        `digest` is the XOR of the items' hashes (`core.words.digest`) as the sender counted them; other items are
        `Refused` with code BAD_SNAPSHOT. A revision below the applied one, or the same one with another lineage, is
        `Refused` with code NOT_ASCENDING. The same one with the same lineage is a repeated leap: no changes. A refusal
        changes nothing.
        """
        ...

    async def sync(self) -> Revision:
        """Makes what was applied survive the machine; answers the durable applied revision."""
        ...

    async def close(self) -> None:
        """Idempotent."""
        ...


class Disk(Protocol):
    """A data node's finished segment files, and copies of them from other nodes. Errors are `Refused` with code
    DISK_FULL or BAD_SEGMENT_NAME, and `Definite` with code DISK_ERROR."""

    async def listing(self) -> Listing:
        """The finished segments, with every change made before this call. Where nothing has changed since the last
        listing, it costs one look at each bucket."""
        ...

    async def trash(self, one: OnDisk) -> bool:
        """Moves a segment to the trash, durably; False if it was not there."""
        ...

    async def trash_table(self, table: ObjectId) -> bool:
        """Moves all segments of a table to the trash, durably; False if there were none."""
        ...

    async def empty_trash(self, max_files: int, max_bytes: int) -> Emptied:
        """Deletes up to `max_files` files of the trash; the one with which `max_bytes` is reached goes too."""
        ...

    async def check_sizes(self, records: Sequence[SegmentRecord]) -> tuple[SegmentRecord, ...]:
        """Moves segments whose size is not the one in the manifest to the trash, and answers their records (I5)."""
        ...

    async def verify(self, record: SegmentRecord) -> bool:
        """Whether the segment is here and as the manifest says; a file that differs goes to the trash. Raises `Refused`
        with code BAD_SEGMENT_RECORD for a record that describes no segment."""
        ...

    async def is_damaged(self, record: SegmentRecord, rest: Callable[[int], Awaitable[None]]) -> bool:
        """Whether the segment is here and differs from the manifest, or can't be read from the disk, which is published
        as failing then. The file stays where it is. `rest` is awaited after each piece, with its number of bytes.
        Raises as `verify`."""
        ...

    async def fetch(
        self,
        record: SegmentRecord,
        places: Sequence[Peer],
        cluster_id: ClusterId,
        on_asked: Callable[[NodeId, LeaseholdError | None, int], None],
    ) -> bool:
        """Copies a segment from the first of `places`, nodes and their addresses, that has it whole; whether it is
        here now, verified and durable. A file that is here already is never replaced. Raises as `verify`.

        `on_asked` gets each node that was asked, the error of its copy, None for a whole one, and how many bytes came;
        perhaps on another thread, but before this returns.
        """
        ...


class Datagrams(Protocol):
    """Sends and receives datagrams at one address. They may be lost, doubled, late or reordered; anybody may send."""

    @property
    def address(self) -> str: ...

    def send(self, address: str, blob: bytes) -> None:
        """Sends one; if that fails, the datagram is lost."""
        ...

    async def receive(self) -> tuple[str, bytes]:
        """The sender of the next one, and its bytes. While too many wait, further ones are dropped."""
        ...

    def pending(self) -> tuple[str, bytes] | None:
        """As `receive` for one that has arrived already, None if there is none."""
        ...

    async def close(self) -> None:
        """Receives no more; idempotent."""
        ...
