"""What a person can ask for in SQL: a closed union of intents, independent of the parser.

Names keep the case they were written in and are unique regardless of it (`fold`).
"""

from typing import TypeAlias

from leasehold.core.words.statements.base import (
    ColumnDefinition,
    Condition,
    Literal,
    On,
    OnCluster,
    OnDatabase,
    OnTable,
    OnView,
    Statement,
    TableName,
    fold,
)
from leasehold.core.words.statements.objects import (
    AddColumns,
    AlterDatabase,
    AlterProperties,
    Comment,
    CreateDatabase,
    CreateTable,
    CreateView,
    DeleteRows,
    DropColumn,
    DropDatabase,
    DropTable,
    DropView,
    MoveColumn,
    RenameColumn,
    RenameTable,
    RenameView,
    SetDefault,
    WidenColumn,
)
from leasehold.core.words.statements.principals import (
    CreateRole,
    CreateToken,
    CreateUser,
    DropPrincipal,
    DropToken,
    GrantRights,
    GrantRole,
    OfPrincipals,
    RenamePrincipal,
    Revoke,
    RevokeRole,
    SetCertificate,
    SetPassword,
)
from leasehold.core.words.statements.questions import (
    Describe,
    DescribeDatabase,
    ShowBuckets,
    ShowCluster,
    ShowCoordinators,
    ShowDatabases,
    ShowGrants,
    ShowHistory,
    ShowNodes,
    ShowPrincipals,
    ShowProcedures,
    ShowProperties,
    ShowRebalance,
    ShowRepairs,
    ShowRevoked,
    ShowTables,
    ShowTokens,
    ShowViews,
)


class AlterCluster(Statement, frozen=True, kw_only=True):
    """`ALTER CLUSTER SET setting = value, ..`: values by the settings' names, within their ranges
    (`core/ddl/settings.py`); durations in nanoseconds."""

    settings: dict[str, int]


class Rebalance(Statement, frozen=True, kw_only=True):
    """`ALTER CLUSTER REBALANCE` and `ALTER CLUSTER STOP REBALANCE`: buckets move to nodes that hold less, or no more of
    them do."""

    stops: bool


class RevokeCertificate(Statement, frozen=True, kw_only=True):
    """`ALTER CLUSTER REVOKE CERTIFICATE 'serial'` and `ALTER CLUSTER UNREVOKE CERTIFICATE 'serial'`: it counts no more,
    or does again."""

    serial: str
    """As in its record."""
    revokes: bool


class AlterNode(Statement, frozen=True, kw_only=True):
    """`ALTER NODE n DRAIN | UNDRAIN`: a node by its name or number gives up its buckets, or may have some again."""

    node: str
    drains: bool


_OfDatabases: TypeAlias = CreateDatabase | AlterDatabase | DropDatabase
_OfTables: TypeAlias = CreateTable | RenameTable | AlterProperties | DropTable | DeleteRows
_OfColumns: TypeAlias = AddColumns | RenameColumn | MoveColumn | WidenColumn | SetDefault | DropColumn
_OfViews: TypeAlias = CreateView | RenameView | DropView
OfCluster: TypeAlias = AlterCluster | Rebalance | RevokeCertificate | AlterNode
Definition: TypeAlias = _OfDatabases | _OfTables | _OfColumns | _OfViews | Comment | OfPrincipals | OfCluster
"""Statements that change the catalog, each run as a procedure."""
Growing: TypeAlias = CreateDatabase | CreateTable | AddColumns | CreateView | CreateUser | CreateRole | CreateToken
"""Those that need more space in the meta storage for good."""


class Explain(Statement, frozen=True, kw_only=True):
    """`EXPLAIN statement`: how it would run, the nodes that it would wait for, and how long at most."""

    statement: Definition


class CancelProcedure(Statement, frozen=True, kw_only=True):
    """`CANCEL PROCEDURE n`: rolls a statement back that has not reached its point of no return."""

    number: int


_Listing: TypeAlias = ShowDatabases | ShowTables | ShowViews
OfRelations: TypeAlias = _Listing | ShowProperties | ShowBuckets | Describe | DescribeDatabase
_OfLeader: TypeAlias = ShowNodes | ShowCoordinators | ShowCluster | ShowRepairs | ShowProcedures | ShowHistory
_OfPeople: TypeAlias = ShowPrincipals | ShowTokens | ShowGrants
Question: TypeAlias = OfRelations | _OfLeader | ShowRebalance | ShowRevoked | _OfPeople
"""Statements that only read the catalog."""

AnyStatement: TypeAlias = Definition | Question | Explain | CancelProcedure
