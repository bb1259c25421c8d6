"""Sending the rows of a write: each share of them becomes a segment on whichever replica of its bucket answers first.
A share may also name old segments, whose rows the replica has itself (`core/data/compactions.py`).

A share stays in memory until a replica has answered for it. If the replica is fenced or dies, the share is sent to
another one under a new segment id: what the first one may have written is never part of the commit. While a replica is
silent, the share is sent to another one as well (`core/data/hedging.py`), and the first answer is taken. A replica that
failed or was overtaken rests a little (`core/data/known.py`).

Several shares are sent at once, beside the caller. Each request to a replica runs beside its share, and puts what comes
into the share's inbox. All decisions are made where the inbox is read.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeAlias, TypeVar, assert_never

from leasehold.core.data.asking import Asking
from leasehold.core.data.hedging import Ask, GiveUp, Hedging, Pause, Wait
from leasehold.core.data.places import Places, silent
from leasehold.core.data.runtime import ConditionVariable, Runtime
from leasehold.core.data.segment_files import RowBatch
from leasehold.core.words.messages import Place, StagedSegment, TableFacts, WriteTicket
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, Refused, Unreachable
from leasehold.ids import BucketNumber, NodeId, NodeLogin, Revision, SegmentId, TransactionId
from leasehold.limits.clients import APPEND_STREAMS, STAGE_CALL_NS, STAGE_PAUSE_NS

FINAL: Final = frozenset(
    {
        ErrorCode.ABORTED,
        ErrorCode.BAD_MESSAGE,
        ErrorCode.BAD_SEGMENT,
        ErrorCode.BAD_TICKET,
        ErrorCode.BAD_TYPE,
        ErrorCode.CERTIFICATE_REVOKED,
        ErrorCode.COLUMN_DROPPED,
        ErrorCode.FORBIDDEN,
        ErrorCode.FORKED,
        ErrorCode.GENERATION_CHANGED,
        ErrorCode.OTHER_CLUSTER,
        ErrorCode.ROWS_DO_NOT_FIT,
        ErrorCode.SCHEMA_CHANGED,
        ErrorCode.SEGMENT_TOO_LARGE,
        ErrorCode.SEGMENT_UNKNOWN,
        ErrorCode.TABLE_DROPPED,
        ErrorCode.TRANSACTION_ENDED,
        ErrorCode.TRANSACTION_UNKNOWN,
        ErrorCode.UNAUTHENTICATED,
    }
)
"""What no other replica would answer differently, for these rows in this transaction."""


class SentRows(RowBatch, Protocol):
    """A part of what a replica is sent."""

    @property
    def nbytes(self) -> int:
        """About how many bytes the replica has to write."""
        ...


B = TypeVar("B", bound=SentRows)
B_contra = TypeVar("B_contra", bound=SentRows, contravariant=True)

Share: TypeAlias = Sequence[B]
"""The rows of one bucket for one segment, in batches."""

_Arrived: TypeAlias = tuple[NodeId, int, StagedSegment | Exception | None]
"""Which replica, since when it is asked, and its answer, why there is none, or that it has taken some of the rows."""


class StagesRows(Protocol[B_contra]):
    """How a sender calls replicas."""

    async def stage(
        self,
        place: Place,
        ticket: WriteTicket,
        share: Sequence[B_contra],
        timeout_ns: int,
        on_progress: Callable[[], None],
    ) -> StagedSegment:
        """Sends rows to a replica: its answer. `on_progress` is called when it has taken some of them.

        Raises why it declined, `Unreachable` where it has not answered within `timeout_ns`.
        """
        ...


@dataclass(frozen=True)
class SenderPorts(Generic[B]):
    """What a sender needs of the world."""

    runtime: Runtime
    replicas: StagesRows[B]
    draw_id: Callable[[], str]
    """128 random bits as hex digits: a part of a segment's id."""
    leaves_out: bool = False
    """Whether replicas may leave out rows, namely hidden ones."""


