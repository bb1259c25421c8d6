"""Random statements of every kind on few names, so that they conflict."""

from collections.abc import Sequence
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Final

DATABASES: Final = ("d1", "d2")
TABLES: Final = ("t1", "t2")
VIEWS: Final = ("v1", "v2")
OTHER_TABLE: Final = "t3"
OTHER_VIEW: Final = "v3"
"""Names that only renames give and take, so that renames find a free name."""
COLUMNS: Final = ("a", "b", "c")
USERS: Final = ("u1", "u2")
ROLES: Final = ("r1", "r2")
READING_ROLE: Final = "reading"
"""No random statement changes its rights."""
RIGHTS: Final = ("SELECT", "INSERT", "ALTER", "DROP", "CREATE")
TYPES: Final = ("SMALLINT", "INT", "BIGINT")
DURATIONS: Final = ("2s", "3s", "5s")
TIMED: Final = "(a INT, b BIGINT, at TIMESTAMP) TBLPROPERTIES ('time_column' = 'at')"
TTLS: Final = ("1d", "7d", "30d")
KEPT: Final = "d3.t1"
"""A table that no random statement names, so it has rows for most of the time."""
KEPT_MADE: Final = f"CREATE TABLE {KEPT} (a INT, b INT) CLUSTERED BY (a) INTO 4 BUCKETS"
KEPT_VIEW: Final = "d3.v1"
KEPT_VIEW_MADE: Final = f"CREATE VIEW {KEPT_VIEW} AS SELECT a, b FROM {KEPT}"
DROPPED_CHANCE: Final = 0.05
IN_SYNC: Final = (1, 2)
REPLACE_AFTER: Final = ("5s", "8s", "15m", "never")
REBALANCE: Final = ("auto", "manual")
REPLICATION: Final = (1, 2, 2, 3)
"""2 is the default: with fewer copies the loss of a machine loses more than it has to."""

Choices = tuple[tuple[float, str], ...]


def some_statement(random: Random, *, people: bool = False) -> str:
    """One statement; if `people`, it may be about users, roles and rights, which needs a login."""
    groups = [(10.0, _databases), (30.0, _tables), (10.0, _columns), (6.0, _views), (2.0, _cluster)]
    if people:
        groups.append((25.0, _people))
    weights, makers = zip(*groups, strict=True)
    choices = random.choices(makers, weights)[0](random)
    chances, texts = zip(*choices, strict=True)
    return random.choices(texts, chances)[0]


def _databases(random: Random) -> Choices:
    name = random.choice(DATABASES)
    return (
        (3, f"CREATE DATABASE {name}"),
        (3, f"CREATE DATABASE IF NOT EXISTS {name}"),
        (2, f"DROP DATABASE {name}"),
        (0.5, f"DROP DATABASE IF EXISTS {name} CASCADE"),
        (1, f"ALTER DATABASE {name} SET DBPROPERTIES ('k' = '{random.randrange(3)}')"),
        (0.5, f"ALTER DATABASE {name} UNSET DBPROPERTIES IF EXISTS ('k')"),
        (1, f"COMMENT ON DATABASE {name} IS '{random.randrange(3)}'"),
    )


def _renamed(random: Random, database: str, names: tuple[str, ...]) -> str:
    old, new = random.sample(names, 2)
    return f"{database}.{old} RENAME TO {database}.{new}"


