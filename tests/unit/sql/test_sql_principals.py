"""Users, roles and rights: what is read, what is refused, and that no password is repeated."""

import pytest

from leasehold.core.words.records.principals import PrincipalKind, Right
from leasehold.core.words.statements import (
    AnyStatement,
    CreateRole,
    CreateToken,
    CreateUser,
    DropPrincipal,
    DropToken,
    GrantRights,
    GrantRole,
    OnCluster,
    OnDatabase,
    OnTable,
    OnView,
    RenamePrincipal,
    Revoke,
    RevokeRole,
    SetCertificate,
    SetPassword,
    TableName,
)
from leasehold.errors import Refused
from leasehold.limits.people import PASSWORD_CHARACTERS_MAX
from leasehold.limits.statements import STATEMENT_CHARACTERS_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.sql.parse import parse
from leasehold.sql.secrets import redacted
from tests.unit.sql.refusals import refused
from tests.unit.sql.rendering import render

AB = TableName("a", "b")
ALL = tuple(Right)
SECRET = "hunter2"
HASH = bytes(range(32))
DIGEST = HASH.hex()
DAY_NS = 86_400 * SECOND_NS

ACCEPTED: list[tuple[str, AnyStatement]] = [
    ("CREATE USER u PASSWORD 'p'", CreateUser(name="u", password="p")),
    ('create user if not exists `U` password "it\'s"', CreateUser(name="U", password="it's", if_not_exists=True)),
    ("CREATE USER password PASSWORD 'p'", CreateUser(name="password", password="p")),
    ("ALTER USER u PASSWORD 'p'", SetPassword(name="u", password="p")),
    ("ALTER USER u RENAME TO v", RenamePrincipal(kind=PrincipalKind.USER, name="u", to="v")),
    ("DROP USER u", DropPrincipal(kind=PrincipalKind.USER, name="u")),
    ("DROP USER IF EXISTS u", DropPrincipal(kind=PrincipalKind.USER, name="u", if_exists=True)),
    ("ALTER USER u SET CERTIFICATE ON", SetCertificate(name="u", is_on=True)),
    ("alter user u set certificate off", SetCertificate(name="u", is_on=False)),
    (f"CREATE TOKEN t FOR USER u HASH '{DIGEST}'", CreateToken(name="t", user="u", hash=HASH)),
    (
        f"CREATE TOKEN `for` FOR USER u HASH '{DIGEST}' EXPIRES '30d'",
        CreateToken(name="for", user="u", hash=HASH, expires_ns=30 * DAY_NS),
    ),
    (
        f"CREATE TOKEN t FOR USER u HASH '{DIGEST}' EXPIRES INTERVAL 2 DAYS",
        CreateToken(name="t", user="u", hash=HASH, expires_ns=2 * DAY_NS),
    ),
    ("DROP TOKEN t", DropToken(name="t")),
    ("DROP TOKEN IF EXISTS t", DropToken(name="t", if_exists=True)),
    ("CREATE ROLE r", CreateRole(name="r")),
    ("CREATE ROLE IF NOT EXISTS r", CreateRole(name="r", if_not_exists=True)),
    ("ALTER ROLE r RENAME TO s", RenamePrincipal(kind=PrincipalKind.ROLE, name="r", to="s")),
    ("DROP ROLE IF EXISTS r", DropPrincipal(kind=PrincipalKind.ROLE, name="r", if_exists=True)),
    ("GRANT ALL ON CLUSTER TO u", GrantRights(rights=ALL, on=OnCluster(), to="u")),
    (
        "GRANT insert, SELECT ON TABLE a.b TO u",
        GrantRights(rights=(Right.INSERT, Right.SELECT), on=OnTable(AB), to="u"),
    ),
    ("GRANT CREATE ON SCHEMA a TO `to`", GrantRights(rights=(Right.CREATE,), on=OnDatabase("a"), to="to")),
    ("REVOKE DROP, ALTER ON VIEW a.b FROM u", Revoke(rights=(Right.DROP, Right.ALTER), on=OnView(AB), of="u")),
    ("REVOKE ALL ON DATABASE a FROM u", Revoke(rights=ALL, on=OnDatabase("a"), of="u")),
    ("GRANT ROLE r TO u", GrantRole(role="r", user="u")),
    ("REVOKE ROLE r FROM u", RevokeRole(role="r", user="u")),
]


