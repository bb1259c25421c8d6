"""A vault in memory, with the crashes of a real one: what was not synced may be lost, in order, and is never torn."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from random import Random  # noqa: TID251 a type alone: the generator is the caller's

import msgspec

from leasehold.core.catalog.shelf import BucketKey, Holding, Shelf, on_demand
from leasehold.core.catalog.stored_shelf import StoredBucket
from leasehold.core.data.manifest import StoredSegment
from leasehold.core.recovery.staging import Staged, check_same
from leasehold.core.words.codec import decode_record, encode
from leasehold.core.words.lineage import GENESIS
from leasehold.core.words.operations import Change, RevisionChanges, StoredProjection
from leasehold.core.words.records import (
    Allocated,
    Claiming,
    IdentityRecord,
    Joining,
    Record,
    ReplacedRecord,
    SegmentRecord,
)
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, Corrupt, OutcomeUnknown, Refused
from leasehold.ids import LineageHash, Revision, SegmentId
from leasehold.limits.units import SECOND_NS


class VaultState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything stored, after one transaction."""

    identity: bytes = b""
    coordinators: tuple[str, ...] = ()
    applied: Revision = Revision(0)
    lineage: LineageHash = GENESIS
    items: dict[bytes, bytes] = {}


class VaultStep(Enum):
    """What happened to a vault."""

    OPENED = auto()
    WRITTEN = auto()
    """By a transaction, or made durable."""
    LEAPT = auto()
    """Written, and the whole projection by it."""
    CRASHED = auto()
    """The process or the machine is gone; what is there now is what is left."""


class VaultDisk:
    """The vault's disk, which outlives the process. Each write takes `latency_ns`, half before and half after it, so
    that a crash may find writes that were done but not yet answered."""

    def __init__(self, latency_ns: Callable[[], int] = lambda: 0) -> None:
        self.latency_ns = latency_ns
        self.on_change: Callable[[VaultStep], None] | None = None
        """Called after each step that changes what is stored, or who sees it."""
        self._durable = VaultState()
        self._later: list[VaultState] = []
        self._damaged = False
        self._holder: MemoryVault | None = None

    def open(self) -> "MemoryVault":
        """Raises `BadDirectory` while another vault has it open, and `Corrupt` once damaged."""
        if self._holder is not None:
            raise BadDirectory(
                "the directory is in use by another process", code=ErrorCode.LOCKED, hint="stop it first"
            )
        if self._damaged:
            raise Corrupt("the vault is damaged", hint="move the directory away to start as a new node")
        if not self.state.identity and (self.state.applied or self.state.coordinators):
            raise Corrupt("the identity record is lost", hint="move the directory away to start as a new node")
        holder = self._holder = MemoryVault(self)
        self._tell(VaultStep.OPENED)
        return holder

    def kill(self) -> None:
        """The process is gone, and nothing it wrote is lost."""
        self._detach()
        self._tell(VaultStep.CRASHED)

    def crash(self, random: Random) -> None:
        """The machine crashes: of the transactions since the last sync a random prefix is left."""
        self._detach()
        kept = random.randint(0, len(self._later))
        if kept:
            self._durable = self._later[kept - 1]
        self._later.clear()
        self._tell(VaultStep.CRASHED)

    def damage(self) -> None:
        """Makes the next `open` fail with `Corrupt`."""
        self._damaged = True

    def copy(self) -> "VaultDisk":
        """A copy of the stored state, as of a cloned machine; it can be opened beside the first."""
        twin = VaultDisk(self.latency_ns)
        twin._durable = self.state
        return twin

    # ------------------------------------------------------------ for the vault

    @property
    def state(self) -> VaultState:
        """As the process sees it."""
        return self._later[-1] if self._later else self._durable

    @property
    def durable(self) -> VaultState:
        """What would survive the machine, whatever the crash."""
        return self._durable

    def commit(self, state: VaultState, step: VaultStep = VaultStep.WRITTEN) -> None:
        """One transaction: it survives the process, not the machine."""
        self._later.append(state)
        self._tell(step)

    def sync(self) -> None:
        """All transactions so far survive the machine."""
        self._durable = self.state
        self._later.clear()
        self._tell(VaultStep.WRITTEN)

    def release(self, vault: "MemoryVault") -> None:
        """Frees the directory."""
        if self._holder is vault:
            self._holder = None

    def _tell(self, step: VaultStep) -> None:
        if self.on_change is not None:
            self.on_change(step)

    def _detach(self) -> None:
        if self._holder is not None:
            self._holder.detach()
            self._holder = None


