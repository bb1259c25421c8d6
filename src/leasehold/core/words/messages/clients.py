"""What clients ask and hear."""

from typing import Annotated, TypeAlias

from msgspec import Meta

from leasehold.core.words.messages.base import BaseMessage, ClientRequest, Through
from leasehold.core.words.records import BarrierReceipt, CheckpointRow, Outcome, SettledNode, Waited
from leasehold.ids import (
    ApplicationSecret,
    ClusterId,
    Incarnation,
    LoginToken,
    NodeId,
    ObjectId,
    Revision,
    StatementId,
    Term,
    TransactionId,
    UserToken,
)
from leasehold.limits.people import LOGIN_CHARACTERS_MAX

LoginText: TypeAlias = Annotated[str, Meta(max_length=LOGIN_CHARACTERS_MAX)]
"""Held while a password waits for its turn."""


class Login(BaseMessage, frozen=True, kw_only=True, tag="log-in/1"):
    """Asks for the token of a user."""

    cluster_id: ClusterId | None
    user: LoginText
    password: LoginText


class LogInByToken(BaseMessage, frozen=True, kw_only=True, tag="log-in-by-token/1"):
    """Asks for a login of a user, who shows a token of `CREATE TOKEN`."""

    cluster_id: ClusterId | None
    user: LoginText
    token: Annotated[UserToken, Meta(max_length=LOGIN_CHARACTERS_MAX)]


class LogInByCertificate(BaseMessage, frozen=True, kw_only=True, tag="log-in-by-certificate/1"):
    """Asks for a login of the user whose name is in the certificate that the connection shows."""

    cluster_id: ClusterId | None


class LoggedIn(BaseMessage, frozen=True, kw_only=True, tag="logged-in/1"):
    """The password, token or certificate was right. Nodes know the token from `revision` on."""

    token: LoginToken
    revision: Revision


class DelegateLogin(ClientRequest, frozen=True, kw_only=True, tag="delegate-login/1"):
    """Asks for a login of the same user that other processes get: to read a table through these views or, with an open
    `transaction`, to write to the table in it and to end it. The answer is `LoggedIn`."""

    cluster_id: ClusterId | None
    table: ObjectId
    through: Through = ()
    transaction: TransactionId | None = None
    application: bytes = b""
    """The hash of the secret of the application that renews the login; empty for a login that nobody renews."""
    replaces: bool = False
    """With a `transaction`: whether it may replace rows, and read the table for that."""


class RenewLogins(BaseMessage, frozen=True, kw_only=True, tag="renew-logins/1"):
    """Lets the delegated logins of an application live on, or ends them. Needs no login: only the application knows its
    secret. The answer is `LoginsRenewed`."""

    cluster_id: ClusterId | None
    application: ApplicationSecret
    ends: bool = False


class LoginsRenewed(BaseMessage, frozen=True, kw_only=True, tag="logins-renewed/1"):
    """Nodes that have applied `revision` know which of the logins live on."""

    revision: Revision


class LogOut(BaseMessage, frozen=True, kw_only=True, tag="log-out/1"):
    """Ends the login of this token."""

    cluster_id: ClusterId | None
    token: LoginToken


class LoggedOut(BaseMessage, frozen=True, kw_only=True, tag="logged-out/1"):
    """Nodes that have applied `revision` take the token no more."""

    revision: Revision


class Execute(ClientRequest, frozen=True, kw_only=True, tag="execute/1"):
    """Runs one SQL statement; the same id again asks for its outcome."""

    cluster_id: ClusterId | None
    statement: StatementId
    text: str
    timeout_ns: int | None = None
    """How long it may take at most, from its arrival on; None for as long as it takes."""
    term: Term | None = None
    """Only the leader of this term may begin the statement; None for any leader. A statement that was refused, or had
    nothing to do, leaves no record. So a late copy of it could run under the leader of another term."""


class AskOutcome(ClientRequest, frozen=True, kw_only=True, tag="ask-outcome/1"):
    """What became of a statement."""

    cluster_id: ClusterId | None
    statement: StatementId


