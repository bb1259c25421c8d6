"""What the meta storage and the vault hold, each record defined once.

A record's tag carries its version (`node/1`); a change of shape is a new struct under a new tag, and the
golden bytes of the old one stay in the tests for ever. Of clock readings, records hold those of the wall clock that
rows, tokens and streaming queries expire by. Secrets (tokens, sessions) are stored as their SHA-256, passwords as their
argon2 hash, since every node can read every record.
"""

from typing import TypeAlias

from leasehold.core.words.records.base import Record
from leasehold.core.words.records.cluster import (
    CertifiedNameRecord,
    ClusterRecord,
    CoordinatorRecord,
    CountersRecord,
    GenerationOrigin,
    LargestLeaseRecord,
    LeaderRecord,
    NodeRecord,
    RevokedCertificateRecord,
    SettingsRecord,
)
from leasehold.core.words.records.data import (
    ColumnStatistics,
    JoinedSegments,
    QueryRecord,
    ReplacedRecord,
    SegmentFormat,
    SegmentRecord,
    StreamRecord,
    TransactionRecord,
    TransactionState,
)
from leasehold.core.words.records.log import (
    CheckpointChunk,
    CheckpointRow,
    LogBody,
    LogCheckpoint,
    LogEntry,
    LogFillingRecord,
    LogFormatRecord,
    LogPosition,
    LogTransaction,
    MetaMoveRecord,
    StoredChunk,
)
from leasehold.core.words.records.objects import (
    BucketRecord,
    Comparison,
    DatabaseRecord,
    DeleteRecord,
    DroppedRecord,
    Field,
    HorizonRecord,
    Need,
    TableRecord,
    UseState,
    ViewColumn,
    ViewRecord,
    Widening,
)
from leasehold.core.words.records.principals import (
    GrantRecord,
    LoginLimits,
    LoginRecord,
    PrincipalKind,
    PrincipalRecord,
    Right,
    TokenRecord,
)
from leasehold.core.words.records.statements import (
    BarrierReceipt,
    Claim,
    ExpiredRows,
    Hidden,
    HiddenColumn,
    HiddenDatabase,
    HiddenMembership,
    HiddenPrincipal,
    HiddenRights,
    HiddenRows,
    HiddenTable,
    HiddenView,
    Outcome,
    ProcedureRecord,
    SettledHow,
    SettledNode,
    StatementRecord,
    Step,
    Waited,
)
from leasehold.core.words.records.vault import Allocated, Claiming, IdentityRecord, Joining

_Singles: TypeAlias = ClusterRecord | SettingsRecord | CountersRecord | LargestLeaseRecord | LeaderRecord
_Processes: TypeAlias = NodeRecord | CoordinatorRecord
_Certificates: TypeAlias = RevokedCertificateRecord | CertifiedNameRecord
_Objects: TypeAlias = DatabaseRecord | TableRecord | ViewRecord | BucketRecord | HorizonRecord | DroppedRecord
_Rows: TypeAlias = SegmentRecord | ReplacedRecord | DeleteRecord | QueryRecord | StreamRecord | TransactionRecord
_Principals: TypeAlias = PrincipalRecord | GrantRecord | LoginRecord | TokenRecord
_Statements: TypeAlias = StatementRecord | ProcedureRecord
_Log: TypeAlias = LogPosition | LogBody | LogEntry | LogCheckpoint | CheckpointChunk | LogFormatRecord
_Moves: TypeAlias = MetaMoveRecord | LogFillingRecord
AnyRecord: TypeAlias = (
    _Singles
    | _Processes
    | _Certificates
    | _Objects
    | _Rows
    | _Principals
    | _Statements
    | _Log
    | _Moves
    | IdentityRecord
)
"""Everything that is stored under a key of its own."""