@pytest.mark.parametrize(("text", "expected"), ACCEPTED)
def test_accepted(text: str, expected: AnyStatement) -> None:
    assert parse(text) == expected
    assert parse(render(expected)) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE USER u", "'PASSWORD' is expected at the end"),
        ("CREATE USER PASSWORD 'p'", "'PASSWORD' is expected"),
        ("CREATE OR REPLACE USER u PASSWORD 'p'", "OR REPLACE is for views"),
        ("CREATE USER u PASSWORD 'p' SUPERUSER", "not valid here"),
        ("ALTER ROLE r PASSWORD 'p'", "'RENAME' is expected"),
        ("DROP USER u, v", "not valid here"),
        ("DROP ROLE r CASCADE", "CASCADE is not supported"),
        ("GRANT SELCT ON TABLE a.b TO x", "SELCT is not supported"),
        ("GRANT SELECT, SELECT ON CLUSTER TO x", "twice"),
        ("GRANT SELECT, ALL ON CLUSTER TO x", "ALL is not supported"),
        ("GRANT ALL PRIVILEGES ON CLUSTER TO x", "PRIVILEGES is not supported"),
        ("GRANT SELECT (x) ON TABLE a.b TO u", "'ON' is expected"),
        ("GRANT SELECT ON a.b TO u", "A is not supported"),
        ("GRANT SELECT ON TABLE a.b FROM u", "'TO' is expected"),
        ("GRANT SELECT ON TABLE a.b TO u WITH GRANT OPTION", "WITH is not supported"),
        ("GRANT SELECT ON TABLE a.b TO u, v", "near ','"),
        ("GRANT r TO u", "R is not supported"),
        ("REVOKE SELECT ON TABLE a.b TO u", "'FROM' is expected"),
        ("REVOKE GRANT OPTION FOR SELECT ON TABLE a.b FROM u", "GRANT is not supported"),
        ("GRANT ROLE r, s TO u", "'TO' is expected"),
        ("CREATE TOKEN t FOR USER u", "'HASH' is expected"),
        ("CREATE TOKEN t HASH 'x'", "'FOR' is expected"),
        (f"CREATE TOKEN t FOR USER u HASH '{DIGEST.upper()}'", "64 hex digits in lower case"),
        ("ALTER TOKEN t RENAME TO s", "TOKEN is not supported"),
        ("ALTER ROLE r SET CERTIFICATE ON", "'RENAME' is expected"),
        ("ALTER USER u SET CERTIFICATE", "'ON' or 'OFF' is expected"),
    ],
)
def test_refused(text: str, said: str) -> None:
    refused(text, "BAD_STATEMENT", said)


@pytest.mark.parametrize("text", ["CREATE TOKEN t FOR USER u HASH '{}'", "DROP TOKEN IF EXISTS {}", "DROP TOKEN '{}'"])
def test_the_text_of_a_token_is_not_repeated(text: str) -> None:
    error = refused(text.format(f"lht_{DIGEST}"), "BAD_STATEMENT", "has the text of a token in it")
    assert DIGEST not in f"{error} {error.hint}"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("CREATE USER a.u PASSWORD 'p'", "BAD_IDENTIFIER", "a.u"),
        ("CREATE ROLE `a b`", "BAD_IDENTIFIER", "a b"),
        ("GRANT ROLE r TO 1u", "BAD_IDENTIFIER", "1u"),
        ("GRANT SELECT ON TABLE b TO u", "BAD_IDENTIFIER", "two parts, database.table"),
        ("GRANT SELECT ON CLUSTER TO " + "u" * 65_536, "BAD_IDENTIFIER", "uuu"),
        ("CREATE TOKEN a.t FOR USER u HASH ''", "BAD_IDENTIFIER", "the name of a token has one part"),
        (f"CREATE TOKEN t FOR USER u HASH '{DIGEST}' EXPIRES '0s'", "BAD_DURATION", "at once"),
        (f"CREATE TOKEN t FOR USER u HASH '{DIGEST}' EXPIRES '1 month'", "BAD_DURATION", "month"),
        ("CREATE USER u PASSWORD ''", "BAD_PASSWORD", "0 characters"),
        (f"ALTER USER u PASSWORD '{'p' * (PASSWORD_CHARACTERS_MAX + 1)}'", "BAD_PASSWORD", "1025"),
    ],
)
def test_refused_with_a_code(text: str, code: str, said: str) -> None:
    refused(text, code, said)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE USER u PASSWORD 'hunter2'", "CREATE USER u PASSWORD '***'"),
        ("CREATE USER u PASSWORD 'a''hunter2'", "CREATE USER u PASSWORD '***'"),
        ('alter user `u` password "hunter2" ; -- hunter2', "alter user `u` password '***'"),
        ("EXPLAIN CREATE USER u PASSWORD /* hunter2 */ 'it'", "EXPLAIN CREATE USER u PASSWORD '***'"),
        ("-- hunter2\nALTER USER u -- hunter2\nPASSWORD 'it'", "ALTER USER u PASSWORD '***'"),
        ("CREATE USER password PASSWORD 'hunter2'", "CREATE USER password PASSWORD '***'"),
    ],
)
def test_a_password_is_not_shown(text: str, expected: str) -> None:
    assert redacted(text) == expected