@dataclass(eq=False)
class _Sending(Generic[B]):
    """A share on its way: its requests, their answers, and why replicas failed."""

    bucket: BucketNumber
    share: Share[B]
    hedging: Hedging
    changed: ConditionVariable
    inbox: deque[_Arrived] = field(default_factory=deque)
    reasons: dict[NodeId, LeaseholdError] = field(default_factory=dict)

    def put(self, arrived: _Arrived) -> None:
        with self.changed:
            self.inbox.append(arrived)
            self.changed.notify_all()

    async def take(self, until_ns: int) -> _Arrived | None:
        """What came first; None if nothing has come by `until_ns`, or yet."""
        with self.changed:
            if not self.inbox:
                await self.changed.wait(until_ns)
            return self.inbox.popleft() if self.inbox else None


class RowSender(Generic[B]):
    """Sends the rows of one open `transaction`. `revision` is the newest that the caller has seen, that of the opened
    transaction."""

    def __init__(
        self,
        facts: TableFacts,
        transaction: TransactionId,
        revision: Revision,
        places: Places,
        ports: SenderPorts[B],
        *,
        login: NodeLogin | None,
        asking: Asking,
    ) -> None:
        self._facts = facts
        self._transaction = transaction
        self._revision = revision
        self._places = places
        self._writes = places.known.writes
        self._runtime = ports.runtime
        self._now_ns = ports.runtime.now_ns
        self._replicas = ports.replicas
        self._draw_id = ports.draw_id
        self._leaves_out = ports.leaves_out
        self._login = login
        self._asking = asking
        self._changed = ports.runtime.condition()
        self._waiting: deque[tuple[int, BucketNumber, Share[B]]] = deque()
        self._started = 0
        self._staged: dict[int, StagedSegment] = {}
        """By the number of the share."""
        self._error: Exception | None = None
        self._is_stopped = False

    def start(self, shares: Sequence[tuple[BucketNumber, Share[B]]]) -> None:
        """Sends these shares beside the caller, APPEND_STREAMS of them at once. Those before have to be `sent`."""
        with self._changed:
            assert len(self._staged) == self._started, "one load is on its way at a time"
            self._waiting.extend((number, *one) for number, one in enumerate(shares, self._started))
            self._started += len(shares)
        for number in range(min(APPEND_STREAMS, len(shares))):
            self._runtime.start(self._work(), name=f"append {number}")

    async def sent(self) -> None:
        """Waits until all shares are staged.

        Raises what stands against one of them as soon as that is known: `Refused` with code ROWS_DO_NOT_FIT and other
        definite refusals, `Unreachable` with code NO_REPLICA once no replica has taken it for as long as `asking` says.
        """
        with self._changed:
            while self._error is None and len(self._staged) < self._started:
                await self._changed.wait(None)
        if self._error is not None:
            raise self._error

    @property
    def staged(self) -> tuple[StagedSegment, ...]:
        """The segments of all shares, in their order, once they are `sent`: what to commit."""
        return tuple(self._staged[number] for number in sorted(self._staged))

    def stop(self) -> None:
        """Gives up the shares that are not staged yet; idempotent. What hangs in a call ends by its deadline."""
        self._is_stopped = True

    async def _work(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    return
                number, bucket, share = self._waiting.popleft()
            staged: StagedSegment | Exception
            try:
                staged = await self._send(bucket, share)
            except Exception as error:  # noqa: BLE001 it is raised where the shares are waited for
                staged = error
            with self._changed:
                if isinstance(staged, StagedSegment):
                    self._staged[number] = staged
                else:
                    self._error = self._error or staged
                self._changed.notify_all()

    async def _send(self, bucket: BucketNumber, share: Share[B]) -> StagedSegment:
        hedging = Hedging(self._order(bucket), give_up_ns=self._asking.for_ns, pause_ns=STAGE_PAUSE_NS)
        sending = _Sending(bucket, share, hedging, self._runtime.condition())
        size_bytes = sum(batch.nbytes for batch in share)
        while True:
            if self._is_stopped:
                raise self._nobody(sending)
            now_ns = self._now_ns()
            step = hedging.move(now_ns, delay_ns=self._writes.delay_ns(size_bytes), may_hedge=self._writes.may_hedge)
            match step:
                case Ask(node=node, also=also):
                    self._writes.asked(also=also)
                    self._ask(sending, node)
                case Wait(until_ns=until_ns):
                    arrived = await sending.take(until_ns)
                    staged = None if arrived is None else self._take(sending, *arrived)
                    if staged is not None:
                        return staged
                case Pause(until_ns=until_ns):
                    if hedging.gives_up_ns is not None:
                        self._asking.again(self._nobody(sending), hedging.gives_up_ns - now_ns)
                    await self._runtime.sleep_until(until_ns)
                    await self._places.look_again()
                    hedging.moved(self._order(bucket))
                case GiveUp():
                    silence = {node: silent(now_ns - since_ns) for node, since_ns in hedging.asked.items()}
                    sending.reasons.update(silence)
                    raise self._nobody(sending)
                case _:
                    assert_never(step)

    def _order(self, bucket: BucketNumber) -> tuple[NodeId, ...]:
        return self._places.in_turn(self._places.replicas(bucket))

    def _nobody(self, sending: _Sending[B]) -> Unreachable:
        what = f"no replica takes rows for bucket {sending.bucket} of {self._facts.name}"
        return self._places.nobody(what, sending.reasons, is_write=True)

    def _take(
        self, sending: _Sending[B], node: NodeId, began_ns: int, what: StagedSegment | Exception | None
    ) -> StagedSegment | None:
        """What a replica did: its answer, if that is one."""
        hedging, now_ns = sending.hedging, self._now_ns()
        match what:
            case None:
                hedging.progressed(node, now_ns)
            case StagedSegment():
                assert hedging.is_asked(node), "the first answer ends it"
                for other in hedging.heard(node, now_ns):
                    self._places.failed(other, silent(now_ns - began_ns))
                self._places.served(node)
                self._writes.answered(now_ns - began_ns)
                self._asking.answered()
                return what
            case LeaseholdError() if what.code not in FINAL:
                sending.reasons[node] = what
                self._places.failed(node, what)
                hedging.failed(node)
            case Exception():
                raise what
        return None

    def _ask(self, sending: _Sending[B], node: NodeId) -> None:
        place = self._places.place(node)
        if place is None:
            sending.reasons[node] = Unreachable("its address is not known", code=ErrorCode.NO_ADDRESS)
            sending.hedging.failed(node)
            return
        # Not as a daemon: a thread that comes back from gRPC while the interpreter ends would abort the process.
        self._runtime.start(self._attempt(sending, place), name=f"append to node {node}")

    async def _attempt(self, sending: _Sending[B], place: Place) -> None:
        node = place.node
        began_ns = self._now_ns()
        what: StagedSegment | Exception
        try:
            what = await self._call(sending, place, lambda: sending.put((node, began_ns, None)))
        except Exception as error:  # noqa: BLE001 it is raised where the answer is waited for
            what = error
        sending.put((node, began_ns, what))

    async def _call(self, sending: _Sending[B], place: Place, on_progress: Callable[[], None]) -> StagedSegment:
        ticket = WriteTicket(
            cluster_id=self._facts.cluster_id,
            transaction=self._transaction,
            segment=SegmentId(f"{self._transaction}-{self._draw_id()}"),
            table=self._facts.table,
            bucket=sending.bucket,
            schema_version=self._facts.schema_version,
            revision=max(self._revision, self._places.revision),
            login=self._login,
        )
        rows = sum(batch.num_rows for batch in sending.share)
        staged = await self._replicas.stage(place, ticket, sending.share, STAGE_CALL_NS, on_progress)
        has_rows = 0 <= staged.rows <= rows if self._leaves_out else staged.rows == rows
        if (staged.id, staged.bucket) != (ticket.segment, sending.bucket) or not has_rows or not staged.holders:
            raise Refused(f"{place.address} confirmed other rows than it was sent", code=ErrorCode.BAD_ANSWER)
        return staged