class Receipt(BaseMessage, frozen=True, kw_only=True, tag="receipt/1"):
    """How a statement that changes something ended."""

    statement_id: StatementId
    text: str
    revision: Revision | None
    outcome: Outcome
    elapsed_ns: int
    bound_ns: int
    settled: tuple[SettledNode, ...]
    pending: tuple[NodeId, ...]
    cleaning: tuple[NodeId, ...]
    notes: tuple[str, ...] = ()
    """What people should know of it besides its outcome, a sentence each."""
    leader_changes: int = 0
    """How many later leaders took it up. `elapsed_ns` and `bound_ns` are of the last one alone."""
    waited: Waited | None = None
    """What it waited for before `elapsed_ns` began; None for nothing."""


class WaitingFor(BaseMessage, frozen=True, kw_only=True, tag="waiting-for/1"):
    """Progress of a statement: which nodes hold it up, and for how long at most."""

    statement_id: StatementId
    nodes: tuple[str, ...]
    at_most_ns: int


class Rows(BaseMessage, frozen=True, kw_only=True, tag="rows/1"):
    """The answer to SHOW and DESCRIBE. With `more`, further rows follow in the stream; a call has to be repeated as
    one."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | bool | None, ...], ...]
    revision: Revision
    more: bool = False


class AskStatus(ClientRequest, frozen=True, kw_only=True, tag="ask-status/1"):
    """Asks for the state of the cluster."""


class NodeRecovery(BaseMessage, frozen=True, kw_only=True, tag="node-recovery/1"):
    """How a process recovered, or how far it is; the fields are those of `RecoveryProgress`."""

    case: str
    why: str
    applied: Revision
    target: Revision
    keys: int
    keys_total: int
    segments_kept: int
    segments_fetched: int
    segments_missing: int
    segments_evicted: int
    left_ns: int | None


class NodeStatus(BaseMessage, frozen=True, kw_only=True, tag="node-status/1"):
    """`state` is one of ACTIVE, RECOVERING, FENCED, DOWN."""

    id: NodeId
    name: str
    address: str
    incarnation: Incarnation
    state: str
    applied_revision: Revision | None
    lease_remaining_ns: int
    stage: str = ""
    """On its way in: REGISTERED (has an id), WAITING (a process asks to be let in, leases of before have not ended),
    ADMITTED (has joined), CONNECTED, RECOVERING, MEMBER (in the logical topology), LEFT. Of a member that drains it is
    DRAINING, or DRAINED once no bucket lies on it."""
    recovery: NodeRecovery | None = None
    """Of its newest process, as last reported; while one is WAITING without a case, with the longest wait."""
    segments_given: int = 0
    """Copied to other nodes by this process, by its own report; and their bytes."""
    bytes_given: int = 0
    segments_short: int | None = None
    """Segments of its buckets that fewer nodes hold than their tables want; None while the leader has not counted."""
    segments_alone: int | None = None
    """Those that it alone holds; the failure of its disk would lose them."""
    seen: str = ""
    """How the leader's process sees it in the physical topology: ALIVE, SUSPECT, DEAD, LEFT, or empty where it has not
    heard of it. A hint, by which nothing is decided."""


class Silence(BaseMessage, frozen=True, kw_only=True, tag="silence/1"):
    """How long ago the leader has last heard from a node whose session is open, and whether its disk fails."""

    node: NodeId
    silent_ns: int
    disk_failing: bool = False


class Lacked(BaseMessage, frozen=True, kw_only=True, tag="lacked/1"):
    """How many segments a node alone should hold, and has no file of; they count as lost."""

    node: NodeId
    segments: int


class SessionEnd(BaseMessage, frozen=True, kw_only=True, tag="session-end/1"):
    """How the last session of a node ended that has none now, as the leader saw it, and how long ago.

    | `how` | the leader saw | the node's process |
    | --- | --- | --- |
    | NO_ANSWER | no answer to a keepalive, or no message for long | was paused, hung or cut off |
    | GONE | the connection broke while the node was heard | has ended, or did not hear the leader |
    | CLOSED | the stream ended in order | has ended the session itself |
    | SURRENDERED | the same, after the lease was given back | was stopped in order |
    | ENDED | a report of the process's supervisor | has ended |
    | REFUSED | its own refusal | was told to end |
    """

    node: NodeId
    how: str
    ago_ns: int


class ClusterStatus(BaseMessage, frozen=True, kw_only=True, tag="cluster-status/1"):
    """The state of the cluster as its leader sees it."""

    cluster_id: ClusterId
    term: Term
    revision: Revision
    bound_ns: int
    nodes: tuple[NodeStatus, ...]
    anybody_may_join: bool = False
    """The leader has no cluster key: any process that reaches its port may become a node."""
    segments_short: int | None = None
    """Segments that fewer nodes hold than their tables want; None while the leader has not counted them yet."""
    segments_lost: int | None = None
    """Those among them that no node of the cluster holds: some were removed by force, or have no file of them."""
    silences: tuple[Silence, ...] = ()
    """Of the nodes whose session is open; a hint at nodes that hang."""
    lacked: tuple[Lacked, ...] = ()
    session_ends: tuple[SessionEnd, ...] = ()
    """Of the nodes whose session is not open, as far as this leader had one; a hint."""
    disks_full: tuple[NodeId, ...] = ()
    """The nodes that are connected and say that their disk takes no writes; a hint."""
    clock_ahead_ns: int = 0
    """How far the leader's wall clock is ahead of what it believes; 0 unless it refused a step
    (`core.data.wallclock`)."""
    store_warnings: tuple[str, ...] = ()
    """What is wrong with members of the store that coordinators share, and which certificates end soon, a sentence
    each."""

    @property
    def disks_failing(self) -> tuple[NodeId, ...]:
        """The nodes that are connected and say that their disk fails at writes; a hint."""
        return tuple(one.node for one in self.silences if one.disk_failing)


class AskReceipts(ClientRequest, frozen=True, kw_only=True, tag="ask-receipts/1"):
    """Asks for the barriers of the statements still known, oldest first, from `after` on."""

    after: int
    limit: int


class KnownBarrier(BaseMessage, frozen=True, kw_only=True, tag="known-barrier/1"):
    """A statement's barrier, for the audit."""

    order: int
    statement: StatementId
    barrier: BarrierReceipt


