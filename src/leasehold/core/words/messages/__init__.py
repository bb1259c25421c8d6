"""What processes say to each other, each message defined once, in one closed union.

Durations travel, clock readings never do. Every request carries the cluster id, and what a node sends
carries its id, incarnation and session. The tag carries the version.
"""

from typing import TypeAlias

from leasehold.core.words.messages.base import BaseMessage, ClientRequest, Failure
from leasehold.core.words.messages.clients import (
    AskOutcome,
    AskReceipts,
    AskStatus,
    ClusterStatus,
    Execute,
    KnownBarrier,
    Lacked,
    LoggedIn,
    LoggedOut,
    Login,
    LogOut,
    NodeRecovery,
    NodeRemoved,
    NodeStatus,
    Receipt,
    Receipts,
    RemoveNode,
    Rows,
    SessionEnd,
    Silence,
    WaitingFor,
)
from leasehold.core.words.messages.data import (
    AbortTransaction,
    AgreeCutoff,
    AskTable,
    AskView,
    BucketPlaces,
    CommitTransaction,
    Cutoff,
    OpenTransaction,
    Place,
    PlanQuery,
    PlanScan,
    QueryPlan,
    Replaced,
    ScanPlan,
    SegmentHolder,
    StagedSegment,
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
    ReadTicket,
    RowsEnd,
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
    Initialise,
    Join,
    JoinAnswer,
    JoinWait,
    NewestIncarnation,
    SnapshotBegin,
    SnapshotEnd,
    SnapshotPage,
    WhoAreYou,
)
from leasehold.core.words.messages.session import (
    Grant,
    OpenSession,
    RecoveryAccepted,
    RecoveryBehind,
    RecoveryFinished,
    RecoveryProgress,
    Renewal,
    RenewalRefused,
    SegmentsHeld,
    SegmentsMissing,
    SessionOpened,
    Surrender,
    SurrenderAccepted,
    TableCleaned,
    Watched,
    WatchFailed,
)

Message: TypeAlias = (
    Failure
    | WhoAreYou
    | ClusterFacts
    | Initialise
    | Allocate
    | AllocateAnswer
    | Join
    | JoinAnswer
    | JoinWait
    | OpenSession
    | SessionOpened
    | Renewal
    | Grant
    | RenewalRefused
    | Watched
    | WatchFailed
    | Surrender
    | SurrenderAccepted
    | SegmentsHeld
    | TableCleaned
    | Login
    | LoggedIn
    | LogOut
    | LoggedOut
    | Execute
    | AskOutcome
    | Receipt
    | WaitingFor
    | Rows
    | AskStatus
    | NodeStatus
    | ClusterStatus
    | AskReceipts
    | Receipts
    | AskTable
    | AskView
    | ViewFacts
    | TableFacts
    | OpenTransaction
    | TransactionFacts
    | StagedSegment
    | CommitTransaction
    | AgreeCutoff
    | Cutoff
    | AbortTransaction
    | PlanQuery
    | QueryPlan
    | PlanScan
    | ScanPlan
    | WriteTicket
    | ForwardTicket
    | ForwardAdmitted
    | RowsEnd
    | BytesEnd
    | SegmentStored
    | ReadTicket
    | FetchTicket
    | FlightCaller
    | BatchMark
    | AskIncarnation
    | AskSnapshot
    | NewestIncarnation
    | SnapshotBegin
    | SnapshotEnd
    | SnapshotPage
    | RecoveryAccepted
    | RecoveryBehind
    | RecoveryFinished
    | RecoveryProgress
    | SegmentsMissing
    | NodeRemoved
    | RemoveNode
    | ChallengeCoordinator
    | CoordinatorProof
)
"""Everything that may travel on its own."""
