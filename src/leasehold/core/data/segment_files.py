"""The port by which steps of the data plane write and read segment files of this node, whatever a row is there."""

from collections.abc import AsyncGenerator, Callable
from typing import Protocol, Self, TypeAlias, TypeVar

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.data.hidden_rows import Hiding
from leasehold.core.data.peers import Chunk
from leasehold.core.lease.holder import Pass
from leasehold.core.replicas.reconcile import OnDisk
from leasehold.core.words.messages import FetchTicket, ForwardTicket, ReadTicket, WriteTicket
from leasehold.core.words.records import Field, SegmentRecord

Stamp = tuple[int, ...]
"""Distinguishes two finished files of one name without reading them."""


def file_of(ticket: ReadTicket | WriteTicket | ForwardTicket | FetchTicket) -> OnDisk:
    return OnDisk(ticket.table, ticket.bucket, ticket.segment)


class RowBatch(Protocol):
    """Rows as they are read and sent."""

    @property
    def num_rows(self) -> int: ...


B = TypeVar("B", bound=RowBatch)


class NewFile(Protocol):
    """A segment file being written. As a context manager it discards what was not finished."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    @property
    def size_bytes(self) -> int: ...

    def write(self, chunk: Chunk) -> None:
        """Appends bytes. Raises `Refused` with code DISK_FULL, `Definite` with code DISK_ERROR."""
        ...

    async def finish(self) -> None:
        """Makes the segment visible: once this returns it survives a loss of power."""
        ...


class FindsFiles(Protocol):
    """Knows which segments are there."""

    def exists(self, one: OnDisk) -> bool:
        """Whether a segment is there, finished."""
        ...


class WritesFiles(FindsFiles, Protocol):
    """Takes new files. A name that is none of a segment is `Refused` with code BAD_SEGMENT_NAME."""

    def create(self, one: OnDisk) -> NewFile:
        """Begins a file. Raises `AlreadyExists` if it is there or being written."""
        ...

    async def is_whole(self, record: SegmentRecord) -> bool:
        """Whether a finished file is what the manifest says, and survives a loss of power."""
        ...


class SuspectsFiles(FindsFiles, Protocol):
    """Hears of files that may be damaged."""

    def suspect(self, one: OnDisk) -> None:
        """Has a file read whole soon. If it is damaged and another node holds the segment, the file is replaced."""
        ...


class GivesFiles(SuspectsFiles, Protocol):
    """Gives the bytes of finished files."""

    def chunks(self, one: OnDisk) -> AsyncGenerator[bytes]:
        """All bytes of a file in their order. Raises `Corrupt` if it can't be read."""
        ...


Opening: TypeAlias = Callable[[int], None]
"""Called before a file is opened, with about what it takes in memory until the next one is opened. It may block, and
raise."""


def no_opening(size: int) -> None:
    """For readers that are few."""
    del size


class ReadsSegments(SuspectsFiles, Protocol[B]):
    """Reads rows from finished files."""

    def stamp(self, one: OnDisk) -> Stamp | None:
        """Of the file that is there now; None if there is none."""
        ...

    async def verify(self, one: OnDisk, sha256: bytes) -> None:
        """Reads the whole file. Raises `Corrupt` if it has another hash, another `Definite` if that is unknown."""
        ...

    def batches(
        self, ticket: ReadTicket, telling: tuple[Field, ...], row: int, rows: int, opening: Opening
    ) -> AsyncGenerator[tuple[B, int]]:
        """The rows from `row` to `rows`, their number in the file, that fulfil the ticket's conditions.

        They have the ticket's columns and behind them those that tell which rows are hidden. Each batch comes with how
        many rows of the file it stands for.

        Raises what `opening` does, `Corrupt` for damaged bytes, and other errors that say nothing against the file.
        """
        ...

    def shown(self, batch: B, hiding: Hiding, segment: SegmentRecord, columns: int) -> B:
        """The rows that are not hidden, in the first `columns` columns. Raises `Refused` with code ROWS_TAKEN_AWAY."""
        ...

    def log(self, ticket: ReadTicket, passed: Pass[Catalog], batch: B | None) -> None:
        """Notes that a batch, or the whole file, is released now, for good or not at all: what this raises keeps it
        here."""
        ...
