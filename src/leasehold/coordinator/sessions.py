"""Sessions: one stream per node process, with renewals and acknowledgements in, grants and whole revisions out."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from leasehold.coordinator.leasing import Leasing
from leasehold.core import keys
from leasehold.core.catalog import Catalog
from leasehold.core.grantor import SurrenderReceived
from leasehold.core.identity import hash_secret
from leasehold.core.messages import (
    Message,
    OpenSession,
    Renewal,
    SegmentsHeld,
    SessionOpened,
    Surrender,
    TableCleaned,
    Watched,
    WatchFailed,
)
from leasehold.errors import Definite, NotLeader, Refused, Superseded, Unreachable, gravest
from leasehold.ids import Incarnation, NodeId, Revision, Session, Term
from leasehold.limits import (
    CHANGE_FRAMING_BYTES,
    COMMANDS_PER_TRANSACTION_MAX,
    RENEWAL_INTERVAL_NS,
    SESSION_QUEUE_MESSAGES_MAX,
    SESSION_REVISIONS_BYTES_MAX,
    SESSION_REVISIONS_MAX,
)
from leasehold.metastorage.contract import Compacted, FutureRevision, MetaStorage
from leasehold.wire.ports import Duplex

Acknowledge = Callable[[SegmentsHeld | TableCleaned], Awaitable[None]]


log = logging.getLogger(__name__)


class Outbox:
    """What waits for one node, in order. Revisions wait outside while so many or so large ones wait inside; anything
    else goes in at once, as a grant must."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[tuple[Message, int]] = asyncio.Queue(SESSION_QUEUE_MESSAGES_MAX)
        self._revisions = 0
        self._revisions_bytes = 0
        self._taken = asyncio.Event()

    def put(self, message: Message) -> None:
        """Raises `asyncio.QueueFull` with SESSION_QUEUE_MESSAGES_MAX messages inside."""
        self._waiting.put_nowait((message, 0))

    async def put_in_turn(self, message: Watched | WatchFailed) -> None:
        """Waits while it would be more than SESSION_REVISIONS_MAX or SESSION_REVISIONS_BYTES_MAX; for one producer."""
        size = _size(message)
        while self._waiting.full() or (self._revisions and not self._takes(size)):
            self._taken.clear()
            await self._taken.wait()
        self._waiting.put_nowait((message, size))
        self._revisions += 1
        self._revisions_bytes += size

    def _takes(self, size: int) -> bool:
        return self._revisions < SESSION_REVISIONS_MAX and self._revisions_bytes + size <= SESSION_REVISIONS_BYTES_MAX

    async def get(self) -> Message:
        """The next message."""
        message, size = await self._waiting.get()
        if isinstance(message, Watched | WatchFailed):
            self._revisions -= 1
            self._revisions_bytes -= size
        self._taken.set()
        return message


def _size(message: Watched | WatchFailed) -> int:
    changes = message.batch.changes if isinstance(message, Watched) else ()
    return sum(len(one.key) + CHANGE_FRAMING_BYTES + len(one.value or b"") for one in changes)


class _Open(msgspec.Struct):
    session: Session
    incarnation: Incarnation
    outbox: Outbox
    acknowledgements: asyncio.Queue[SegmentsHeld | TableCleaned]
    ended: asyncio.Event

    def reply(self, message: Message) -> None:
        """Hands a message to this stream; one that does not read is cut off."""
        try:
            self.outbox.put(message)
        except asyncio.QueueFull:
            self.ended.set()


