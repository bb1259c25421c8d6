"""The port of a meta storage (docs/design.md, "Meta storage"); `tests/conformance` checks every backend.

Revisions are a global counter: every transaction that changes something takes the next one. All methods raise
`Indefinite` when it is not known whether the request happened, and `Definite` otherwise.
"""

from collections.abc import AsyncGenerator, Callable
from typing import NoReturn, Protocol

import msgspec

from leasehold.core.words.operations import Compare, KeyValue, Page, RevisionChanges, Txn, TxnResult
from leasehold.core.words.records import LeaderRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite, LeaseholdError
from leasehold.ids import ClusterId, Revision, Term


class Compacted(Definite):
    """The revision asked for can no longer be read; `minimum` is the oldest that still can."""

    default_code = ErrorCode.COMPACTED

    def __init__(self, minimum: Revision) -> None:
        super().__init__(f"compacted: the oldest revision is {minimum}")
        self.minimum = minimum


class FutureRevision(Definite):
    """The revision asked for does not exist yet."""

    default_code = ErrorCode.FUTURE_REVISION


class LeadershipLost(Definite):
    """The candidate does not lead (any more)."""

    default_code = ErrorCode.LEADERSHIP_LOST


class StorageStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`MetaStorage.status`."""

    cluster_id: ClusterId | None
    """None until initialised."""
    latest: Revision
    """LM: the newest revision of the lineage key, 0 before the first."""
    minimum: Revision
    """MM: the oldest revision that can still be replayed, 1 on a new store."""


class Leadership(Protocol):
    """One candidate's time at the head; over for good once lost."""

    @property
    def term(self) -> Term:
        """Higher than every term before it."""
        ...

    def deadline_ns(self) -> int | None:
        """When it ends unless renewed, on the local clock; None where an exclusive lock keeps it without an end."""
        ...

    def fence(self) -> tuple[Compare, ...]:
        """The compares of every transaction of this leader; they fail once another one leads."""
        ...

    async def hold(self, on_extended: Callable[[int | None], None]) -> NoReturn:
        """Keeps the leadership as long as it is awaited; reports each later `deadline_ns`. Raises `LeadershipLost`."""
        ...

    async def resign(self, successor: str = "") -> None:
        """Ends the leadership now, so that nobody need wait for its end. Other candidates let the `successor` go first,
        if one is named."""
        ...


class MetaStorage(Protocol):
    """A revisioned key-value store with atomic transactions and gapless watches."""

    @property
    def is_nearly_full(self) -> bool:
        """Whether what needs more space is to be refused, so that all else can go on."""
        ...

    @property
    def member(self) -> str:
        """The member of the store that this candidate asks first; empty for a file."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with members of the store, a sentence each; none for a file."""
        ...

    @property
    def seen_leader(self) -> LeaderRecord | None:
        """The leader record as this candidate read it last; None under a lock, which only one process has."""
        ...

    @property
    def obstacle(self) -> LeaseholdError | None:
        """What its store said when this candidate tried last, if that keeps it from leading: for people to read."""
        ...

    async def txn(self, txn: Txn) -> TxnResult:
        """Runs one transaction; durable when it returns, and before any watch sees it."""
        ...

    async def get(self, key: bytes, revision: Revision | None = None) -> KeyValue | None:
        """The key at `revision` (default: newest). Raises `Compacted` or `FutureRevision`."""
        ...

    async def range(self, start: bytes, end: bytes, *, revision: Revision | None = None, limit: int) -> Page:
        """At most `limit` keys in [start, end) at `revision` (default: newest), in key order."""
        ...

    def watch(self, start: bytes, end: bytes, from_revision: Revision) -> AsyncGenerator[RevisionChanges, None]:
        """All revisions >= `from_revision` that change a key in [start, end): whole, strictly increasing, without gap
        or repeat, until the iterator is closed. Raises `Compacted` if `from_revision` is below MM, and when a
        compaction overtakes a slow watcher."""
        ...

    async def compact(self, before: Revision, fence: tuple[Compare, ...] = ()) -> None:
        """Forgets what only revisions below `before` can see; `before` becomes MM. Going back is refused with
        `Compacted`, going beyond the newest revision with `FutureRevision`, and once the fence does not hold any more
        with `LeadershipLost`."""
        ...

    async def status(self) -> StorageStatus:
        """Cluster id, LM and MM, read together."""
        ...

    async def confirm(self) -> Revision:
        """Brings what this candidate knows up to the newest revision after this call, which others may have written;
        returns LM then. Raises `Indefinite` where the store that all share does not answer."""
        ...

    async def history_bytes(self) -> int:
        """About how many bytes the changes above MM have."""
        ...

    async def leader(self) -> LeaderRecord | None:
        """The newest leader record, None before the first election. It is not always a key of the store."""
        ...

    async def campaign(self, candidate: str) -> Leadership:
        """Waits until `candidate` leads, in a term above all earlier ones. Then it reads all that was written."""
        ...

    async def close(self) -> None:
        """Ends watches and leadership and frees the store; idempotent."""
        ...
