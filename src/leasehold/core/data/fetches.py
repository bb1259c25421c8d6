"""Fetching: whole segments from one node to another, when a replica lacks what its bucket should hold.

Segments are immutable, and the manifest has the hash of each. So a node without a lease may give and take copies. No
right covers a whole segment: the asking process proves by its session that it is a node, as last known here.

Both sides count the hash of a copy. The node that asks throws away a copy that differs, and asks the next one. The node
that gave it has its own file checked (`node/disk/scrub.py`).
"""

import hashlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Final, Protocol

from leasehold.core.data.manifest import Manifest
from leasehold.core.data.peers import Chunk
from leasehold.core.data.requests import Requests, Serving, Slots, check_cluster, check_node, missing
from leasehold.core.data.segment_files import GivesFiles, NewFile, WritesFiles, file_of
from leasehold.core.data.write_access import Peer
from leasehold.core.replicas.reconcile import OnDisk
from leasehold.core.words.messages import FetchTicket
from leasehold.core.words.records import SegmentRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import AlreadyExists, Corrupt, LeaseholdError, Refused
from leasehold.ids import ClusterId, NodeId
from leasehold.limits.flight import FLIGHT_READS_MAX
from leasehold.limits.replication import FETCH_BASE_NS, FETCH_BYTES_PER_SECOND_MIN
from leasehold.limits.segments import SEGMENT_BYTES_MAX, SEGMENT_ROWS_MAX
from leasehold.limits.units import SECOND_NS

SHA256_BYTES: Final = 32


class Fetches:
    """Serves fetch tickets."""

    def __init__(self, requests: Requests, files: GivesFiles, manifest: Manifest) -> None:
        self._serving = requests.serving
        self._manifest = manifest
        self._files = files
        self._reading = Slots(requests.runtime, "fetches", FLIGHT_READS_MAX)
        self._counting = requests.runtime.condition()
        self.segments_given = 0
        """Whole copies; `bytes_given` counts those that broke off too. For people."""
        self.bytes_given = 0

    def open(self, request: FetchTicket) -> None:
        """Raises what stands against a request, without a guard; `Forbidden` unless a node asks."""
        check_cluster(self._serving, request.cluster_id)
        check_node(request.node, request.session, self._serving.view)
        if not self._files.exists(file_of(request)):
            raise missing(self._serving, request.segment)

    async def give(self, request: FetchTicket) -> AsyncGenerator[bytes, None]:
        """The bytes of a segment, once `open` has found nothing against it."""
        digest = hashlib.sha256()
        with self._reading.one():
            try:
                async with aclosing(self._files.chunks(file_of(request))) as chunks:
                    async for chunk in chunks:
                        digest.update(chunk)
                        with self._counting:
                            self.bytes_given += len(chunk)
                        yield chunk
            except Corrupt:
                self._files.suspect(file_of(request))
                raise
            entry = self._manifest.segment((request.table, request.bucket), request.segment).segment
            if entry is not None and entry.sha256 != digest.digest():
                self._files.suspect(file_of(request))
            with self._counting:
                self.segments_given += 1


class GetsCopies(Protocol):
    """How copies are asked for."""

    def chunks(self, peer: Peer, request: FetchTicket, timeout_ns: int) -> AsyncGenerator[Chunk, None]:
        """The bytes that the peer gives, for at most `timeout_ns`. Ends the call when it is closed.

        Raises `Unreachable`, and what that node answers.
        """
        ...


OnAsked = Callable[[NodeId, LeaseholdError | None, int], None]


def check_record(record: SegmentRecord) -> None:
    """Raises `Refused` with code BAD_SEGMENT_RECORD for sizes that no segment can have: no file could match them."""
    if not 0 < record.size_bytes <= SEGMENT_BYTES_MAX:
        why = f"{record.size_bytes} bytes"
    elif not 0 <= record.rows <= SEGMENT_ROWS_MAX:
        why = f"{record.rows} rows"
    elif len(record.sha256) != SHA256_BYTES:
        why = f"a SHA-256 of {len(record.sha256)} bytes"
    else:
        return
    raise Refused(
        f"the manifest says that segment {record.id[:80]} has {why}, which is not possible",
        code=ErrorCode.BAD_SEGMENT_RECORD,
        hint="upgrade this node; if it is up to date, the manifest is wrong: write the rows again to another table",
    )


async def fetch_segment(
    files: WritesFiles,
    copies: GetsCopies,
    record: SegmentRecord,
    places: Sequence[Peer],
    *,
    cluster_id: ClusterId,
    asking: Serving,
    on_asked: OnAsked,
) -> bool:
    """Copies a segment from the first of `places` that has it whole; whether this disk holds it now, verified.

    A file that is there already is never replaced. `on_asked` gets each place that was asked, what was wrong with its
    copy (None if it was whole), and how many bytes of it were written. Raises `Refused` (DISK_FULL) and `Definite`
    (DISK_ERROR) for this node's own disk, and `Refused` (BAD_SEGMENT_RECORD, BAD_SEGMENT_NAME) for a record that
    describes no segment.
    """
    check_record(record)
    here = OnDisk(record.table, record.bucket, record.id)
    if files.exists(here):
        return await files.is_whole(record)
    request = FetchTicket(
        cluster_id=cluster_id,
        table=record.table,
        bucket=record.bucket,
        segment=record.id,
        node=asking.node,
        session=asking.session,
    )
    for peer in places:
        try:
            file = files.create(here)
        except AlreadyExists:
            return False  # being written this moment: the next round sees what became of it
        with file:
            error = await _copied(file, copies, request, record, peer)
            if error is None:
                await file.finish()
        on_asked(peer.node, error, file.size_bytes)
        if error is None:
            return True
    return False


async def _copied(
    file: NewFile, copies: GetsCopies, request: FetchTicket, record: SegmentRecord, peer: Peer
) -> LeaseholdError | None:
    """None once `file` holds exactly the segment, else what the peer did wrong."""
    digest = hashlib.sha256()
    timeout_ns = FETCH_BASE_NS + record.size_bytes * SECOND_NS // FETCH_BYTES_PER_SECOND_MIN
    async with aclosing(copies.chunks(peer, request, timeout_ns)) as chunks:
        while True:
            # Only what the peer does wrong is caught: an error of this disk would be the same with the next peer.
            try:
                chunk = await anext(chunks, None)
            except LeaseholdError as error:
                return error
            if chunk is None:
                whole = file.size_bytes == record.size_bytes and digest.digest() == record.sha256
                return None if whole else _differs(record, peer.address)
            if file.size_bytes + len(chunk) > record.size_bytes:
                return _differs(record, peer.address)
            digest.update(chunk)
            file.write(chunk)


def _differs(record: SegmentRecord, address: str) -> Corrupt:
    return Corrupt(
        f"the copy of segment {record.id} at {address} is not what the manifest says",
        hint="that node checks its file now",
    )
