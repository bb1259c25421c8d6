"""What processes say to each other, each message defined once, in one closed union.

Durations travel, clock readings never do. Every request carries the cluster id, and what a node sends
carries its id, incarnation and session. The tag carries the version.
"""

from typing import Final, TypeAlias

from leasehold.core.words.messages.base import BaseMessage, ClientRequest, Failure
from leasehold.core.words.messages.changes import ChangesPlan, CommitChanges, PlanChanges
from leasehold.core.words.messages.clients import (
    AskBackup,
    AskOutcome,
    AskReceipts,
    AskStatus,
    BackupPage,
    ClusterStatus,
    DelegateLogin,
    Execute,
    KnownBarrier,
    Lacked,
    LeadershipEnds,
    LoggedIn,
    LoggedOut,
    Login,
    LogInByCertificate,
    LogInByToken,
    LoginsRenewed,
    LogOut,
    NodeRecovery,
    NodeRemoved,
    NodeStatus,
    Receipt,
    Receipts,
    RemoveNode,
    RenewLogins,
    Rows,
    SessionEnd,
    Silence,
    TransferLeadership,
    WaitingFor,
)
from leasehold.core.words.messages.compaction import (
    AskCompaction,
    CompactionTask,
    CompactProgress,
    CompactTicket,
    EndCompaction,
)
from leasehold.core.words.messages.data import (
    AbortTransaction,
    AgreeCutoff,
    AskTable,
    AskView,
    BucketPlaces,
    CommitTransaction,
    Cutoff,
    FieldFilter,
    FileColumn,
    Filter,
    FilterOperator,
    Follow,
    NodeAbsence,
    OpenTransaction,
    Place,
    PlanQuery,
    PlanScan,
    QueryPlan,
    ReadGroup,
    ReadGroups,
    Replaced,
    ScanPlan,
    SegmentHolder,
    StagedSegment,
    StreamBatch,
    TableFacts,
    TableNeeded,
    TransactionFacts,
    ViewBody,
    ViewFacts,
)
from leasehold.core.words.messages.flight import (
    BatchMark,
    BytesEnd,
    FetchTicket,
    FlightCaller,
    ForwardAdmitted,
    ForwardTicket,
    NextSegment,
    ReadTicket,
    ReadTogether,
    RowsEnd,
    ScrubbedTable,
    ScrubEnd,
    ScrubTicket,
    SegmentStored,
    WriteTicket,
)
from leasehold.core.words.messages.identity import (
    Allocate,
    AllocateAnswer,
    AskIncarnation,
    AskSnapshot,
    ChallengeCoordinator,
    ClusterFacts,
    CoordinatorProof,
    CoordinatorReported,
    Initialise,
    Join,
    JoinAnswer,
    JoinWait,
    NewestIncarnation,
    ReportCoordinator,
    SnapshotBegin,
    SnapshotEnd,
    SnapshotPage,
    WhoAreYou,
)
from leasehold.core.words.messages.local import (
    AskLocalProof,
    LocalEnd,
    LocalOpened,
    LocalProof,
    LocalRenewed,
    LocalSegment,
    OpenLocal,
    RenewLocal,
)
from leasehold.core.words.messages.session import (
    Grant,
    OpenSession,
    ProcessEndReported,
    RecoveryAccepted,
    RecoveryBehind,
    RecoveryFinished,
    RecoveryProgress,
    Renewal,
    RenewalRefused,
    ReportProcessEnd,
    SegmentsHeld,
    SegmentsMissing,
    SessionOpened,
    Surrender,
    SurrenderAccepted,
    TableCleaned,
    Watched,
    WatchFailed,
)

