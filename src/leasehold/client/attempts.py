"""One request of a scan to one replica, on a thread of its own, and the inbox of a segment that its batches go to."""

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyarrow import flight

from leasehold.client.places import Places
from leasehold.core.messages import BatchMark, ReadTicket
from leasehold.errors import LeaseholdError
from leasehold.ids import NodeId
from leasehold.limits.clients import SCAN_AHEAD_BYTES_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.wire.flight import calling, expect, reader_to, ticket

Marked: TypeAlias = tuple[pa.RecordBatch | None, BatchMark]
"""A batch and what its node says of it."""


@dataclass(eq=False)
class Attempt:
    """One request for a segment's rows, on a thread of its own. It holds nothing of the reader that it is made for: one
    that is not read to its end goes, and its threads end."""

    node: NodeId
    address: str
    request: ReadTicket
    began_ns: int
    schema: pa.Schema
    options: flight.FlightCallOptions
    inbox: "Inbox"
    places: Places
    has_answered: bool = False
    is_dropped: bool = False
    _stream: flight.FlightStreamReader | None = None

    def drop(self) -> None:
        """Its answer counts no more. A call that waits for its first message ends by its deadline alone."""
        self.is_dropped = True
        stream = self._stream
        if stream is not None:
            stream.cancel()

    def start(self) -> None:
        """Puts what comes into the inbox, and how it ended. What it learns of the node is known to the whole client at
        once."""
        # Not as a daemon: a thread that comes back from gRPC while the interpreter ends would abort the process. So the
        # end of the program waits for it, at most until the deadline of its call.
        threading.Thread(target=self._run, name=f"scan of node {self.node}", daemon=False).start()

    def _run(self) -> None:
        ended_by: BaseException | None = None
        try:
            for marked in self._batches():
                self.places.served(self.node)
                if not self.inbox.put(self, marked):
                    return
        except LeaseholdError as error:
            if not self.is_dropped:
                self.places.failed(self.node, error)
            ended_by = error
        except BaseException as error:  # noqa: BLE001 it is raised where the rows are taken
            ended_by = error
        self.inbox.put(self, ended_by)

    def _batches(self) -> Iterator[Marked]:
        """What the replica sends. Raises why it sends no more, unless it says that this was all."""
        with calling(self.address):
            self._stream = stream = reader_to(self.address).do_get(ticket(self.request), self.options)
        try:
            while not self.is_dropped:
                with calling(self.address):
                    if not stream.schema.equals(self.schema, check_metadata=True):
                        raise pa.ArrowInvalid("the replica serves another schema than was asked for")
                    try:
                        chunk = stream.read_chunk()
                    except StopIteration:
                        return
                yield chunk.data, expect(BatchMark, chunk.app_metadata)
        finally:
            stream.cancel()


Arrived: TypeAlias = tuple[Attempt, Marked | BaseException | None]
"""A batch, or how the attempt ended: with an error, or orderly."""


class Inbox:
    """What has come for one segment and was not taken yet, at most SCAN_AHEAD_BYTES_MAX of batches."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._arrived: deque[Arrived] = deque()
        self._size_bytes = 0
        self._is_closed = False

    def put(self, attempt: Attempt, what: Marked | BaseException | None) -> bool:
        """Waits for room, which a batch alone always has. False if nobody wants it any more."""
        size_bytes = _size_of(what)
        with self._condition:
            while self._size_bytes and self._size_bytes + size_bytes > SCAN_AHEAD_BYTES_MAX and not self._is_closed:
                if attempt.is_dropped:
                    return False
                self._condition.wait()
            if self._is_closed or attempt.is_dropped:
                return False
            self._arrived.append((attempt, what))
            self._size_bytes += size_bytes
            self._condition.notify_all()
            return True

    def take(self, timeout_ns: int) -> Arrived | None:
        """What came first; None if nothing has come by then."""
        with self._condition:
            if not self._arrived and timeout_ns > 0:
                self._condition.wait(timeout_ns / SECOND_NS)
            if not self._arrived:
                return None
            attempt, what = self._arrived.popleft()
            self._size_bytes -= _size_of(what)
            self._condition.notify_all()
            return attempt, what

    def close(self) -> None:
        """Nothing is taken any more, and nobody waits for room."""
        with self._condition:
            self._is_closed = True
            self._arrived.clear()
            self._condition.notify_all()

    def wake(self) -> None:
        """Lets an attempt see that it was dropped."""
        with self._condition:
            self._condition.notify_all()


def _size_of(what: Marked | BaseException | None) -> int:
    return what[0].nbytes if isinstance(what, tuple) and what[0] is not None else 0
