"""The requests of clients to coordinators: statements, status, the places of a table's rows, write transactions.

No rows pass here, so Arrow is not loaded. `client/cluster.py` adds tables and views.
"""

import copy
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

from leasehold.client.coordinator_check import check_of
from leasehold.client.credentials import Credentials, find_credentials
from leasehold.client.locate import TARGET_DEFAULT, locate
from leasehold.client.login import LoginConnection
from leasehold.client.past import AsOf, revision_and_time_us
from leasehold.client.threads import THREADS, Refresh
from leasehold.client.tokens import create_token_text, new_user_token
from leasehold.client.trust import WITHOUT_TLS, trusted_by
from leasehold.core.data.asking import Asking, Told
from leasehold.core.data.backup import BackupTarget, take_backup
from leasehold.core.data.coordinator_client import CoordinatorClient, CoordinatorRole
from leasehold.core.data.known import Known
from leasehold.core.data.leadership_transfer import NewLeader, transfer_leadership
from leasehold.core.data.node_removal import remove_node
from leasehold.core.data.statement_calls import run_statement
from leasehold.core.recovery.backup import BackupFacts
from leasehold.core.words.messages import (
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
    FieldFilter,
    Filter,
    Follow,
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
    StreamBatch,
    TableFacts,
    TransactionFacts,
    ViewFacts,
    WaitingFor,
)
from leasehold.errors import OutcomeUnknown
from leasehold.ids import ClusterId, LoginToken, ObjectId, StatementId, TransactionId, UserToken
from leasehold.limits.clients import CONNECT_TIMEOUT_NS
from leasehold.limits.statements import RECEIPTS_PAGE_MAX
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.current_files import TlsFiles
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.steps import run
from leasehold.wire.tls import Tls, read_tls

M = TypeVar("M", bound=Message)