def test_a_token_that_is_given_for_its_hash_is_not_shown() -> None:
    text = f"CREATE TOKEN t FOR USER u HASH 'lht_{DIGEST}'"
    with pytest.raises(Refused) as caught:
        parse(text)
    assert DIGEST not in caught.value.text + caught.value.hint + redacted(text)


BROKEN = [
    "CREATE USER u PASSWORD hunter2",
    "CREATE USER u PASSWORD 'hunter2' 'hunter2'",
    "CREATE USER u PASSWORD 'hunter2",
    "CREATE USER u PASSWORD N'hunter2'",
    "CREATE USER u PASSWORD = 'hunter2'",
    "CREATE USER u hunter2",
    "CREATE USER u 'hunter2'",
    "CREATE USER 'hunter2'",
    "-- hunter2\nALTER USER u PASSWORD oops",
    "ALTER /* hunter2 */ USER u PASSWORD 'a' 'b'",
    "CREATE USER u, PASSWORD 'hunter2'",
    "CREATE USER u.v PASSWORD 'hunter2'",
    "CREATE USER u IDENTIFIED BY 'hunter2'",
    "CREATE USER u WITH PASSWORT 'hunter2'",
    "CREAT USER u PASSWORD 'hunter2'",
    "CREATE USR u PASSWORD 'hunter2'",
    "CREATE OR REPLACE USER u PASSWORD 'hunter2'",
    "ALTER USER u SET PASSWORD 'hunter2'",
    "ALTER USER u PASSWORD 'hunter2' RENAME TO v",
    "ALTER ROLE r PASSWORD 'hunter2'",
    "EXPLAIN CREATE USER u PASSWORD hunter2",
    "CREATE TOKEN t FOR USER u HASH 'hunter2'",
    "EXPLAIN CREATE TOKEN t FOR USER u HASH 'hunter2'",
    "CREATE USER u PASSWORD 'hunter2'; DROP TABLE a.b",
    "CREATE USER u PASSWORD 'hunter2\0'",
    "CREATE USER u PASSWORD '" + SECRET + "x" * PASSWORD_CHARACTERS_MAX + "'",
    "CREATE USER u PASSWORD 'hunter2" + "x" * STATEMENT_CHARACTERS_MAX + "'",
]


@pytest.mark.parametrize("text", BROKEN, ids=[text[:50] for text in BROKEN])
def test_a_password_is_not_shown_where_the_statement_is_wrong(text: str) -> None:
    assert SECRET not in redacted(text)
    with pytest.raises(Refused) as caught:
        parse(text)
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in str(error).lower()
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE a.b (password STRING DEFAULT 'x')",
        "COMMENT ON TABLE a.users IS 'their passwords are elsewhere'",
        "DELETE FROM a.users WHERE password = 'x'",
        "SHOW GRANTS FOR user",
        "SELECT 'x'",
        "",
    ],
)
def test_other_statements_are_shown_whole(text: str) -> None:
    assert redacted(text) == text


def test_what_may_be_a_password_takes_time_in_proportion() -> None:
    for word in ("user", "create user ", "identified ", "password", "create" + " " * 1_000, "\\'"):
        redacted(word * (STATEMENT_CHARACTERS_MAX // 5 // len(word)))
