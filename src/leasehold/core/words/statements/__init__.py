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
    CreateUser,
    DropPrincipal,
    GrantRights,
    GrantRole,
    OfPrincipals,
    RenamePrincipal,
    Revoke,
    RevokeRole,
    SetPassword,
)
from leasehold.core.words.statements.questions import (
    Describe,
    DescribeDatabase,
    ShowCluster,
    ShowDatabases,
    ShowGrants,
    ShowHistory,
    ShowNodes,
    ShowPrincipals,
    ShowProcedures,
    ShowProperties,
    ShowTables,
    ShowViews,
)


class AlterCluster(Statement, frozen=True, kw_only=True):
    """`ALTER CLUSTER SET setting = value, ..`: values by the settings' names, within their ranges
    (`core/ddl/settings.py`); durations in nanoseconds."""

    settings: dict[str, int]


Definition: TypeAlias = (
    CreateDatabase
    | AlterDatabase
    | DropDatabase
    | CreateTable
    | RenameTable
    | AlterProperties
    | DropTable
    | AddColumns
    | RenameColumn
    | MoveColumn
    | WidenColumn
    | SetDefault
    | DropColumn
    | CreateView
    | RenameView
    | DropView
    | Comment
    | DeleteRows
    | OfPrincipals
    | AlterCluster
)
"""Statements that change the catalog, each run as a procedure."""


class Explain(Statement, frozen=True, kw_only=True):
    """`EXPLAIN statement`: how it would run, whom it would wait for, and how long at most. Changes nothing."""

    statement: Definition


class CancelProcedure(Statement, frozen=True, kw_only=True):
    """`CANCEL PROCEDURE n`: rolls a statement back that has not reached its point of no return."""

    number: int


Question: TypeAlias = (
    ShowDatabases
    | ShowTables
    | ShowViews
    | ShowNodes
    | ShowCluster
    | ShowProperties
    | ShowProcedures
    | ShowHistory
    | ShowPrincipals
    | ShowGrants
    | Describe
    | DescribeDatabase
)
"""Statements that only read the catalog."""

AnyStatement: TypeAlias = Definition | Question | Explain | CancelProcedure
