"""SQL text to statements: `parse`, the one way in.

The tokens are sqlglot's, and so is the syntax tree of a view's SELECT; every other statement is read token by token,
with a module for each group. `create_table` and its like read a statement from behind the words of their name, and
raise what `parse` raises. What is not known is refused by name, never ignored.
"""

from functools import lru_cache

from leasehold.core.words.records.principals import PrincipalKind
from leasehold.core.words.statements import AnyStatement, CancelProcedure, Definition, DropTable, Explain
from leasehold.errors import BadStatement
from leasehold.ids import USER_TOKEN
from leasehold.limits.statements import (
    LARGE_STATEMENT_CHARACTERS,
    PARSE_INLINE_CHARACTERS,
    PARSE_KEPT_CHARACTERS,
    PARSED_STATEMENTS_KEPT,
)
from leasehold.sql import alter, databases, principals, questions
from leasehold.sql.cluster import alter_cluster, alter_node
from leasehold.sql.create_view import create_view, drop_view
from leasehold.sql.cursor import Cursor
from leasehold.sql.front import read
from leasehold.sql.rows import delete_rows
from leasehold.sql.table import create_table

_OBJECTS = ("DATABASE", "SCHEMA", "TABLE", "VIEW", "USER", "ROLE")


def parse(text: str) -> AnyStatement:
    """The one statement in `text`.

    Raises `BadStatement`, whose hint is the grammar of the statement that seems meant, or `Refused` with code
    BAD_TYPE, BAD_IDENTIFIER, BAD_PROPERTY, BAD_BUCKETS, BAD_COMMENT, BAD_PASSWORD, BAD_DURATION, BAD_VALUE,
    DUPLICATE_COLUMN, NO_SUCH_COLUMN, TOO_MANY_COLUMNS, NOT_NULL_ADDED, OTHER_DATABASE, SELECT_TOO_LONG,
    NO_SUCH_SETTING, FIXED_SETTING, BAD_SETTING or SETTING_TWICE. It raises nothing else, whatever the text, and prints
    nothing.
    """
    if len(text) > PARSE_KEPT_CHARACTERS or "PASSWORD" in text.upper():
        return _parse(text)
    return _parse_once(text)


def _parse(text: str) -> AnyStatement:
    if USER_TOKEN.search(text) is not None:  # errors and the history would show it
        raise BadStatement(
            "the statement has the text of a token in it, which is a secret",
            hint="write its name, or its hash in CREATE TOKEN; drop the token if others may have read the text",
        )
    cursor = Cursor(read(text))
    statement = _statement(cursor)
    cursor.end()
    return statement


_parse_once = lru_cache(PARSED_STATEMENTS_KEPT)(_parse)
"""Short texts are parsed again and again. A text with a secret is not kept."""


def parses_at_once(text: str) -> bool:
    """Whether `parse` takes no longer than an event loop can spare."""
    return len(text) <= PARSE_INLINE_CHARACTERS and not may_take_seconds(text)


def may_take_seconds(text: str) -> bool:
    """Whether `parse` may take that long: a large statement, or the SELECT of a view."""
    if len(text) > LARGE_STATEMENT_CHARACTERS:
        return True
    words = text.upper()
    return "CREATE" in words and "VIEW" in words


def _statement(cursor: Cursor) -> AnyStatement:
    if cursor.accept("SHOW"):
        return questions.show(cursor)
    if cursor.accept("DESCRIBE") or cursor.accept("DESC"):
        return questions.describe(cursor)
    if cursor.accept("EXPLAIN"):
        return Explain(statement=_definition(cursor))
    if cursor.accept("CANCEL"):
        cursor.expect("PROCEDURE")
        return CancelProcedure(number=cursor.count("the number of a procedure"))
    return _definition(cursor)


def _definition(cursor: Cursor) -> Definition:
    if cursor.accept("CREATE"):
        return _create(cursor)
    if cursor.accept("ALTER"):
        return _alter(cursor)
    if cursor.accept("DROP"):
        return _drop(cursor)
    if cursor.accept("COMMENT"):
        cursor.expect("ON")
        return alter.comment_on(cursor)
    if cursor.accept("DELETE"):
        cursor.expect("FROM")
        return delete_rows(cursor)
    if cursor.accept("GRANT"):
        return principals.grant(cursor)
    if cursor.accept("REVOKE"):
        return principals.revoke(cursor)
    if cursor.at:
        raise cursor.bad("EXPLAIN is only for statements that change something")
    if cursor.form in {"SELECT", "WITH", "(", "INSERT"}:
        raise BadStatement(
            "a coordinator does not run SELECT or INSERT, because clients read and write rows",
            hint='read with cluster.query("SELECT ..") or `leasehold sql`; an older client does not support them',
        )
    if cursor.form in {"UPDATE", "MERGE"}:
        raise BadStatement(f"only Spark runs {cursor.form}", hint=f'leasehold.spark.sql(spark, "{cursor.form} ..")')
    raise cursor.bad("this is not a statement of Leasehold")


def _create(cursor: Cursor) -> Definition:
    if cursor.accept("OR", "REPLACE"):
        if not cursor.accept("VIEW"):
            raise cursor.unsupported("OR REPLACE is for views, so 'VIEW' is expected")
        return create_view(cursor, or_replace=True)
    match cursor.choose(*_OBJECTS, "TOKEN"):
        case "TABLE":
            return create_table(cursor)
        case "VIEW":
            return create_view(cursor, or_replace=False)
        case "USER":
            return principals.create_user(cursor)
        case "ROLE":
            return principals.create_role(cursor)
        case "TOKEN":
            return principals.create_token(cursor)
        case _:
            return databases.create_database(cursor)


def _alter(cursor: Cursor) -> Definition:
    match cursor.choose(*_OBJECTS, "CLUSTER", "NODE"):
        case "TABLE":
            return alter.alter_table(cursor)
        case "VIEW":
            return alter.alter_view(cursor)
        case "USER":
            return principals.alter_principal(cursor, PrincipalKind.USER)
        case "ROLE":
            return principals.alter_principal(cursor, PrincipalKind.ROLE)
        case "CLUSTER":
            return alter_cluster(cursor)
        case "NODE":
            return alter_node(cursor)
        case _:
            return databases.alter_database(cursor)


def _drop(cursor: Cursor) -> Definition:
    match cursor.choose(*_OBJECTS, "TOKEN"):
        case "TABLE":
            if_exists = cursor.accept("IF", "EXISTS")
            table = cursor.table()
            return DropTable(table=table, if_exists=if_exists, cascade=cursor.accept("CASCADE"))
        case "VIEW":
            return drop_view(cursor)
        case "USER":
            return principals.drop_principal(cursor, PrincipalKind.USER)
        case "ROLE":
            return principals.drop_principal(cursor, PrincipalKind.ROLE)
        case "TOKEN":
            return principals.drop_token(cursor)
        case _:
            return databases.drop_database(cursor)