def _tables(random: Random) -> Choices:
    database = random.choice(DATABASES)
    name = f"{database}.{random.choice(TABLES)}"
    return (
        (4, f"CREATE TABLE {name} (a INT, b INT)"),
        (4, f"CREATE TABLE {name} (a INT, b INT) CLUSTERED BY (a) INTO 2 BUCKETS"),
        (3, f"CREATE TABLE IF NOT EXISTS {name} (a INT, b INT)"),
        (2, f"CREATE TABLE {name} {TIMED}"),
        (2, f"DROP TABLE {name}"),
        (0.5, f"DROP TABLE IF EXISTS {name}"),
        (1, f"DROP TABLE {name} CASCADE"),
        (6, f"ALTER TABLE {name} ADD COLUMN {random.choice(COLUMNS)} INT"),
        (2, f"ALTER TABLE {name} ADD COLUMN IF NOT EXISTS {random.choice(COLUMNS)} INT DEFAULT {random.randrange(9)}"),
        (5, f"ALTER TABLE {name} DROP COLUMN {random.choice(COLUMNS)}"),
        (1, f"ALTER TABLE {name} DROP COLUMN IF EXISTS {random.choice(COLUMNS)} CASCADE"),
        (2, f"ALTER TABLE {_renamed(random, database, (*TABLES, OTHER_TABLE))}"),
        (1, f"ALTER TABLE {name} SET TBLPROPERTIES ('k' = '{random.randrange(3)}')"),
        (1, f"ALTER TABLE {name} UNSET TBLPROPERTIES IF EXISTS ('k')"),
        (2, f"ALTER TABLE {name} SET TBLPROPERTIES ('ttl' = '{random.choice(TTLS)}')"),
        (1, f"ALTER TABLE {name} UNSET TBLPROPERTIES IF EXISTS ('ttl')"),
        (2, f"ALTER TABLE {name} SET TBLPROPERTIES ('replication' = '{random.choice(REPLICATION)}')"),
        (1, f"ALTER TABLE {name} SET TBLPROPERTIES ('min_in_sync' = '{random.choice(IN_SYNC)}')"),
        (0.5, f"ALTER TABLE {name} UNSET TBLPROPERTIES IF EXISTS ('min_in_sync')"),
        (1, f"COMMENT ON TABLE {name} IS '{random.randrange(3)}'"),
        (6, f"DELETE FROM {name} WHERE a {random.choice(('<', '=', '>='))} {random.randrange(60)}"),
    )


def _columns(random: Random) -> Choices:
    table = f"ALTER TABLE {random.choice(DATABASES)}.{random.choice(TABLES)}"
    column = f"{table} ALTER COLUMN {random.choice(COLUMNS)}"
    return (
        (3, f"{table} RENAME COLUMN {random.choice(COLUMNS)} TO {random.choice(COLUMNS)}"),
        (4, f"{column} TYPE {random.choice(TYPES)}"),
        (1, f"{column} FIRST"),
        (1, f"{column} AFTER {random.choice(COLUMNS)}"),
        (1, f"{column} SET DEFAULT {random.randrange(9)}"),
        (0.5, f"{column} DROP DEFAULT"),
        (0.5, f"{column} COMMENT '{random.randrange(3)}'"),
    )


def _views(random: Random) -> Choices:
    database = random.choice(DATABASES)
    name = f"{database}.{random.choice(VIEWS)}"
    source = f"{random.choice(DATABASES)}.{random.choice((*TABLES, *TABLES, *VIEWS))}"
    return (
        (3, f"CREATE VIEW {name} AS SELECT a, b FROM {source}"),
        (2, f"CREATE OR REPLACE VIEW {name} AS SELECT b FROM {source}"),
        (1, f"CREATE VIEW IF NOT EXISTS {name} AS SELECT a FROM {source}"),
        (2, f"DROP VIEW {name}"),
        (1, f"DROP VIEW IF EXISTS {name} CASCADE"),
        (1, f"ALTER VIEW {_renamed(random, database, (*VIEWS, OTHER_VIEW))}"),
        (0.5, f"COMMENT ON VIEW {name} IS '{random.randrange(3)}'"),
    )


def _cluster(random: Random) -> Choices:
    return (
        (2, f"ALTER CLUSTER SET lease_duration = '{random.choice(DURATIONS)}'"),
        (1, f"ALTER CLUSTER SET min_in_sync = {random.choice(IN_SYNC)}"),
        (1, f"ALTER CLUSTER SET replace_after = '{random.choice(REPLACE_AFTER)}'"),
        (1, f"ALTER NODE {random.randrange(1, 5)} DRAIN"),
        (1, f"ALTER NODE {random.randrange(1, 5)} UNDRAIN"),
        (1.5, "ALTER CLUSTER REBALANCE"),
        (0.5, "ALTER CLUSTER STOP REBALANCE"),
        (0.5, f"ALTER CLUSTER SET rebalance = '{random.choice(REBALANCE)}'"),
    )