_Clusters: TypeAlias = WhoAreYou | ClusterFacts | ChallengeCoordinator | CoordinatorProof | Initialise
OfMember: TypeAlias = Allocate | Join | AskIncarnation | ReportCoordinator
"""Requests that prove that their sender has the cluster key."""
_Joins: TypeAlias = OfMember | AllocateAnswer | JoinAnswer | JoinWait | NewestIncarnation | CoordinatorReported
_Snapshots: TypeAlias = AskSnapshot | SnapshotBegin | SnapshotPage | SnapshotEnd
_Backups: TypeAlias = AskBackup | BackupPage
_Sessions: TypeAlias = OpenSession | SessionOpened | Watched | WatchFailed
_Leases: TypeAlias = Renewal | Grant | RenewalRefused | Surrender | SurrenderAccepted
_Ends: TypeAlias = ReportProcessEnd | ProcessEndReported
_Recoveries: TypeAlias = RecoveryFinished | RecoveryAccepted | RecoveryBehind | RecoveryProgress
_Reports: TypeAlias = SegmentsHeld | SegmentsMissing | TableCleaned
AnyLogin: TypeAlias = Login | LogInByToken | LogInByCertificate
"""The requests that are answered with a login."""
_Logins: TypeAlias = AnyLogin | DelegateLogin | LoggedIn | RenewLogins | LoginsRenewed | LogOut | LoggedOut
_Statements: TypeAlias = Execute | AskOutcome | WaitingFor | Receipt | Rows | AskReceipts | Receipts
_Nodes: TypeAlias = AskStatus | NodeStatus | ClusterStatus | RemoveNode | NodeRemoved
_Leaderships: TypeAlias = TransferLeadership | LeadershipEnds
_Relations: TypeAlias = AskTable | TableFacts | AskView | ViewFacts
_Writes: TypeAlias = OpenTransaction | CommitTransaction | AbortTransaction | TransactionFacts | StagedSegment
_Plans: TypeAlias = PlanScan | ScanPlan | PlanChanges | ChangesPlan | PlanQuery | QueryPlan | AgreeCutoff | Cutoff
AnyReadTicket: TypeAlias = ReadTicket | ReadTogether
"""The tickets that are answered with rows."""
_Tickets: TypeAlias = AnyReadTicket | WriteTicket | ForwardTicket | FetchTicket | ScrubTicket | FlightCaller
_Local: TypeAlias = (
    AskLocalProof | LocalProof | LocalSegment | OpenLocal | LocalOpened | RenewLocal | LocalEnd | LocalRenewed
)
_Streams: TypeAlias = ForwardAdmitted | SegmentStored | RowsEnd | BytesEnd | BatchMark | ScrubbedTable | ScrubEnd
_Compactions: TypeAlias = CompactTicket | CompactProgress | AskCompaction | CompactionTask | EndCompaction
_OfNodes: TypeAlias = (
    _Clusters | _Joins | _Snapshots | _Sessions | _Leases | _Ends | _Recoveries | _Reports | _Compactions
)
_OfClients: TypeAlias = _Logins | _Statements | _Nodes | _Leaderships | _Backups | _Relations | _Writes | _Plans
Message: TypeAlias = Failure | _OfNodes | _OfClients | _Tickets | _Local | _Streams
"""Everything that may travel on its own."""

Request: TypeAlias = (
    WhoAreYou
    | ChallengeCoordinator
    | Initialise
    | OfMember
    | AskSnapshot
    | ReportProcessEnd
    | AskCompaction
    | EndCompaction
    | AnyLogin
    | DelegateLogin
    | RenewLogins
    | LogOut
    | Execute
    | AskOutcome
    | AskReceipts
    | AskStatus
    | RemoveNode
    | TransferLeadership
    | AskBackup
    | AskTable
    | AskView
    | OpenTransaction
    | CommitTransaction
    | AbortTransaction
    | PlanScan
    | PlanChanges
    | PlanQuery
    | AgreeCutoff
)
"""What a coordinator is asked by a call; a node's session begins with `OpenSession`."""

Ticket: TypeAlias = (
    WriteTicket
    | ForwardTicket
    | ReadTicket
    | ReadTogether
    | FetchTicket
    | CompactTicket
    | ScrubTicket
    | AskLocalProof
    | OpenLocal
    | RenewLocal
)
"""What a node is asked."""

READING: Final = (WhoAreYou, AskStatus, AskTable, AskView, AskReceipts, PlanScan, PlanChanges, PlanQuery)
"""Requests that only read the catalog: without an answer, nothing has happened."""
