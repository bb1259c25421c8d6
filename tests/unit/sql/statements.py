"""Every statement that can be written, for properties that hold for all of them: one strategy for each kind."""

from typing import Final, get_args

from hypothesis import strategies as st

from leasehold.core.ddl import claims
from leasehold.core.ddl.settings import SETTINGS
from leasehold.core.words.records.principals import PrincipalKind, Right
from leasehold.core.words.statements import (
    AddColumns,
    AlterCluster,
    AlterDatabase,
    AlterNode,
    AlterProperties,
    AnyStatement,
    CancelProcedure,
    ColumnDefinition,
    Comment,
    Condition,
    CreateDatabase,
    CreateRole,
    CreateTable,
    CreateToken,
    CreateUser,
    CreateView,
    Definition,
    DeleteRows,
    Describe,
    DescribeDatabase,
    DropColumn,
    DropDatabase,
    DropPrincipal,
    DropTable,
    DropToken,
    DropView,
    Explain,
    GrantRights,
    GrantRole,
    Literal,
    MoveColumn,
    OnCluster,
    OnDatabase,
    OnTable,
    OnView,
    Rebalance,
    RenameColumn,
    RenamePrincipal,
    RenameTable,
    RenameView,
    Revoke,
    RevokeCertificate,
    RevokeRole,
    SetCertificate,
    SetDefault,
    SetPassword,
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
    TableName,
    WidenColumn,
    fold,
)
from leasehold.core.words.types import PLAIN_NAMES, Decimal, Plain
from leasehold.ids import NODE_NAME
from leasehold.limits.people import PASSWORD_CHARACTERS_MAX
from leasehold.limits.statements import BUCKETS_MAX, DURATION_NS_MAX, REPLICATION_MAX
from tests.unit.sql.rendering import RESERVED

WORDS: Final = sorted(word for word in RESERVED if word.isidentifier() and word.isascii())
NAMES = st.one_of(st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,20}\Z"), st.sampled_from(WORDS), st.sampled_from("abcxyz"))
TABLES = st.builds(TableName, NAMES, NAMES)
TYPES = st.one_of(
    st.sampled_from(sorted(PLAIN_NAMES)).map(Plain),
    st.integers(1, 38).flatmap(lambda digits: st.builds(Decimal, st.just(digits), st.integers(0, digits))),
)
VALUES = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=30),
    st.text("\\'\"`%_0uUAnNZ{}#-/*; \n", max_size=30),
)
KEYS = st.from_regex(r"\A[a-z0-9_.-]{1,12}\Z").filter(
    lambda key: key not in {"ttl", "time_column", "replication", "min_in_sync"} and not key.startswith("leasehold.")
)
PROPERTIES = st.dictionaries(KEYS, VALUES, max_size=3)
SET = st.dictionaries(KEYS, VALUES, min_size=1, max_size=3)
UNSET = st.lists(KEYS, max_size=3).map(dict.fromkeys)
NUMBERS = st.from_regex(r"\A-?[0-9]{1,20}(\.[0-9]{1,10})?([eE][+-]?[0-9]{1,3})?\Z")
VALUES_SAID = st.one_of(
    st.builds(Literal, st.sampled_from(["string", "date", "timestamp"]), VALUES),
    st.builds(Literal, st.just("number"), NUMBERS),
    st.builds(Literal, st.just("boolean"), st.sampled_from(["true", "false"])),
    st.builds(Literal, st.just("binary"), st.binary(max_size=10).map(bytes.hex)),
)
LITERALS = VALUES_SAID | st.just(Literal("null", ""))
OBJECTS = st.one_of(st.builds(OnDatabase, NAMES), st.builds(OnTable, TABLES), st.builds(OnView, TABLES))
ON = st.builds(OnCluster) | OBJECTS
RIGHTS = st.lists(st.sampled_from(list(Right)), min_size=1, unique=True).map(tuple)
PRINCIPALS = st.sampled_from(list(PrincipalKind))
PASSWORDS = VALUES.filter(lambda text: 1 <= len(text) <= PASSWORD_CHARACTERS_MAX)
BODIES = st.sampled_from(
    [
        ("SELECT 1", ()),
        ("SELECT * FROM a.b WHERE x = 'it\\'s \\\\ \\n'", (TableName("a", "b"),)),
        (
            "WITH q AS (SELECT x, COUNT(*) AS n FROM a.b GROUP BY x) SELECT n FROM q JOIN `select`.`table` USING (x)",
            (TableName("select", "table"), TableName("a", "b")),
        ),
    ]
)