class Coordinators:
    """A connection to a cluster's coordinators; use it as a context manager.

    Only what `looking_again` gives may be used from several threads at once.

    While no coordinator leads, or no replica of a bucket answers, each method asks again for `timeout` seconds, by
    default 30, counted anew after each answer; `status`, `whoami` and `try_abort` ask once. `on_retry`
    gets what was answered and for how many seconds more it is asked, then None once an answer has come; from any
    thread. `on_new_id` gets each id that is drawn for a statement or a write transaction, before anything is sent under
    it. `known` is what another client of this cluster knows already.
    `credentials` is a file, by default that of $LEASEHOLD_CREDENTIALS: it says what is not given here
    (`client/credentials.py`). `tls` is as in `client.trust.trusted_by`, or whom to trust.
    """

    def __init__(
        self,
        target: str | Path | None,
        *,
        user: str | None = None,
        password: str | None = None,
        token: LoginToken | None = None,
        timeout: float | None = None,
        on_retry: Told = lambda *_: None,
        on_new_id: Callable[[str], None] = lambda _: None,
        known: Known | None = None,
        tls: str | Path | Tls | None = None,
        credentials: str | Path | None = None,
    ) -> None:
        file = find_credentials(credentials)
        if target is None:
            target = TARGET_DEFAULT if file is None else file.address
        if tls is None and file is not None:
            tls = file.ca
        self.asking = Asking.of(timeout, on_retry)
        self._on_new_id = on_new_id
        self.target = str(target)
        given = locate(target)
        trusted = None if isinstance(tls, Tls) else trusted_by(target, tls)
        self.trusted: Final = WITHOUT_TLS if trusted is None else str(trusted)
        """What other clients of this cluster on this machine take as `tls`."""
        self.tls: Final = tls if isinstance(tls, Tls) else None if trusted is None else TlsFiles(trusted, read_tls)
        """How servers are checked, and what they are shown; None without TLS."""
        self._connection = LoginConnection(
            partial(BlockingConnection, tls=self.tls),
            Credentials(user, password, file, has_certificate=self.tls is not None and self.tls.now().has_certificate),
            token,
            partial(check_of, target),
        )
        self._entropy = SystemEntropy()
        self.known = known or Known(THREADS)
        self._client = CoordinatorClient(
            self._connection.calls, given, THREADS, known=self.known, learns=not Path(target).is_dir()
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Logs out if it has logged in; then its unfinished scans fail. Idempotent."""
        self._connection.close()

    def within(self, timeout: float | None) -> Self:
        """The same connection with another `timeout` in seconds; None keeps the timeout. Raises `BadSettings`."""
        if timeout is None:
            return self
        other = copy.copy(self)
        other.asking = Asking.of(timeout, self.asking.tell)
        return other

    @property
    def addresses(self) -> tuple[str, ...]:
        """Of the coordinators, as `host:port`: those that were given, and those that they have told."""
        return self._client.addresses

    @property
    def address(self) -> str:
        """What finds these coordinators again: their addresses, with commas between them."""
        return ",".join(self.addresses)

    @property
    def token(self) -> LoginToken | None:
        """The login that nodes are shown, a secret; None if no login was needed."""
        return self._connection.calls.token

    # ------------------------------------------------------------ statements

    def sql(
        self,
        text: str,
        *,
        statement_id: StatementId | None = None,
        on_wait: Callable[[WaitingFor], None] | None = None,
        timeout: float | None = None,
    ) -> Receipt | Rows:
        """Runs one statement. DDL returns a `Receipt`; SHOW and DESCRIBE return `Rows`. INSERT INTO .. VALUES returns
        `Rows` too: a `Cluster` runs it in this process, with `timeout` as in `Table.append`. SELECT is for `query`.

        After `timeout` seconds a statement that has not begun is refused (TIMED_OUT), one that removes something is
        rolled back, and one whose change is committed ends as COMMITTED_PENDING: see the receipt's `outcome`. If an
        answer is lost, the client asks again with the id of the statement, so it happens once. `statement_id` is the id
        of an earlier call, or one that the caller has drawn. `on_wait` gets the nodes that the statement waits for.
        Raises `Refused` and its subclasses (nothing changed), `BadSettings` for a timeout out of range, `Unreachable`
        (no coordinator has taken it: nothing changed, and nothing will), `OutcomeUnknown` (ask again later with the
        same `statement_id`).
        """
        asking = self.within(timeout).asking
        inserted = self._insert(text, statement_id, timeout)
        if inserted is not None:
            return inserted
        steps = run_statement(
            self._client,
            text,
            statement_id or StatementId(self._new_id()),
            asking,
            has_timeout=timeout is not None,
            may_be_sent=statement_id is not None,
            on_wait=on_wait,
        )
        return run(steps)

    def create_token(self, name: str, user: str, *, expires: str | None = None) -> UserToken:
        """Makes a token with which programs log in as `user`, for as long as `expires` says ('30d'), and returns it.
        Nothing shows it again: the cluster is told only its hash. Raises as `sql`."""
        token = new_user_token()
        self.sql(create_token_text(token, name, user, expires))
        return token

    def _insert(self, text: str, statement_id: StatementId | None, timeout: float | None) -> Rows | None:
        """Runs an INSERT; None for any other statement, or if this client can't write rows."""
        del text, statement_id, timeout

    def _new_id(self) -> str:
        drawn = self._entropy.hex_128()
        self._on_new_id(drawn)
        return drawn

    # ------------------------------------------------------------ tables

    def facts(self, name: str) -> TableFacts:
        """A table's schema and places as of now."""
        return self._look_up(AskTable(cluster_id=None, name=name), TableFacts)

    def looking_again(self, facts: TableFacts) -> Refresh:
        """A function that looks the table up again, on any thread, within PLACES_TIMEOUT_NS."""
        return lambda: run(self._client.look_again(facts))

    def plan(
        self,
        name: str,
        columns: Iterable[str] | None = None,
        *,
        through: tuple[ObjectId, ...] = (),
        rewrite: bool = False,
        where: tuple[Filter, ...] = (),
        as_of: AsOf | None = None,
        grouped: bool = False,
        replaces: bool = False,
        follows: Follow | None = None,
        ignores_taken: bool = False,
    ) -> ScanPlan:
        """Pins a table at its present revision, or `as_of` an earlier one, and its segments; `through` are the views
        that it is read for. For a `rewrite` the plan has the segments that are worth it, and with conditions those that
        may have such rows; `grouped` as in `core/data/read_groups.py`, `replaces` as in `core/data/replacement.py`,
        `follows` and `ignores_taken` as in `core/data/following.py`."""
        revision, time_us = revision_and_time_us(as_of)
        request = PlanScan(
            cluster_id=None,
            name=name,
            columns=None if columns is None else tuple(columns),
            through=through,
            rewrite=rewrite,
            where=where,
            as_of=revision,
            as_of_us=time_us,
            grouped=grouped,
            replaces=replaces,
            follows=follows,
            ignores_taken=ignores_taken,
        )
        return self._look_up(request, ScanPlan)

    def plan_query(self, names: Iterable[str]) -> QueryPlan:
        """Pins one revision for all tables and views that a SELECT names, and the segments of each."""
        return self._look_up(PlanQuery(cluster_id=None, names=tuple(names)), QueryPlan)

    def agree_cutoff(self, plan: ScanPlan, query: str) -> Cutoff:
        """The cutoff of a plan's table for a query, the same for all its tasks; `query` is 128 bits in hex."""
        facts = plan.facts
        request = AgreeCutoff(cluster_id=facts.cluster_id, table=facts.table, query=query, through=plan.through)
        return run(self._client.agree_cutoff(request, self.asking))

    def view_facts(self, name: str) -> ViewFacts:
        """A view and all that it reads, as of now."""
        return self._look_up(AskView(cluster_id=None, name=name), ViewFacts)

    def open_transaction(
        self, facts: TableFacts, transaction: TransactionId, text_sha256: bytes = b"", *, may_be_taken: bool = False
    ) -> TransactionFacts:
        """Opens a write transaction on a table; the same id again gives the same answer. Raises as `commit`;
        `may_be_taken`: an earlier call may have committed it.

        `text_sha256` is the hash of an INSERT: then the id belongs to that text and to its user.
        """
        request = OpenTransaction(
            cluster_id=facts.cluster_id,
            transaction=transaction,
            table=facts.table,
            schema_version=facts.schema_version,
            generation=facts.generation,
            text_sha256=text_sha256,
        )
        return run(self._client.resolve(request, self.asking, may_be_taken=may_be_taken))

    def commit(
        self,
        cluster_id: ClusterId,
        transaction: TransactionId,
        segments: Iterable[StagedSegment],
        *,
        replaces: tuple[Replaced, ...] = (),
        deletes: int = 0,
        forgets: bool = False,
        covers: tuple[FieldFilter, ...] | None = None,
        kept: int = 0,
        keeps_rows: bool = False,
        batch: StreamBatch | None = None,
        may_be_taken: bool = False,
    ) -> TransactionFacts:
        """Makes staged segments visible, all at once. Safe to repeat. Raises `OutcomeUnknown` if no answer comes, and
        `Unreachable` if no coordinator has taken it. `may_be_taken`: an earlier call may have sent the same.
        The segments that it `replaces` go at the same moment; `deletes` is then that of the plan of the rewrite. If it
        `forgets`, these segments are lost, and nothing takes their place. All else is as in `CommitTransaction`.
        """
        request = CommitTransaction(
            cluster_id=cluster_id,
            transaction=transaction,
            segments=tuple(segments),
            replaces=replaces,
            deletes=deletes,
            forgets=forgets,
            covers=covers,
            kept=kept,
            keeps_rows=keeps_rows,
            batch=batch,
        )
        return run(self._client.resolve(request, self.asking, may_be_taken=may_be_taken))

    def abort(self, cluster_id: ClusterId, transaction: TransactionId) -> TransactionFacts:
        """Ends a write transaction; the answer says COMMITTED if that had happened before."""
        return run(self._client.resolve(AbortTransaction(cluster_id=cluster_id, transaction=transaction), self.asking))

    def try_abort(self, cluster_id: ClusterId, transaction: TransactionId) -> TransactionFacts:
        """As `abort`, but asks once."""
        return self._ask_once(AbortTransaction(cluster_id=cluster_id, transaction=transaction), TransactionFacts)

    def new_transaction(self) -> TransactionId:
        """A fresh id for a write transaction."""
        return TransactionId(self._new_id())

    def _look_up(self, request: Message, kind: type[M]) -> M:
        return run(self._client.look_up(request, kind, self.asking))

    def _ask_once(self, request: Message, kind: type[M]) -> M:
        return run(self._client.ask_once(request, kind))

    # ------------------------------------------------------------ the cluster itself

    def status(self) -> ClusterStatus:
        """The nodes and their leases, as the leader sees them."""
        return self._ask_once(AskStatus(), ClusterStatus)

    def roles(self) -> dict[str, CoordinatorRole]:
        """What each coordinator is at the moment, by its address."""
        return run(self._client.roles())

    def remove_node(
        self, name: str, *, force: bool = False, on_wait: Callable[[WaitingFor], None] | None = None
    ) -> NodeRemoved:
        """Removes a node from the cluster for good, by name or number; waits until it can't serve any more.

        Raises `NotFound`, `Refused` (LAST_NODE, TOO_FEW_NODES, ONLY_HOLDER: `force` gives up what it says).
        """
        return run(remove_node(self._client, name, self.asking, force=force, on_wait=on_wait))

    def transfer_leadership(self, successor: str | None = None) -> NewLeader:
        """Makes the coordinator at one of `addresses` lead, by default any other; waits until it does.

        Raises `Refused` (NO_SUCCESSOR, LEADS_ALREADY), `Unreachable` if nobody leads or the successor does not answer.
        """
        assert successor is None or successor in self.addresses
        return run(transfer_leadership(self._client, successor, self.asking))

    def backup(self, target: BackupTarget, on_progress: Callable[[int, int], None] = lambda *_: None) -> BackupFacts:
        """Writes the meta storage at its present revision to a target, such as `client.backup.backup_file`.

        `on_progress` gets the number of keys so far, and about how many there are. Raises `Refused` (COMPACTED, BUSY).
        """
        return run(take_backup(self._client, self.asking, target, on_progress))

    def barriers(self) -> list[KnownBarrier]:
        """Every barrier that proceeded for the statements still known, in their order."""
        found: list[KnownBarrier] = []
        after: int | None = 0
        while after is not None:
            page = self._look_up(AskReceipts(after=after, limit=RECEIPTS_PAGE_MAX), Receipts)
            found.extend(page.barriers)
            after = page.next_after
        return found

    def initialise(self) -> ClusterFacts:
        """Gives a new meta storage its cluster id, once a coordinator leads. Raises `Refused` (INITIALISED) if it has
        one."""
        request = Initialise(cluster_id=ClusterId(self._entropy.hex_128()))
        unknown = partial(OutcomeUnknown, hint="run it again: INITIALISED says that there is a cluster")
        ask = self._client.question(request, ClusterFacts)
        return run(self._client.until_answered(ask, self.asking, unknown=unknown))

    def whoami(self) -> ClusterFacts:
        """Which cluster this is, as its leader says. Raises `NotInitialised`, and `Unreachable` while nobody leads or
        the leader still reads its meta storage."""
        return run(self._client.whoami(CONNECT_TIMEOUT_NS))