class MemoryVault:
    """Implements `wire.ports.Vault` on a `VaultDisk`, for one process."""

    def __init__(self, disk: VaultDisk) -> None:
        self._disk = disk
        self._gone = False
        self._closed = False
        self.manifest = MemoryManifest(self._state)
        self._turn = asyncio.Lock()
        self._staged = Staged()
        self._pages: tuple[Change, ...] = ()

    async def identity(self) -> IdentityRecord | None:
        self._check()
        content = self._disk.state.identity
        if not content:
            return None
        record = decode_record(Record, content)
        assert isinstance(record, Claiming | Allocated | Joining), "only such a record was written"
        return record

    async def write_identity(self, record: IdentityRecord) -> None:
        content = encode(record)

        def work() -> None:
            self._disk.commit(msgspec.structs.replace(self._disk.state, identity=content))
            self._disk.sync()

        await self._write(work)

    async def begin_anew(self, record: IdentityRecord) -> None:
        content = encode(record)

        def work() -> None:
            state = self._disk.state
            self._disk.commit(VaultState(identity=content, coordinators=state.coordinators))
            self._disk.sync()
            self._staged, self._pages = Staged(), ()

        await self._write(work)

    async def coordinators(self) -> tuple[str, ...]:
        self._check()
        return self._disk.state.coordinators

    async def write_coordinators(self, addresses: tuple[str, ...]) -> None:
        await self._write(
            lambda: self._disk.commit(msgspec.structs.replace(self._disk.state, coordinators=tuple(addresses)))
        )

    async def projection(self) -> StoredProjection:
        self._check()
        state = self._disk.state
        items = tuple(Change(key, state.items[key]) for key in sorted(state.items))
        return StoredProjection(applied=state.applied, lineage=state.lineage, items=items)

    async def reopened(self) -> StoredProjection:
        self._check()
        state = self._disk.state
        items = tuple(Change(key, state.items[key]) for key in sorted(state.items) if not on_demand(key))
        return StoredProjection(applied=state.applied, lineage=state.lineage, items=items)

    async def verify(self, rows_max: int) -> bool:
        """Nothing here is ever damaged under a process."""
        assert rows_max > 0
        self._check()
        return True

    async def apply(self, batches: Sequence[RevisionChanges], lineage: LineageHash) -> None:
        batches = tuple(batches)
        await self._write(lambda: self._disk.commit(_applied(self._disk.state, batches, lineage)))

    async def stage(self, items: Sequence[Change], *, first: bool) -> None:
        items = tuple(items)

        def work() -> None:
            self._staged, _ = (Staged() if first else self._staged).adding(items)
            self._pages = items if first else (*self._pages, *items)

        await self._write(work)

    async def leap(self, revision: Revision, lineage: LineageHash, digest: bytes) -> tuple[Change, ...]:
        changes: tuple[Change, ...] = ()

        def work() -> None:
            nonlocal changes
            state = self._disk.state
            self._staged.check_leap((state.applied, state.lineage), (revision, lineage), digest)
            items = {item.key: item.value for item in self._pages if item.value is not None}
            changes = _differences(state.items, items)
            if revision == state.applied:
                check_same(changes)
            leapt = msgspec.structs.replace(state, applied=revision, lineage=lineage, items=items)
            self._disk.commit(leapt, VaultStep.LEAPT)
            self._staged, self._pages = Staged(), ()

        await self._write(work)
        return changes

    async def sync(self) -> Revision:
        durable = Revision(0)

        def work() -> None:
            nonlocal durable
            self._disk.sync()
            durable = self._disk.state.applied

        await self._write(work)
        return durable

    async def close(self) -> None:
        if not self._closed and not self._gone:
            self._closed = True
            self._disk.release(self)

    def detach(self) -> None:
        """The process is gone."""
        self._gone = True

    async def _write(self, work: Callable[[], None]) -> None:
        # One at a time and in the order of asking, as on the one database thread of the real vault.
        async with self._turn:
            latency_ns = self._disk.latency_ns()
            await asyncio.sleep(latency_ns / 2 / SECOND_NS)
            self._check()
            work()
            await asyncio.sleep(latency_ns / 2 / SECOND_NS)
            self._check()

    def _state(self) -> VaultState:
        self._check()
        return self._disk.state

    def _check(self) -> None:
        if self._gone:
            raise OutcomeUnknown("the process that held this vault is gone", code=ErrorCode.DISK)
        if self._closed:
            raise Refused("the vault is closed", code=ErrorCode.CLOSED)


class MemoryManifest:
    """Implements `core.data.manifest.Manifest` on the items of the present state."""

    def __init__(self, state: Callable[[], VaultState]) -> None:
        self._state = state
        self._items: dict[bytes, bytes] = {}
        self._shelves: tuple[Shelf[SegmentRecord], Shelf[ReplacedRecord]] = (Shelf(), Shelf())
        """Of these items."""

    def segment(self, bucket: BucketKey, segment: SegmentId) -> StoredSegment:
        applied, segments, replaced = self._read()
        return StoredSegment(applied, segments.one(bucket, segment), replaced.one(bucket, segment))

    def bucket(self, bucket: BucketKey) -> StoredBucket:
        applied, segments, replaced = self._read()
        return StoredBucket(applied, segments.get(bucket, {}), replaced.get(bucket, {}))

    def _read(self) -> tuple[Revision, Shelf[SegmentRecord], Shelf[ReplacedRecord]]:
        state = self._state()
        if state.items is not self._items:
            held = Holding()
            held.taking(Change(key, value) for key, value in state.items.items())
            self._items, self._shelves = state.items, (held.segments, held.replaced)
        return state.applied, *self._shelves


def _differences(held: Mapping[bytes, bytes], items: Mapping[bytes, bytes]) -> tuple[Change, ...]:
    """What turns what is held into `items`, in key order."""
    differing = sorted(key for key in {*held, *items} if held.get(key) != items.get(key))
    return tuple(Change(key, items.get(key)) for key in differing)


def _applied(state: VaultState, batches: tuple[RevisionChanges, ...], lineage: LineageHash) -> VaultState:
    if not batches:
        raise Refused("nothing to apply: at least one revision is needed", code=ErrorCode.NOT_ASCENDING)
    applied = state.applied
    items = dict(state.items)
    for batch in batches:
        if batch.revision <= applied:
            raise Refused(f"revision {batch.revision} comes after {applied}", code=ErrorCode.NOT_ASCENDING)
        applied = batch.revision
        for change in batch.changes:
            if change.value is None:
                items.pop(change.key, None)
            else:
                items[change.key] = change.value
    return msgspec.structs.replace(state, applied=applied, lineage=lineage, items=items)