def columns(*, added: bool) -> st.SearchStrategy[tuple[ColumnDefinition, ...]]:
    one = st.builds(
        ColumnDefinition,
        name=NAMES,
        type=TYPES,
        nullable=st.booleans(),
        default=st.none() | LITERALS,
        comment=VALUES,
    ).filter(lambda column: not added or column.nullable or (column.default or Literal("null", "")).kind != "null")
    return st.lists(one, min_size=1, max_size=5, unique_by=lambda column: fold(column.name)).map(tuple)


@st.composite
def create_tables(draw: st.DrawFn) -> CreateTable:
    those = draw(columns(added=False))
    times = [column.name for column in those if column.type in {Plain("DATE"), Plain("TIMESTAMP")}]
    time_column = draw(st.none() | st.sampled_from(times)) if times else None
    cluster_by = draw(st.none() | st.sampled_from([column.name for column in those]))
    return CreateTable(
        name=draw(TABLES),
        columns=those,
        if_not_exists=draw(st.booleans()),
        cluster_by=cluster_by,
        buckets=draw(st.integers(1, BUCKETS_MAX)) if cluster_by else 1,
        replication=draw(st.none() | st.integers(1, REPLICATION_MAX)),
        min_in_sync=draw(st.none() | st.integers(1, REPLICATION_MAX)),
        ttl_ns=draw(st.none() | st.integers(1, DURATION_NS_MAX)) if time_column else None,
        time_column=time_column,
        comment=draw(VALUES),
        properties=draw(PROPERTIES),
    )


@st.composite
def create_views(draw: st.DrawFn) -> CreateView:
    body, reads = draw(BODIES)
    or_replace = draw(st.booleans())
    return CreateView(
        view=draw(TABLES),
        body=body,
        reads=reads,
        names=draw(st.lists(NAMES, max_size=3, unique_by=fold).map(tuple)),
        or_replace=or_replace,
        if_not_exists=not or_replace and draw(st.booleans()),
        comment=draw(VALUES),
    )


def renamed(kind: type[RenameTable] | type[RenameView], what: str) -> st.SearchStrategy[RenameTable | RenameView]:
    return st.builds(
        lambda database, old, new, said: kind(
            **{what: TableName(database, old)}, to=TableName(database, new), if_exists=said
        ),
        NAMES,
        NAMES,
        NAMES,
        st.booleans(),
    )


