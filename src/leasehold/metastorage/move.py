"""The two ends of a move of a meta storage: ports. `coordinator.migrate` has the order of the steps."""

from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Protocol

import msgspec

from leasehold.core.words.records import LeaderRecord, MetaMoveRecord
from leasehold.ids import ClusterId, EntryId
from leasehold.metastorage.copyable import StoredContent
from leasehold.metastorage.restore_target import MetaStorageExists
from leasehold.metastorage.sqlite import SqliteMetaStorage


class MoveSource(Protocol):
    """A meta storage on which nobody leads."""

    @property
    def where(self) -> str:
        """What and where it is, for messages."""
        ...

    @property
    def id(self) -> EntryId | None:
        """Of the log; None for a file."""
        ...

    async def claim(self) -> MetaMoveRecord | None:
        """Makes sure that nobody leads on it; answers its mark, None unless it was moved. Raises `NotFound` with code
        NO_META_STORAGE where there is none, `BadDirectory` or `StillLed` while a coordinator runs."""
        ...

    async def read(self) -> SqliteMetaStorage:
        """All of it, in an open file of a `CopyableDatabase`, until `close`."""
        ...

    async def leader(self) -> LeaderRecord | None:
        """The newest leader record."""
        ...

    async def size_bytes(self) -> int:
        """About how much it takes; once it is read."""
        ...

    async def mark(self, move: MetaMoveRecord) -> None:
        """Marks it durably: from then on no coordinator leads on it. Raises `StillLed`, and changes nothing, if
        somebody has led on it since `claim`."""
        ...

    async def close(self) -> None:
        """Idempotent."""
        ...


class MoveStage(Enum):
    """What the target of a move holds."""

    EMPTY = auto()
    FILLING = auto()
    """A part of a move that was interrupted, or goes on."""
    WHOLE = auto()


class TargetState(msgspec.Struct, frozen=True, kw_only=True):
    """What a look at a target found."""

    stage: MoveStage
    id: EntryId | None = None
    """Of the log that is there, whole or not; None for a file."""
    cluster_id: ClusterId | None = None
    """Of the cluster that moves there; None if nothing is filling it."""


class MovePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What goes with the content."""

    id: EntryId
    """Of the move, and of the log that it makes."""
    cluster_id: ClusterId
    leader: LeaderRecord
    """Nobody leads by it; the next term is above its term."""
    size_bytes: int


class MoveTarget(Protocol):
    """An empty place for a meta storage."""

    @property
    def where(self) -> str:
        """As in `MetaMoveRecord.to`."""
        ...

    async def look(self) -> TargetState:
        """Writes nothing. Raises `BadDirectory` if a coordinator uses it."""
        ...

    async def take(
        self,
        plan: MovePlan,
        content: StoredContent,
        *,
        ready: Callable[[SqliteMetaStorage], Awaitable[None]],
        on_rows: Callable[[int], None],
    ) -> None:
        """Writes all, reads it back, and awaits `ready` with what it read. Only then, and in one step, does it become a
        meta storage that a coordinator may use. Whatever an earlier try has left is replaced. `on_rows` gets the number
        of rows written."""
        ...

    async def is_of(self, move: EntryId, cluster_id: ClusterId) -> bool:
        """Whether the whole meta storage that is there was made by this move."""
        ...

    def taken(self) -> MetaStorageExists:
        """The error for a place that is not empty."""
        ...