def _people(random: Random) -> Choices:
    user, role = random.choice(USERS), random.choice(ROLES)
    somebody = random.choice((user, user, role))
    database = random.choice(DATABASES)
    on = random.choice(
        (
            "CLUSTER",
            "CLUSTER",
            f"DATABASE {database}",
            f"TABLE {database}.{random.choice(TABLES)}",
            f"VIEW {database}.{random.choice(VIEWS)}",
        )
    )
    right = random.choice((*RIGHTS, "SELECT", "SELECT", "INSERT", "INSERT"))
    return (
        (2, f"CREATE USER {user} PASSWORD 'p'"),
        (1, f"CREATE USER IF NOT EXISTS {user} PASSWORD 'p'"),
        (1, f"ALTER USER {user} PASSWORD 'q'"),
        (0.5, f"ALTER USER {user} RENAME TO {random.choice(USERS)}"),
        (0.5, f"ALTER USER {user} SET CERTIFICATE {random.choice(('ON', 'OFF'))}"),
        (
            0.5,
            f"CREATE TOKEN k FOR USER {user} HASH '{random.randbytes(32).hex()}' EXPIRES '{random.choice(DURATIONS)}'",
        ),
        (0.5, "DROP TOKEN k"),
        (1, f"DROP USER {user}"),
        (1, f"CREATE ROLE {role}"),
        (0.5, f"CREATE ROLE IF NOT EXISTS {role}"),
        (0.5, f"ALTER ROLE {role} RENAME TO {random.choice(ROLES)}"),
        (0.5, f"DROP ROLE IF EXISTS {role}"),
        (3, f"GRANT {right} ON {on} TO {somebody}"),
        (3, f"GRANT ALL ON {on} TO {somebody}"),
        (4, f"REVOKE {right} ON {on} FROM {somebody}"),
        (2, f"REVOKE ALL ON {on} FROM {somebody}"),
        (2, f"GRANT ROLE {role} TO {user}"),
        (2, f"REVOKE ROLE {role} FROM {user}"),
    )


def taking(random: Random, table: str, user: str | None) -> tuple[str, ...]:
    """A statement that removes what a reader of a table reads, then those that restore it, if any.

    `user` is the reader, if it has a right of its own.
    """
    low = random.randrange(60)
    ways: list[tuple[str, ...]] = [
        (f"DROP TABLE {table} CASCADE", f"CREATE TABLE {table} (a INT, b INT)"),
        (f"DELETE FROM {table} WHERE a >= {low}",),
        (f"DELETE FROM {table} WHERE a < {low}",),
    ]
    if user is not None:
        ways.append((f"REVOKE SELECT ON CLUSTER FROM {user}", f"GRANT SELECT ON CLUSTER TO {user}"))
    return random.choice(ways)


def taking_kept(random: Random, rows: Sequence[int]) -> tuple[str, ...]:
    """Deletes some of these rows of the kept table, or sometimes drops the table and creates it again."""
    if random.random() < DROPPED_CHANCE:
        return f"DROP TABLE {KEPT}", KEPT_MADE
    if not rows:
        return ()
    low = max(random.choice(rows), random.choice(rows))
    return (f"DELETE FROM {KEPT} WHERE a >= {low}",)


def reading(user: str, *, by_role: bool) -> str:
    """The statement that lets a user read everything."""
    return f"GRANT ROLE {READING_ROLE} TO {user}" if by_role else f"GRANT SELECT ON CLUSTER TO {user}"


def ways_to_take(user: str, password: str, other: str, *, by_role: bool) -> tuple[tuple[str, ...], ...]:
    """The ways to keep a user from reading, each with the statements that end it."""
    gives = reading(user, by_role=by_role)
    takes = f"REVOKE ROLE {READING_ROLE} FROM {user}" if by_role else f"REVOKE SELECT ON CLUSTER FROM {user}"
    return (
        (takes, gives),
        (f"ALTER USER {user} PASSWORD '{other}'", f"ALTER USER {user} PASSWORD '{password}'"),
        (f"DROP USER {user}", f"CREATE USER {user} PASSWORD '{password}'", gives),
    )


def reading_through(user: str) -> tuple[str, ...]:
    """The statements that make a user who may read and write the kept table, and read its view."""
    return (
        f"CREATE USER {user} PASSWORD 'p'",
        f"GRANT ALL ON TABLE {KEPT} TO {user}",
        f"GRANT SELECT ON VIEW {KEPT_VIEW} TO {user}",
    )


def ways_to_take_view(user: str | None) -> tuple[tuple[str, ...], ...]:
    """The ways to remove the view of the kept table, or the right of `user` on it, each with what ends it.

    `user` is the reader, if users exist.
    """
    drops = f"DROP VIEW {KEPT_VIEW}"
    if user is None:
        return ((drops, KEPT_VIEW_MADE),)
    gives = f"GRANT SELECT ON VIEW {KEPT_VIEW} TO {user}"
    return (drops, KEPT_VIEW_MADE, gives), (f"REVOKE SELECT ON VIEW {KEPT_VIEW} FROM {user}", gives)
