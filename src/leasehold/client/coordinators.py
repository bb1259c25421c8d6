"""What clients ask coordinators: statements, how the cluster stands, where a table's rows are, write transactions.

No rows pass here, so nothing of Arrow is loaded: that is for `client/cluster.py`, which adds tables and views.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Self, TypeAlias, TypeVar

from leasehold.client.coordinator_check import check_of
from leasehold.client.credentials import Credentials
from leasehold.client.known import Known
from leasehold.client.locate import locate
from leasehold.client.login import LoginConnection
from leasehold.client.places import Refresh
from leasehold.client.removing import remove_node
from leasehold.core.messages import (
    AbortTransaction,
    AgreeCutoff,
    AskReceipts,
    AskStatus,
    AskTable,
    AskView,
    ClusterFacts,
    ClusterStatus,
    CommitTransaction,
    Cutoff,
    Execute,
    Initialise,
    KnownBarrier,
    Message,
    NodeRemoved,
    OpenTransaction,
    PlanQuery,
    PlanScan,
    QueryPlan,
    Receipt,
    Receipts,
    Replaced,
    Rows,
    ScanPlan,
    StagedSegment,
    TableFacts,
    TransactionFacts,
    ViewFacts,
    WaitingFor,
    WhoAreYou,
)
from leasehold.errors import (
    BadSettings,
    Indefinite,
    LeaseholdError,
    NotInitialised,
    NotLeader,
    OutcomeUnknown,
    Refused,
    SealUnknown,
    Unreachable,
)
from leasehold.ids import ClusterId, LoginToken, ObjectId, StatementId, TransactionId
from leasehold.limits import (
    CALL_TIMEOUT_NS,
    CLIENT_PATIENCE_NS,
    CONNECT_TIMEOUT_NS,
    DURATION_NS_MAX,
    LATE_ANSWER_NS,
    PLACES_TIMEOUT_NS,
    RECEIPTS_PAGE_MAX,
    RETRY_PAUSE_NS,
    SECOND_NS,
    STATEMENT_RESOLVE_NS,
)
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.clock import BoottimeClock, sleep_ns
from leasehold.wire.entropy import SystemEntropy

A = TypeVar("A")
M = TypeVar("M", bound=Message)
Errors: TypeAlias = type[LeaseholdError] | tuple[type[LeaseholdError], ...]


_unreachable = partial(
    Unreachable, hint="see that a coordinator runs: `leasehold status` shows what this machine reaches"
)
"""No coordinator has answered, and nothing was sent that could change anything."""


def _checked_ns(timeout: float) -> int:
    if not 0 < timeout * SECOND_NS <= DURATION_NS_MAX:  # nor is NaN
        most_s = DURATION_NS_MAX // SECOND_NS
        raise BadSettings(f"timeout is {timeout}", hint=f"give more than nothing and at most {most_s} seconds")
    return max(1, round(timeout * SECOND_NS))


class Coordinators:
    """A connection to a cluster's coordinators; use it as a context manager. Not for use from several threads at once:
    only what `looking_again` gives is.

    While no coordinator answers or leads, each method asks again for `timeout` seconds, by default 30; but for
    `status`, `whoami`, `barriers`, `initialise` and `try_abort`, which ask once. `on_retry` is told what was answered,
    and for how many seconds it is asked yet.
    """

    def __init__(
        self,
        target: str | Path,
        *,
        user: str | None = None,
        password: str | Callable[[], str] | None = None,
        token: LoginToken | None = None,
        timeout: float | None = None,
        on_retry: Callable[[LeaseholdError, float], None] | None = None,
    ) -> None:
        self._patience_ns = CLIENT_PATIENCE_NS if timeout is None else _checked_ns(timeout)
        self._on_retry = on_retry
        self.target = str(target)
        self.address = locate(target)
        self._connection = LoginConnection(
            BlockingConnection(self.address), Credentials(user, password), token, check=check_of(target, self.address)
        )
        self._clock = BoottimeClock()
        self._entropy = SystemEntropy()
        self._cluster_id: ClusterId | None = None
        self.known = Known()
        """What this client knows, shared by all that it reads and writes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Logs out if it has logged in: where the cluster has users, scans that are not read to their end by then fail.
        Idempotent."""
        self._connection.close()

    @property
    def token(self) -> LoginToken | None:
        """What nodes are shown; a secret. None where no login was needed."""
        return self._connection.token

    def hand_on(self) -> LoginToken | None:
        """As `token`, for processes that work on once this is closed: it logs out no more."""
        return self._connection.hand_on()

    # ------------------------------------------------------------ statements

    def sql(
        self,
        text: str,
        *,
        statement_id: StatementId | None = None,
        is_new_id: bool = False,
        on_wait: Callable[[WaitingFor], None] | None = None,
        timeout: float | None = None,
    ) -> Receipt | Rows:
        """Runs one statement. DDL answers a `Receipt`, SHOW and DESCRIBE answer `Rows`.

        After `timeout` seconds a statement that has not begun is refused (TIMED_OUT), one that takes something away is
        rolled back, and one whose change is committed ends as COMMITTED_PENDING: see the receipt's `outcome`.
        A statement whose answer is lost is asked for again by its id, so it happens once. `is_new_id` says that no
        earlier call can have sent the statement under `statement_id`. `on_wait` is told whom it waits for. Raises
        `Refused` and its kin (nothing changed), `BadSettings` for a timeout out of range, `Unreachable` (the cluster
        could not be asked), `OutcomeUnknown` (ask again later with the same `statement_id`).
        """
        timeout_ns = None if timeout is None else _checked_ns(timeout)
        patience_ns = self._patience_ns if timeout_ns is None else timeout_ns + LATE_ANSWER_NS
        statement = statement_id or StatementId(self._entropy.hex_128())
        hint = f"ask again with the same statement id, {statement}: it is never run twice"
        unknown = partial(OutcomeUnknown, hint=hint, statement_id=statement)
        if self._cluster_id is None:
            # This call has sent nothing yet. An earlier one may have sent the statement under the same id.
            failed = _unreachable if statement_id is None or is_new_id else unknown
            retried = (Unreachable, NotLeader)
            self._cluster_id = self._until_answered(self.whoami, failed, patience_ns, retried=retried).cluster_id
        cluster_id = self._cluster_id
        ends_ns = None if timeout_ns is None else self._clock.now_ns() + timeout_ns

        def ask() -> Receipt | Rows:
            # Each leader counts from when it is asked.
            left_ns = None if ends_ns is None else max(1, ends_ns - self._clock.now_ns())
            return self._run(
                Execute(cluster_id=cluster_id, statement=statement, text=text, timeout_ns=left_ns), on_wait
            )

        return self._until_answered(ask, unknown, patience_ns)

    def _run(self, request: Execute, on_wait: Callable[[WaitingFor], None] | None) -> Receipt | Rows:
        """Asks once; a statement that has to wait is joined by its id, to hear how it goes on, and rows that do not fit
        into one message are asked for again, all of one catalog: a SHOW is asked for so in the first place."""
        if request.text.lstrip()[:4].upper() != "SHOW":
            answer = self._heard(self._connection.call(request, STATEMENT_RESOLVE_NS), on_wait)
            if isinstance(answer, Receipt) or (answer is not None and not answer.more):
                return answer
        pages: list[Rows] = []
        for message in self._connection.stream(request, STATEMENT_RESOLVE_NS):
            answer = self._heard(message, on_wait)
            if isinstance(answer, Receipt):
                return answer
            if answer is not None:
                pages.append(answer)
                if not answer.more:
                    rows = tuple(row for page in pages for row in page.rows)
                    return Rows(columns=answer.columns, rows=rows, revision=answer.revision)
        raise Unreachable("the answer broke off", hint="ask again with the same statement id")

    def _heard(self, message: Message, on_wait: Callable[[WaitingFor], None] | None) -> Receipt | Rows | None:
        match message:
            case WaitingFor():
                if on_wait is not None:
                    on_wait(message)
                return None
            case Receipt() | Rows():
                self.known.heard(message)
                return message
            case _:
                raise Refused(f"answered with {type(message).__name__}", code="BAD_MESSAGE", hint="upgrade")

    # ------------------------------------------------------------ tables

    def facts(self, name: str) -> TableFacts:
        """A table's schema and places as of now."""
        return self._look_up(AskTable(cluster_id=None, name=name), TableFacts)

    def looking_again(self, facts: TableFacts) -> Refresh:
        """For readers and writers under way, on any thread: looks the table up again, within PLACES_TIMEOUT_NS."""
        request = AskTable(cluster_id=facts.cluster_id, name=facts.name)
        return lambda: self._call(request, TableFacts, timeout_ns=PLACES_TIMEOUT_NS)

    def plan(
        self,
        name: str,
        columns: Iterable[str] | None = None,
        *,
        through: tuple[ObjectId, ...] = (),
        rewrite: bool = False,
    ) -> ScanPlan:
        """Pins the present revision of a table, and what to read of it; `through` are the views that it is read for.

        For a `rewrite` it is what is worth it.
        """
        chosen = None if columns is None else tuple(columns)
        request = PlanScan(cluster_id=None, name=name, columns=chosen, through=through, rewrite=rewrite)
        return self._look_up(request, ScanPlan)

    def plan_query(self, names: Iterable[str]) -> QueryPlan:
        """Pins one revision for all tables and views that a SELECT names, and what to read of each."""
        return self._look_up(PlanQuery(cluster_id=None, names=tuple(names)), QueryPlan)

    def agree_cutoff(self, plan: ScanPlan, query: str) -> Cutoff:
        """What is gone of a plan's table for a query, the same for all who ask; `query` is 128 bits in hex."""
        facts = plan.facts
        request = AgreeCutoff(cluster_id=facts.cluster_id, table=facts.table, query=query, through=plan.through)
        return self._until_answered(
            lambda: self._call(request, Cutoff), partial(Unreachable, hint="run the query again"), self._patience_ns
        )

    def view_facts(self, name: str) -> ViewFacts:
        """A view with all that it reads, as of now."""
        return self._look_up(AskView(cluster_id=None, name=name), ViewFacts)

    def open_transaction(self, facts: TableFacts, transaction: TransactionId) -> TransactionFacts:
        """Opens a write transaction on a table; the same id again gives the same answer."""
        request = OpenTransaction(
            cluster_id=facts.cluster_id,
            transaction=transaction,
            table=facts.table,
            schema_version=facts.schema_version,
            generation=facts.generation,
        )
        return self._resolve(request)

    def commit(
        self,
        cluster_id: ClusterId,
        transaction: TransactionId,
        segments: Iterable[StagedSegment],
        *,
        replaces: tuple[Replaced, ...] = (),
        deletes: int = 0,
        forgets: bool = False,
    ) -> TransactionFacts:
        """Makes staged segments visible, all at once. Safe to repeat. Raises `OutcomeUnknown` if no answer comes.

        Those that it `replaces` go at the same moment; `deletes` is then that of the plan that they were read by. If it
        `forgets`, they are lost, and nothing takes their place.
        """
        request = CommitTransaction(
            cluster_id=cluster_id,
            transaction=transaction,
            segments=tuple(segments),
            replaces=replaces,
            deletes=deletes,
            forgets=forgets,
        )
        return self._resolve(request)

    def abort(self, cluster_id: ClusterId, transaction: TransactionId) -> TransactionFacts:
        """Ends a write transaction; the answer says COMMITTED if that had happened before."""
        return self._resolve(AbortTransaction(cluster_id=cluster_id, transaction=transaction))

    def try_abort(self, cluster_id: ClusterId, transaction: TransactionId) -> TransactionFacts:
        """As `abort`, but asks once."""
        return self._call(AbortTransaction(cluster_id=cluster_id, transaction=transaction), TransactionFacts)

    def new_transaction(self) -> TransactionId:
        """A fresh id for a write transaction."""
        return TransactionId(self._entropy.hex_128())

    def _resolve(self, request: OpenTransaction | CommitTransaction | AbortTransaction) -> TransactionFacts:
        """Asks until the answer is known: each of these is harmless to repeat, by its transaction id."""
        hint = f"ask again for write transaction {request.transaction} before you write the rows again"
        return self._until_answered(
            lambda: self._call(request, TransactionFacts), partial(OutcomeUnknown, hint=hint), self._patience_ns
        )

    def _look_up(self, request: Message, kind: type[M]) -> M:
        """Asks until a coordinator answers: a question changes nothing."""
        return self._until_answered(
            lambda: self._call(request, kind),
            _unreachable,
            self._patience_ns,
            retried=(Unreachable, NotLeader),
        )

    def _until_answered(
        self,
        ask: Callable[[], A],
        unanswered: Callable[[str], LeaseholdError],
        patience_ns: int,
        *,
        retried: Errors = (Indefinite, NotInitialised, NotLeader, SealUnknown),
    ) -> A:
        """The answer of `ask`, which is called again after an error of the kinds in `retried`. After `patience_ns` it
        raises what `unanswered` makes of the last error, or `SealUnknown` if that was the last and no answer was lost.
        """
        deadline_ns = self._clock.now_ns() + patience_ns
        unsure = False
        while True:
            try:
                return ask()
            except retried as error:
                if error.code == "TRANSACTION_FORGOTTEN":
                    raise
                unsure = unsure or isinstance(error, Indefinite)
                left_ns = deadline_ns - self._clock.now_ns()
                if left_ns <= 0:
                    if isinstance(error, SealUnknown) and not unsure:
                        raise
                    raise unanswered(f"no answer within {patience_ns / SECOND_NS:g} s: {error.text}") from error
                if self._on_retry is not None:
                    self._on_retry(error, left_ns / SECOND_NS)
            sleep_ns(min(RETRY_PAUSE_NS, left_ns))

    # ------------------------------------------------------------ the cluster itself

    def status(self) -> ClusterStatus:
        """The nodes and their leases, as the leader sees them."""
        return self._call(AskStatus(), ClusterStatus)

    def remove_node(
        self, name: str, *, force: bool = False, on_wait: Callable[[WaitingFor], None] | None = None
    ) -> NodeRemoved:
        """Takes a node out of the cluster for good, by name or number; waits until it can't serve any more.

        Raises `NotFound`, `Refused` (LAST_NODE, TOO_FEW_NODES, ONLY_HOLDER: `force` gives up what it says).
        """
        return remove_node(self._connection, name, force=force, on_wait=on_wait)

    def barriers(self) -> list[KnownBarrier]:
        """Every barrier that proceeded, of the statements still known, in their order."""
        found: list[KnownBarrier] = []
        after: int | None = 0
        while after is not None:
            page = self._call(AskReceipts(after=after, limit=RECEIPTS_PAGE_MAX), Receipts)
            found.extend(page.barriers)
            after = page.next_after
        return found

    def initialise(self) -> ClusterFacts:
        """Gives a new meta storage its cluster id. Raises `Refused` (INITIALISED) if it has one."""
        return self._call(Initialise(cluster_id=ClusterId(self._entropy.hex_128())), ClusterFacts)

    def whoami(self) -> ClusterFacts:
        """Which cluster this is. Raises `Unreachable`, `NotInitialised`, or `NotLeader` (also of a coordinator that
        still reads its meta storage)."""
        return self._call(WhoAreYou(), ClusterFacts, timeout_ns=CONNECT_TIMEOUT_NS)

    def _call(self, request: Message, kind: type[M], *, timeout_ns: int = CALL_TIMEOUT_NS) -> M:
        answer = self._connection.call(request, timeout_ns)
        if not isinstance(answer, kind):
            raise Refused(f"answered with {type(answer).__name__}", code="BAD_MESSAGE", hint="upgrade")
        self.known.heard(answer)
        return answer
