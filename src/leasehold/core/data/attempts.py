"""One request of a scan to one replica, and the inbox of a segment that its batches go to."""

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from leasehold.core.data.held import Columns, held_bytes
from leasehold.core.data.places import Places
from leasehold.core.data.runtime import Runtime
from leasehold.core.data.segment_files import RowBatch
from leasehold.core.words.messages import AnyReadTicket, BatchMark, Place, ReadTicket
from leasehold.errors import LeaseholdError
from leasehold.ids import NodeId
from leasehold.limits.clients import SCAN_AHEAD_BYTES_MAX


class Batch(RowBatch, Columns, Protocol):
    """Rows that came in one message."""


B = TypeVar("B", bound=Batch)
B_co = TypeVar("B_co", bound=Batch, covariant=True)

Marked: TypeAlias = tuple[B | None, BatchMark]
"""A batch and what its node says of it."""


class BatchStream(Protocol[B_co]):
    """A call to a replica that brings the rows of a segment."""

    def batches(self) -> AsyncGenerator[tuple[B_co | None, BatchMark], None]:
        """Calls the replica: what it sends, once. Raises why it sends no more, unless it says that this was all;
        `Unreachable` with code TIMED_OUT where the deadline of the call has passed."""
        ...

    def cancel(self) -> None:
        """Ends the call, from any thread or task. A call that waits for its first message may go on until its
        deadline. Idempotent."""
        ...


class Replicas(Protocol[B_co]):
    """How a reader calls replicas."""

    def open(self, place: Place, ticket: AnyReadTicket, timeout_ns: int) -> BatchStream[B_co]:
        """A call to a replica. It has a deadline that covers all of it."""
        ...


@dataclass(eq=False)
class Attempt(Generic[B]):
    """One request for a segment's rows. It does not hold its reader: if that is abandoned, the request ends."""

    node: NodeId
    request: ReadTicket
    began_ns: int
    stream: BatchStream[B]
    inbox: "Inbox[B]"
    places: Places
    has_answered: bool = False
    is_dropped: bool = False

    def drop(self) -> None:
        """Its answer counts no more."""
        self.is_dropped = True
        self.stream.cancel()

    async def run(self) -> None:
        """Puts what comes into the inbox, and how it ended. Marks the node as serving or failed for the whole
        client."""
        ended_by: Exception | None = None
        try:
            async with aclosing(self.stream.batches()) as batches:
                async for marked in batches:
                    self.places.served(self.node)
                    if not await self.inbox.put(self, marked):
                        return
        except LeaseholdError as error:
            if not self.is_dropped:
                self.places.failed(self.node, error)
            ended_by = error
        except Exception as error:  # noqa: BLE001 it is raised where the rows are taken
            ended_by = error
        await self.inbox.put(self, ended_by)


Arrived: TypeAlias = tuple[Attempt[B], Marked[B] | Exception | None]
"""A batch, or how the attempt ended: with an error, or orderly."""


class Inbox(Generic[B]):
    """What has come for one segment and was not taken yet, at most SCAN_AHEAD_BYTES_MAX of batches."""

    def __init__(self, runtime: Runtime) -> None:
        self._condition = runtime.condition()
        self._arrived: deque[Arrived[B]] = deque()
        self._size_bytes = 0
        self._is_closed = False

    async def put(self, attempt: Attempt[B], what: Marked[B] | Exception | None) -> bool:
        """Waits for room; a single batch always fits. False if it is not wanted any more."""
        size_bytes = _size_of(what)
        with self._condition:
            while self._size_bytes and self._size_bytes + size_bytes > SCAN_AHEAD_BYTES_MAX and not self._is_closed:
                if attempt.is_dropped:
                    return False
                await self._condition.wait(None)
            if self._is_closed or attempt.is_dropped:
                return False
            self._arrived.append((attempt, what))
            self._size_bytes += size_bytes
            self._condition.notify_all()
            return True

    async def take(self, until_ns: int | None) -> Arrived[B] | None:
        """What came first; None if nothing has come by `until_ns`, or yet. Without an instant it does not wait."""
        with self._condition:
            if not self._arrived and until_ns is not None:
                await self._condition.wait(until_ns)
            if not self._arrived:
                return None
            attempt, what = self._arrived.popleft()
            self._size_bytes -= _size_of(what)
            self._condition.notify_all()
            return attempt, what

    def close(self) -> None:
        """Takes nothing any more, and ends all waits for room."""
        with self._condition:
            self._is_closed = True
            self._arrived.clear()
            self._condition.notify_all()

    def wake(self) -> None:
        """Lets an attempt see that it was dropped."""
        with self._condition:
            self._condition.notify_all()


def _size_of(what: Marked[B] | Exception | None) -> int:
    return held_bytes(what[0]) if isinstance(what, tuple) and what[0] is not None else 0
