"""Write transactions at the leader (decided in `core/data/commit.py`)."""

import logging
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from leasehold.coordinator.nodes.leases import Leasing
from leasehold.coordinator.writer import Writer
from leasehold.core.access.request_rights import check_request
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.data.commit import abort_transaction, commit_transaction, open_transaction
from leasehold.core.ddl.origin import Origin
from leasehold.core.replicas.copies import holders_if_few
from leasehold.core.words.messages import AbortTransaction, CommitTransaction, OpenTransaction, TransactionFacts
from leasehold.core.words.operations import Change
from leasehold.core.words.records import PrincipalRecord, TransactionState
from leasehold.error_codes import ErrorCode
from leasehold.errors import OutcomeUnknown, Refused
from leasehold.ids import PrincipalId, Revision, StatementId, TransactionId
from leasehold.limits.segments import OPEN_TRANSACTIONS_MAX, TRANSACTION_TTL_NS, USER_TRANSACTIONS_MAX
from leasehold.wire.ports import Clock

log = logging.getLogger(__name__)


class _Opened(NamedTuple):
    """When a transaction was opened or last renewed, and by whom as far as this leader knows."""

    at_ns: int
    user: PrincipalId | None = None


class WriteTransactions:
    """The write transactions of one leader. It aborts those that stay open for too long. `wall_us` reads the believed
    wall clock."""

    def __init__(self, writer: Writer, leasing: Leasing, clock: Clock, wall_us: Callable[[], int]) -> None:
        self._writer = writer
        self._leasing = leasing
        self._clock = clock
        self._wall_us = wall_us
        self._opened: dict[TransactionId, _Opened] = {}
        self._note_open()

    def _note_open(self) -> None:
        """Counts time for open transactions that this leader has not heard of: of an earlier leader, or of a client
        that has gone before it was answered. No clock reading outlives its process."""
        now_ns = self._clock.now_ns()
        for record in self._writer.catalog.transactions.values():
            if record.state is TransactionState.OPEN:
                self._opened.setdefault(record.id, _Opened(now_ns))

    async def open(
        self, request: OpenTransaction, statement_of: Callable[[StatementId], Origin | None] = lambda _: None
    ) -> TransactionFacts:
        """Opens a write transaction, or answers the state of the one with that id and restarts its time. `statement_of`
        tells which other statement has an id."""
        user: PrincipalRecord | None = None

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            nonlocal user
            user = check_request(request, catalog)
            if request.transaction not in catalog.transactions:
                self._check_room(user)
            return open_transaction(request, catalog, statement_of(StatementId(request.transaction)))

        await self._writer.submit(decide)
        facts = self._transaction(request.transaction)
        if facts.state is TransactionState.OPEN:
            self._opened[request.transaction] = _Opened(self._clock.now_ns(), None if user is None else user.id)
        return facts

    def _check_room(self, user: PrincipalRecord | None) -> None:
        """Raises `Refused` if the meta storage has no room, or if too many transactions are open."""
        self._writer.check_room()
        text = None
        if len(self._opened) >= OPEN_TRANSACTIONS_MAX:
            text = f"{OPEN_TRANSACTIONS_MAX} write transactions are open"
        elif user is not None and sum(one.user == user.id for one in self._opened.values()) >= USER_TRANSACTIONS_MAX:
            text = f"{USER_TRANSACTIONS_MAX} write transactions of {user.name} are open"
        if text is not None:
            raise Refused(text, code=ErrorCode.BUSY, hint="commit or abort some, or wait until they expire")

    async def commit(self, request: CommitTransaction) -> TransactionFacts:
        """Makes the segments of a transaction visible at one revision."""

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            check_request(request, catalog)
            live = self._leasing.live_incarnations(list(catalog.nodes))
            keys_of = self._leasing.seals.keys.of_living(live)
            return commit_transaction(request, catalog, incarnations=live, seal_keys=keys_of, wall_us=self._wall_us())

        live = self._leasing.live_incarnations(list(self._writer.catalog.nodes))
        await self._leasing.seals.hear_of(request.segments, live)
        revision = await self._writer.submit(decide)
        self._opened.pop(request.transaction, None)
        facts, catalog = self._transaction(request.transaction, revision), self._writer.catalog
        named = (catalog.segments.one((one.table, one.bucket), one.id) for one in request.segments)
        if request.forgets and request.replaces:
            log.warning("%d lost segments were forgotten at revision %d", len(request.replaces), facts.revision)
        short = sum(1 for one in named if one is not None and holders_if_few(one, catalog) is not None)
        return msgspec.structs.replace(facts, segments_short=short)

    async def abort(self, request: AbortTransaction) -> TransactionFacts:
        """Ends a transaction without effect; the answer tells if it was committed before."""

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            check_request(request, catalog)
            return abort_transaction(request.transaction, catalog)

        await self._writer.submit(decide)
        self._opened.pop(request.transaction, None)
        return self._transaction(request.transaction)

    def _transaction(self, transaction: TransactionId, revision: Revision | None = None) -> TransactionFacts:
        catalog = self._writer.catalog
        record = catalog.transactions.get(transaction)
        if record is None:
            text = f"write transaction {transaction[:64]!r} is not known any more"
            raise OutcomeUnknown(
                text, code=ErrorCode.TRANSACTION_FORGOTTEN, hint="count the rows before you write them again"
            )
        return TransactionFacts(
            transaction=transaction,
            state=record.state,
            rows=record.rows,
            revision=revision if revision is not None else catalog.revision,
        )

    async def expire(self) -> None:
        """Aborts transactions that have been open for TRANSACTION_TTL_NS."""
        self._note_open()
        now_ns = self._clock.now_ns()
        for transaction, opened in list(self._opened.items()):
            if now_ns - opened.at_ns >= TRANSACTION_TTL_NS:
                del self._opened[transaction]
                record = self._writer.catalog.transactions.get(transaction)
                if record is not None and record.state is TransactionState.OPEN:
                    await self._writer.submit(lambda catalog, one=transaction: abort_transaction(one, catalog))
