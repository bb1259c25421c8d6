"""How a coordinator gets its replica: the one in its directory if that can go on, else one from the checkpoint."""

import logging
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from leasehold.core.log.entry import DoesNotFollow, follow
from leasehold.core.membership.generations import end_of
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.records import CheckpointChunk, ClusterRecord, LogBody, LogCheckpoint, LogPosition
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, Indefinite
from leasehold.ids import EntryId, Generation
from leasehold.limits.log import LOG_HEAD_POLL_NS, LOG_PROGRESS_NS
from leasehold.metastorage.log.log import Log, OldHead, Trimmed
from leasehold.metastorage.log.replica import Replica, ReplicaPlace
from leasehold.metastorage.transaction import generation_of
from leasehold.wire.ports import Clock, Entropy

log = logging.getLogger(__name__)

SET_BACK_LOOKS: Final = 3


class Progress:
    """Says in the log how far something is, each LOG_PROGRESS_NS; nothing about what is done sooner."""

    def __init__(self, clock: Clock, what: str) -> None:
        self._clock = clock
        self._what = what
        self._said_ns = clock.now_ns()

    def at(self, done: int, whole: int) -> None:
        now_ns = self._clock.now_ns()
        if now_ns - self._said_ns >= LOG_PROGRESS_NS:
            self._said_ns = now_ns
            log.info("%s: %d of %d", self._what, done, whole)


class OtherLog(BadDirectory):
    """The replica is of another log than the one in the store."""

    default_code = ErrorCode.OTHER_LOG


class StoreSetBack(BadDirectory):
    """The replica holds what the log does not hold, or no longer."""

    default_code = ErrorCode.STORE_SET_BACK


async def opened(shared: Log, place: ReplicaPlace, clock: Clock, entropy: Entropy) -> Replica:
    """The replica of a coordinator that starts. Where there is none, it is built, and so is the log. Raises `OtherLog`,
    `StoreSetBack`, `MetaMoved` and `MetaUnfinished`, and leaves store and replica as they are then."""
    replica = await place.open()
    if replica is None:
        await shared.store.members()  # refuses endpoints of two clusters, before anything is written
        log_id = await shared.make(EntryId(entropy.hex_128()))
        await shared.head()  # before anything is built of a log that was moved
        return await built(shared, place, clock, log_id)
    try:
        await shared.store.members()
        log_id = await shared.log_id()
        if log_id != replica.log_id:
            there = "there is none" if log_id is None else f"that is {log_id}"
            raise OtherLog(
                f"the replica here is of log {replica.log_id}, and in the store {there}",
                hint="check --meta; in another cluster, and after a move, a coordinator needs an empty directory",
            )
        await check_reached(shared, replica.position, clock)
    except Trimmed:
        log.info("the replica lies too far behind: it is built anew")
        before = await followed(replica)
        await replica.close()
        return await built(shared, place, clock, replica.log_id, before)
    except BaseException:
        await replica.close()
        raise
    return replica


async def check_reached(shared: Log, position: LogPosition, clock: Clock) -> None:
    """Raises `StoreSetBack` unless the log has had this position, and `Trimmed` if that is too long ago to tell. It
    looks several times: some releases of etcd can answer with an old head for a moment."""
    looks = 0
    while not await shared.went_through(position):
        looks += 1
        if looks < SET_BACK_LOOKS:
            await clock.sleep_until(clock.now_ns() + LOG_HEAD_POLL_NS)
            continue
        raise _set_back(position)


class OldHeads:
    """Notices a store that is set back under a coordinator that runs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_ns: int | None = None

    def met(self, error: Indefinite, position: LogPosition) -> None:
        """The head could not be read. Raises `StoreSetBack` once the store has answered with old heads, and with
        nothing else, for SET_BACK_LOOKS polls: no release does that by itself."""
        if not isinstance(error, OldHead):
            self._since_ns = None  # of the time without an answer nothing is known
            return
        now_ns = self._clock.now_ns()
        if self._since_ns is None:
            self._since_ns = now_ns
        elif now_ns - self._since_ns >= SET_BACK_LOOKS * LOG_HEAD_POLL_NS:
            raise _set_back(position)

    def end(self) -> None:
        """The head was read."""
        self._since_ns = None


def _set_back(position: LogPosition) -> StoreSetBack:
    return StoreSetBack(
        f"this coordinator has followed the log up to entry {position.number}, which the store does not hold: the"
        " store was set back, or its data was lost",
        hint="restore a newer snapshot of the store, or give this directory to `leasehold recover --from`; to go on"
        " with what the store holds, move the directory away",
    )


class Followed(NamedTuple):
    """Which history a replica has followed, and how far."""

    generation: Generation
    position: LogPosition

    def check(self, chunk: CheckpointChunk) -> None:
        """Looks for the cluster record in a chunk of what is in the store; as `check_within`."""
        for row in chunk.rows:
            if row.key == keys.CLUSTER and row.value is not None:
                self.check_within(decode_record(ClusterRecord, row.value))

    def check_within(self, cluster: ClusterRecord) -> None:
        """Raises `StoreSetBack` if the history in the store left this one before."""
        if cluster.generation == self.generation:
            return
        left = end_of(cluster, self.generation)
        if left is None or self.position.revision > left.revision:
            raise _set_back(self.position)


async def followed(replica: Replica) -> Followed:
    """Of a replica that is about to be built anew."""
    return Followed(generation_of(await replica.get(keys.CLUSTER)), replica.position)


async def built(
    shared: Log, place: ReplicaPlace, clock: Clock, log_id: EntryId, before: Followed | None = None
) -> Replica:
    """A replica from the newest checkpoint, in place of one that has followed `before`. Raises `StoreSetBack`, and
    leaves that one as it is then."""
    while True:
        found = await shared.checkpoint()
        checkpoint = None if found is None else found.checkpoint
        try:
            return await place.build(log_id, checkpoint, chunks_of(shared, checkpoint, clock, before))
        except Trimmed:
            continue  # a newer one has taken its place


async def apply_until(shared: Log, replica: Replica, head: LogPosition, progress: Progress) -> None:
    """Applies the entries up to `head`. Raises `DoesNotFollow` and `Trimmed`."""
    while replica.position != head:
        if replica.position.number >= head.number:
            raise DoesNotFollow("the replica is ahead of the log, or on another way")
        position, bodies = replica.position, list[LogBody]()
        for entry, blob in await shared.entries_after(position.number):
            if entry.number <= head.number:
                position, body = follow(position, entry, blob)
                bodies.append(body)
        await replica.apply(position, bodies)
        progress.at(position.number, head.number)


async def chunks_of(
    shared: Log, checkpoint: LogCheckpoint | None, clock: Clock, before: Followed | None = None
) -> AsyncIterator[CheckpointChunk]:
    """The chunks of a checkpoint, none without one. Raises as `Log.read_chunk`, and as `Followed.check_within`."""
    if checkpoint is not None:
        progress = Progress(clock, "chunks of the checkpoint that the replica has loaded")
        for index in range(len(checkpoint.chunks)):
            chunk = await shared.read_chunk(checkpoint, index)
            if before is not None:
                before.check(chunk)
            yield chunk
            progress.at(index + 1, len(checkpoint.chunks))