class Sessions:
    """All open sessions of this leader."""

    def __init__(
        self, storage: MetaStorage, term: Term, catalog: Callable[[], Catalog], acknowledge: Acknowledge
    ) -> None:
        self._storage = storage
        self._term = term
        self._catalog = catalog
        self._acknowledge = acknowledge
        self._open: dict[NodeId, _Open] = {}

    def connected(self, node: NodeId) -> bool:
        """Whether a session of the node is open; a hint for people, never a proof."""
        return node in self._open

    async def serve(self, duplex: Duplex, leasing: Leasing) -> None:
        """Serves one stream until either side ends it."""
        opening = await duplex.receive()
        if not isinstance(opening, OpenSession):
            raise Refused("a session begins with who speaks", code="BAD_MESSAGE", hint="upgrade the node")
        newest = (await self._storage.status()).latest
        # From here to its registration nothing else runs: no newer process can have come in between.
        self._validate(opening, newest)
        older = self._open.get(opening.node)
        if older is not None:
            older.ended.set()  # the same process has come back on a new stream
        one = _Open(
            session=opening.session,
            incarnation=opening.incarnation,
            outbox=Outbox(),
            acknowledgements=asyncio.Queue(SESSION_QUEUE_MESSAGES_MAX),
            ended=asyncio.Event(),
        )
        one.outbox.put(
            SessionOpened(term=self._term, renew_every_ns=RENEWAL_INTERVAL_NS, latest=self._catalog().revision)
        )
        self._open[opening.node] = one
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._receive(duplex, opening, leasing, one)),
                    group.create_task(self._watch(opening, one)),
                    group.create_task(_forward(one, duplex)),
                    group.create_task(self._acknowledge_in_turn(one)),
                ]
                await one.ended.wait()
                for task in tasks:
                    task.cancel()
        except BaseExceptionGroup as errors:
            gravest_error = gravest(errors)
            if not isinstance(gravest_error, Unreachable):
                raise gravest_error from errors
            # Otherwise the node is gone or cut off: its lease runs out, and it comes back by itself.
        finally:
            if self._open.get(opening.node) is one:
                del self._open[opening.node]

    def _validate(self, opening: OpenSession, newest: Revision) -> None:
        catalog = self._catalog()
        node = catalog.nodes.get(opening.node)
        if catalog.cluster is None or opening.cluster_id != catalog.cluster.cluster_id:
            raise Refused("a session for another cluster", code="OTHER_CLUSTER", hint="check the address")
        if node is None or opening.incarnation > node.incarnation:
            raise NotLeader(
                f"incarnation {opening.incarnation} of node {opening.node} joined under a later leader, if it did",
                hint="the node asks another coordinator",
            )
        if node.removed:
            raise Refused(
                f"node {opening.node} was removed",
                code="REMOVED",
                hint="start with an empty directory and another --name",
            )
        if opening.incarnation < node.incarnation or hash_secret(opening.session) != node.session_hash:
            raise Superseded(
                f"incarnation {opening.incarnation} of node {node.id} is not the newest one, {node.incarnation} is",
                hint="only the newest process of a node is heard; this one ends",
            )
        if opening.watch_from > newest + 1:
            raise Refused(
                f"a watch from revision {opening.watch_from}, the newest one is {newest}",
                code="AHEAD_OF_CLUSTER",
                hint="the meta storage may have been restored from an older backup",
            )

    async def _receive(self, duplex: Duplex, opening: OpenSession, leasing: Leasing, one: _Open) -> None:
        while True:
            message = await duplex.receive()
            match message:
                case None:
                    break
                case Renewal() | Surrender() | SegmentsHeld() | TableCleaned():
                    self._own(message, opening)
                    await _take(message, leasing, one)
                case _:
                    raise Refused(f"a {type(message).__name__} on a session", code="BAD_MESSAGE", hint="upgrade")
        one.ended.set()

    def _own(self, message: Renewal | Surrender | SegmentsHeld | TableCleaned, opening: OpenSession) -> None:
        speaker = (message.node, message.incarnation, message.session)
        if speaker != (opening.node, opening.incarnation, opening.session):
            raise Refused("a message of another process on this session", code="BAD_MESSAGE", hint="upgrade")

    async def _acknowledge_in_turn(self, one: _Open) -> None:
        """Apart from the renewals, which must not wait for a disk; what waits is taken together, so that it shares
        transactions."""
        while True:
            waiting = [await one.acknowledgements.get()]
            while not one.acknowledgements.empty() and len(waiting) < COMMANDS_PER_TRANSACTION_MAX:
                waiting.append(one.acknowledgements.get_nowait())
            await asyncio.gather(*map(self._acknowledge_whole, waiting))

    async def _acknowledge_whole(self, message: SegmentsHeld | TableCleaned) -> None:
        """What the leader declines is no fault of the node's session: it is logged, and the node tells it again."""
        try:
            await self._acknowledge(message)
        except Definite as error:
            if isinstance(message, SegmentsHeld) and len(message.segments) > 1 and error.code == "TOO_LARGE":
                half = len(message.segments) // 2
                for part in (message.segments[:half], message.segments[half:]):
                    await self._acknowledge_whole(msgspec.structs.replace(message, segments=part))
                return
            log.warning(
                "what node %d reports of table %d is declined: %s (%s)",
                message.node,
                message.table,
                error.text,
                error.code,
            )

    async def _watch(self, opening: OpenSession, one: _Open) -> None:
        try:
            async for batch in self._storage.watch(keys.WATCH_START, keys.WATCH_END, opening.watch_from):
                await one.outbox.put_in_turn(Watched(batch=batch))
        except (Compacted, FutureRevision) as error:
            minimum = (await self._storage.status()).minimum
            await one.outbox.put_in_turn(WatchFailed(code=error.code, minimum=minimum))


async def _forward(one: _Open, duplex: Duplex) -> None:
    while True:
        await duplex.send(await one.outbox.get())


async def _take(message: Renewal | Surrender | SegmentsHeld | TableCleaned, leasing: Leasing, one: _Open) -> None:
    match message:
        case Renewal():
            leasing.renew(message, one.reply)
        case Surrender():
            leasing.step(SurrenderReceived(surrender=message), one.reply)
        case SegmentsHeld() | TableCleaned():
            if leasing.live_incarnations([message.node]).get(message.node) == message.incarnation:
                await one.acknowledgements.put(message)