class Receipts(BaseMessage, frozen=True, kw_only=True, tag="receipts/1"):
    """A page of barriers; ask again from `next_after` unless it is None."""

    barriers: tuple[KnownBarrier, ...]
    next_after: int | None


class RemoveNode(ClientRequest, frozen=True, kw_only=True, tag="remove-node/1"):
    """Takes a node out of the cluster for good, by name or number. It waits until its lease has ended.

    With `force`, segments that nobody else holds are given up too. The answer is a stream: `WaitingFor` while it waits,
    then `NodeRemoved`; as a call, the last alone.
    """

    cluster_id: ClusterId | None
    name: str
    force: bool = False
    node: NodeId | None = None
    """Which one it is, where the name was looked up before: it may have another owner by now."""


class TransferLeadership(ClientRequest, frozen=True, kw_only=True, tag="transfer-leadership/1"):
    """Asks the leader of `term` to end its term, so that another coordinator leads. The leader of a later term does
    nothing: so it happens once."""

    cluster_id: ClusterId | None
    term: Term
    successor: str = ""
    """The address of the coordinator that is to lead next; empty for any."""


class LeadershipEnds(BaseMessage, frozen=True, kw_only=True, tag="leadership-ends/1"):
    """The term that was to end has ended, or ends now."""


class AskBackup(ClientRequest, frozen=True, kw_only=True, tag="ask-backup/1"):
    """Asks any coordinator for the whole meta storage at one revision, for a file.

    The answer is a stream: `SnapshotBegin`, pages in key order, `SnapshotEnd`.
    """

    cluster_id: ClusterId | None


class BackupPage(BaseMessage, frozen=True, kw_only=True, tag="backup-page/1"):
    """The next keys of a backup as they stand (`core.recovery.backup`); at most about SNAPSHOT_PAGE_BYTES_MAX."""

    rows: tuple[CheckpointRow, ...]


class NodeRemoved(BaseMessage, frozen=True, kw_only=True, tag="node-removed/1"):
    """It is a tombstone from `revision` on. `buckets` of it get another replica, `lost` segments have no holder."""

    node: NodeId
    name: str
    revision: Revision
    buckets: int
    lost: int
    already: bool = False
    """It had been removed before; then nothing is counted."""
