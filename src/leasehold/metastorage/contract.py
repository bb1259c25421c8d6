"""What every meta storage backend promises (docs/design.md, "Meta storage"); `tests/conformance` holds them to it.

Revisions are the store's global counter: every transaction that changes something takes the next one.
All methods raise `Indefinite` when they cannot tell whether they happened, and `Definite` otherwise.
"""

from collections.abc import AsyncGenerator, Callable
from typing import NoReturn, Protocol

import msgspec

from leasehold.core.words.operations import Compare, KeyValue, Page, RevisionChanges, Txn, TxnResult
from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite
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
    """`latest` (LM): newest revision of the lineage key, 0 before the first. `minimum` (MM): oldest revision
    that can still be replayed, 1 on a new store. `cluster_id` is None until initialised."""

    cluster_id: ClusterId | None
    latest: Revision
    minimum: Revision


class Leadership(Protocol):
    """One candidate's time at the head; over for good once lost."""

    @property
    def term(self) -> Term:
        """Higher than every term before it."""
        ...

    def deadline_ns(self) -> int | None:
        """When it ends unless renewed, on the local clock; None where an exclusive lock makes it outlive the clock."""
        ...

    def fence(self) -> tuple[Compare, ...]:
        """What every transaction of this leader must compare: it fails from the moment another one leads."""
        ...

    async def hold(self, on_extended: Callable[[int | None], None]) -> NoReturn:
        """Keeps it, for as long as it is awaited; tells each later `deadline_ns`. Raises `LeadershipLost`."""
        ...

    async def resign(self) -> None:
        """Ends it now, so that a successor need not wait."""
        ...


class MetaStorage(Protocol):
    """A revisioned key-value store with atomic transactions and gapless watches."""

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
        """All revisions >= `from_revision` that change a key in [start, end), for ever: whole, strictly
        increasing, without gap or repeat. Raises `Compacted` when `from_revision` is below MM, and when a
        compaction overtakes a slow watcher. Closing the iterator ends the watch."""
        ...

    async def compact(self, before: Revision) -> None:
        """Forgets what only revisions below `before` can see; `before` becomes MM. What is still visible at
        `before` stays readable. Going back or beyond the newest revision is refused."""
        ...

    async def status(self) -> StorageStatus:
        """Cluster id, LM and MM, read together."""
        ...

    async def campaign(self, candidate: str) -> Leadership:
        """Waits until `candidate` leads, in a term above all earlier ones."""
        ...

    async def close(self) -> None:
        """Ends watches and leadership and frees the store; idempotent."""
        ...