SAID = st.booleans()
_DEFINED: Final[dict[type, st.SearchStrategy[AnyStatement]]] = {
    CreateDatabase: st.builds(CreateDatabase, name=NAMES, if_not_exists=SAID, comment=VALUES, properties=PROPERTIES),
    AlterDatabase: st.builds(AlterDatabase, name=NAMES, properties=SET)
    | st.builds(AlterDatabase, name=NAMES, properties=UNSET.filter(bool), if_exists=SAID),
    DropDatabase: st.builds(DropDatabase, name=NAMES, if_exists=SAID, cascade=SAID),
    CreateTable: create_tables(),
    RenameTable: renamed(RenameTable, "table"),
    AlterProperties: st.builds(
        AlterProperties,
        table=TABLES,
        properties=SET,
        ttl_ns=st.none() | st.integers(1, DURATION_NS_MAX),
        replication=st.none() | st.integers(1, REPLICATION_MAX),
        min_in_sync=st.none() | st.integers(1, REPLICATION_MAX),
    )
    | st.builds(AlterProperties, table=TABLES, properties=UNSET, ttl_ns=st.just(0), if_exists=SAID)
    | st.builds(AlterProperties, table=TABLES, properties=UNSET, min_in_sync=st.just(0), if_exists=SAID)
    | st.builds(AlterProperties, table=TABLES, properties=UNSET.filter(bool), if_exists=SAID),
    DropTable: st.builds(DropTable, table=TABLES, if_exists=SAID, cascade=SAID),
    AddColumns: st.builds(AddColumns, table=TABLES, columns=columns(added=True), if_not_exists=SAID),
    RenameColumn: st.builds(RenameColumn, table=TABLES, old=NAMES, new=NAMES),
    MoveColumn: st.builds(MoveColumn, table=TABLES, column=NAMES, after=st.none() | NAMES),
    WidenColumn: st.builds(WidenColumn, table=TABLES, column=NAMES, type=TYPES),
    SetDefault: st.builds(SetDefault, table=TABLES, column=NAMES, default=st.none() | LITERALS),
    DropColumn: st.builds(DropColumn, table=TABLES, column=NAMES, if_exists=SAID, cascade=SAID),
    CreateView: create_views(),
    RenameView: renamed(RenameView, "view"),
    DropView: st.builds(DropView, view=TABLES, if_exists=SAID, cascade=SAID),
    Comment: st.builds(Comment, on=OBJECTS, text=VALUES)
    | st.builds(Comment, on=st.builds(OnTable, TABLES), text=VALUES, column=NAMES),
    DeleteRows: st.builds(
        DeleteRows,
        table=TABLES,
        where=st.lists(
            st.builds(
                Condition, column=NAMES, operator=st.sampled_from(["=", "<", "<=", ">", ">="]), value=VALUES_SAID
            ),
            min_size=1,
            max_size=4,
        ).map(tuple),
    ),
    CreateUser: st.builds(CreateUser, name=NAMES, password=PASSWORDS, if_not_exists=SAID),
    SetPassword: st.builds(SetPassword, name=NAMES, password=PASSWORDS),
    SetCertificate: st.builds(SetCertificate, name=NAMES, is_on=SAID),
    CreateToken: st.builds(
        CreateToken,
        name=NAMES,
        user=NAMES,
        hash=st.binary(min_size=32, max_size=32),
        expires_ns=st.none() | st.integers(1, DURATION_NS_MAX),
    ),
    DropToken: st.builds(DropToken, name=NAMES, if_exists=SAID),
    CreateRole: st.builds(CreateRole, name=NAMES, if_not_exists=SAID),
    RenamePrincipal: st.builds(RenamePrincipal, kind=PRINCIPALS, name=NAMES, to=NAMES),
    DropPrincipal: st.builds(DropPrincipal, kind=PRINCIPALS, name=NAMES, if_exists=SAID),
    GrantRights: st.builds(GrantRights, rights=RIGHTS, on=ON, to=NAMES),
    Revoke: st.builds(Revoke, rights=RIGHTS, on=ON, of=NAMES),
    GrantRole: st.builds(GrantRole, role=NAMES, user=NAMES),
    RevokeRole: st.builds(RevokeRole, role=NAMES, user=NAMES),
    Rebalance: st.builds(Rebalance, stops=SAID),
    RevokeCertificate: st.builds(RevokeCertificate, serial=st.integers(1, 2**160 - 1).map("{:x}".format), revokes=SAID),
    AlterNode: st.builds(AlterNode, node=st.from_regex(NODE_NAME, fullmatch=True), drains=SAID),
    AlterCluster: st.fixed_dictionaries(
        {}, optional={one.name: st.integers(one.smallest, one.largest) for one in SETTINGS}
    )
    .filter(bool)
    .map(lambda those: AlterCluster(settings=those)),
}
DEFINITIONS = st.one_of(*_DEFINED.values())
_CLAIMED = st.one_of(
    st.just(claims.CLUSTER),
    NAMES.map(claims.database_name),
    TABLES.map(claims.table_name),
    NAMES.map(claims.principal_name),
)
BY_KIND: Final[dict[type, st.SearchStrategy[AnyStatement]]] = {
    **_DEFINED,
    Explain: st.builds(Explain, statement=DEFINITIONS),
    CancelProcedure: st.builds(CancelProcedure, number=st.integers(0, 2**62)),
    ShowDatabases: st.builds(ShowDatabases),
    ShowTables: st.builds(ShowTables, database=st.none() | NAMES),
    ShowViews: st.builds(ShowViews, database=st.none() | NAMES),
    ShowNodes: st.builds(ShowNodes),
    ShowCluster: st.builds(ShowCluster),
    ShowCoordinators: st.builds(ShowCoordinators),
    ShowProperties: st.builds(ShowProperties, table=TABLES),
    ShowRebalance: st.just(ShowRebalance()),
    ShowRepairs: st.just(ShowRepairs()),
    ShowRevoked: st.just(ShowRevoked()),
    ShowBuckets: st.builds(ShowBuckets, table=TABLES),
    ShowProcedures: st.builds(ShowProcedures),
    ShowHistory: st.builds(ShowHistory, of=st.none() | _CLAIMED),
    ShowPrincipals: st.builds(ShowPrincipals, roles=SAID),
    ShowTokens: st.builds(ShowTokens),
    ShowGrants: st.builds(ShowGrants, principal=st.none() | NAMES, on=st.none() | ON),
    Describe: st.builds(Describe, table=TABLES),
    DescribeDatabase: st.builds(DescribeDatabase, name=NAMES),
}
STATEMENTS = st.one_of(*BY_KIND.values())

assert set(_DEFINED) == set(get_args(Definition)), "every definition has its strategy"
assert set(BY_KIND) == set(get_args(AnyStatement)), "every statement has its strategy"
