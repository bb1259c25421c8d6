"""Statements that only read: SHOW, DESCRIBE, EXPLAIN."""

from leasehold.core.words.statements.base import On, Statement, TableName


class ShowDatabases(Statement, frozen=True, kw_only=True):
    """`SHOW DATABASES`."""


class ShowTables(Statement, frozen=True, kw_only=True):
    """`SHOW TABLES [IN d]`; without a database, of all."""

    database: str | None = None


class ShowViews(Statement, frozen=True, kw_only=True):
    """`SHOW VIEWS [IN d]`; without a database, of all."""

    database: str | None = None


class ShowNodes(Statement, frozen=True, kw_only=True):
    """`SHOW NODES`."""


class ShowCoordinators(Statement, frozen=True, kw_only=True):
    """`SHOW COORDINATORS`."""


class ShowCluster(Statement, frozen=True, kw_only=True):
    """`SHOW CLUSTER`: the settings."""


class ShowProperties(Statement, frozen=True, kw_only=True):
    """`SHOW TBLPROPERTIES d.t`."""

    table: TableName


class ShowBuckets(Statement, frozen=True, kw_only=True):
    """`SHOW BUCKETS OF d.t`: where the copies of a table are."""

    table: TableName


class ShowRebalance(Statement, frozen=True, kw_only=True):
    """`SHOW REBALANCE`: the replicas that move, and those that a rebalance would move."""


class ShowRepairs(Statement, frozen=True, kw_only=True):
    """`SHOW REPAIRS`: the copies that nodes get, and the buckets that leave nodes."""


class ShowRevoked(Statement, frozen=True, kw_only=True):
    """`SHOW REVOKED CERTIFICATES`."""


class ShowProcedures(Statement, frozen=True, kw_only=True):
    """`SHOW PROCEDURES`: the statements that have not ended, and the drops whose files are still being deleted."""


class ShowHistory(Statement, frozen=True, kw_only=True):
    """`SHOW HISTORY [FOR DATABASE d | TABLE d.t | VIEW d.v | USER u | ROLE r | CLUSTER]`, newest first.

    `of` is the name as statements claim it (`core.ddl.claims`), None for all.
    """

    of: str | None = None


class ShowPrincipals(Statement, frozen=True, kw_only=True):
    """`SHOW USERS` and `SHOW ROLES`."""

    roles: bool


class ShowTokens(Statement, frozen=True, kw_only=True):
    """`SHOW TOKENS`: their names and users, never a token or its hash."""


class ShowGrants(Statement, frozen=True, kw_only=True):
    """`SHOW GRANTS [FOR name] [ON object]`."""

    principal: str | None = None
    on: On | None = None


class Describe(Statement, frozen=True, kw_only=True):
    """`DESCRIBE [TABLE] d.t`, also of a view."""

    table: TableName


class DescribeDatabase(Statement, frozen=True, kw_only=True):
    """`DESCRIBE DATABASE d`."""

    name: str
