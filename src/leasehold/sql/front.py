"""The front of the parser: text to tokens, within bounds, and the grammar as people read it.

The tokens are sqlglot's; `sql/cursor.py` reads them. An error says what is wrong and where, and its hint is the grammar
of the statement that seems meant. An error never repeats what may be a password.
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadStatement, Refused
from leasehold.ids import IDENTIFIER
from leasehold.limits.statements import IDENTIFIER_CHARACTERS_MAX, STATEMENT_CHARACTERS_MAX, STATEMENT_WORDS_MAX

FOREIGN_ERRORS: Final = (
    SqlglotError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What sqlglot may raise on text that it can't read: its own errors, and those of its bugs on odd input."""

GRAMMAR: Final = {
    "CREATE DATABASE": (
        "CREATE DATABASE [IF NOT EXISTS] name [COMMENT 'text'] [WITH DBPROPERTIES ('key' = 'value', ..)]"
    ),
    "ALTER DATABASE": (
        "ALTER DATABASE name SET DBPROPERTIES ('key' = 'value', ..) | UNSET DBPROPERTIES [IF EXISTS] ('key', ..)"
    ),
    "DROP DATABASE": "DROP DATABASE [IF EXISTS] name [CASCADE]",
    "CREATE TABLE": (
        "CREATE TABLE [IF NOT EXISTS] database.table (column type [NOT NULL] [DEFAULT value] [COMMENT 'text'], ..)"
        " [USING leasehold] [CLUSTERED BY (column) INTO n BUCKETS] [COMMENT 'text']"
        " [TBLPROPERTIES ('key' = 'value', ..)]"
    ),
    "ALTER TABLE": (
        "ALTER TABLE database.table ADD COLUMN [IF NOT EXISTS] name type [NOT NULL] [DEFAULT value] [COMMENT 'text']"
        " | ADD COLUMNS [IF NOT EXISTS] (name type .., ..) | RENAME COLUMN old TO new"
        " | DROP COLUMN [IF EXISTS] name [CASCADE] | ALTER COLUMN name TYPE type | ALTER COLUMN name FIRST"
        " | ALTER COLUMN name AFTER other | ALTER COLUMN name SET DEFAULT value | ALTER COLUMN name DROP DEFAULT"
        " | ALTER COLUMN name COMMENT 'text' | SET TBLPROPERTIES ('key' = 'value', ..)"
        " | UNSET TBLPROPERTIES [IF EXISTS] ('key', ..);"
        " ALTER TABLE [IF EXISTS] database.table RENAME TO database.other"
    ),
    "DROP TABLE": "DROP TABLE [IF EXISTS] database.table [CASCADE]",
    "CREATE VIEW": (
        "CREATE [OR REPLACE] VIEW [IF NOT EXISTS] database.view [(name, ..)] [COMMENT 'text'] AS SELECT .."
    ),
    "ALTER VIEW": "ALTER VIEW [IF EXISTS] database.view RENAME TO database.other",
    "DROP VIEW": "DROP VIEW [IF EXISTS] database.view [CASCADE]",
    "COMMENT ON": "COMMENT ON DATABASE name | TABLE database.table | VIEW database.view IS 'text'",
    "DELETE FROM": (
        "DELETE FROM database.table WHERE column = value AND ..; with =, <, <=, >, >= and BETWEEN low AND high"
    ),
    "INSERT INTO": "INSERT INTO database.table [(column, ..)] VALUES (value, ..), ..",
    "SELECT": "[WITH name AS (SELECT ..), ..] SELECT .. [FROM database.table ..]",
    "CREATE USER": "CREATE USER [IF NOT EXISTS] name PASSWORD 'text'",
    "ALTER USER": "ALTER USER name PASSWORD 'text' | SET CERTIFICATE ON | SET CERTIFICATE OFF | RENAME TO other",
    "DROP USER": "DROP USER [IF EXISTS] name",
    "CREATE TOKEN": "CREATE TOKEN name FOR USER user HASH 'SHA-256 in hex' [EXPIRES '30d']",
    "DROP TOKEN": "DROP TOKEN [IF EXISTS] name",
    "CREATE ROLE": "CREATE ROLE [IF NOT EXISTS] name",
    "ALTER ROLE": "ALTER ROLE name RENAME TO other",
    "DROP ROLE": "DROP ROLE [IF EXISTS] name",
    "GRANT": (
        "GRANT right, .. ON CLUSTER | DATABASE name | TABLE database.table | VIEW database.view TO name;"
        " GRANT ROLE role TO user; rights are SELECT, INSERT, ALTER, DROP, CREATE, or ALL for all of them"
    ),
    "REVOKE": (
        "REVOKE right, .. ON CLUSTER | DATABASE name | TABLE database.table | VIEW database.view FROM name;"
        " REVOKE ROLE role FROM user; rights are SELECT, INSERT, ALTER, DROP, CREATE, or ALL for all of them"
    ),
    "ALTER CLUSTER": (
        "ALTER CLUSTER SET setting = value, .. | REBALANCE | STOP REBALANCE | REVOKE CERTIFICATE 'serial'"
        " | UNREVOKE CERTIFICATE 'serial'"
    ),
    "ALTER NODE": "ALTER NODE name DRAIN | UNDRAIN",
    "EXPLAIN": "EXPLAIN statement, for a statement that changes something",
    "CANCEL": "CANCEL PROCEDURE number",
    "SHOW": (
        "SHOW DATABASES | TABLES [IN database] | VIEWS [IN database] | TBLPROPERTIES database.table"
        " | BUCKETS OF database.table | NODES | COORDINATORS | CLUSTER | REBALANCE | REVOKED CERTIFICATES | PROCEDURES"
        " | HISTORY [FOR DATABASE name | TABLE database.table | VIEW database.view | USER name | ROLE name | CLUSTER]"
        " | USERS | ROLES | TOKENS"
        " | GRANTS [FOR name] [ON CLUSTER | DATABASE name | TABLE database.table | VIEW database.view]"
    ),
    "DESCRIBE": "DESCRIBE [TABLE] database.table | DESCRIBE DATABASE name",
}
"""The grammar of every statement, by its first words."""

_SYNONYMS: Final = {"SCHEMA": "DATABASE", "DESC": "DESCRIBE", "WITH": "SELECT", "(": "SELECT"}
_NEAR_CHARACTERS: Final = 40
_SPACES: Final = re.compile(r"\s+")
_WORD: Final = re.compile(r"\w+|[^\w\s]")


class Tokenizer(Spark.Tokenizer):
    """Spark's tokens; but what follows SHOW is not one string.

    A doubled quote stands for itself (`'it''s'`), as in standard SQL and in Spark 4; so does a quote behind `\\`.
    """

    COMMANDS: ClassVar[set[TokenType]] = set()
    STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']


@dataclass(frozen=True, kw_only=True)
class Source:
    """One statement's text and tokens, without the semicolon that may end it.

    `forms` are the tokens as the grammar sees them: words and signs in upper case, `` ` `` for a name in backquotes,
    `'` for a string, `9` for a number, and `?` for any other token.
    """

    text: str
    tokens: tuple[Token, ...]
    forms: tuple[str, ...]

    @property
    def hint(self) -> str:
        """The grammar of the statement that starts with these words."""
        return _hint(self.forms)

    def is_secret(self, at: int) -> bool:
        """Whether the token `at` may be a password, or a part of a badly written one."""
        first = len(self.forms) - len(_explained(self.forms))
        return "PASSWORD" in self.forms[:at] or "USER" in self.forms[:at][: first + 5]

    def bad(self, what: str, offset: int | None = None) -> BadStatement:
        """The error that `what` is wrong, at the character `offset` if it is known."""
        where = "" if offset is None else f" {self.place(offset)}"
        return BadStatement(f"{what}{where}", hint=self.hint)

    def place(self, offset: int) -> str:
        """The character `offset` for people: line and column from 1, and the word there."""
        for at, token in enumerate(self.tokens):
            if token.start <= offset <= token.end:
                word = "" if self.is_secret(at) else self.text[token.start : token.end + 1]
                return place(self.text, token.start, word)
        return place(self.text, offset)


def place(text: str, offset: int, word: str = "") -> str:
    """As `at line 1, column 5, near 'word'`; an `offset` past the text is its end."""
    if offset >= len(text.rstrip()):
        return "at the end of the statement"
    line = text.count("\n", 0, offset) + 1
    column = offset - text.rfind("\n", 0, offset)
    near = f", near {short(word)!r}" if word else ""
    return f"at line {line}, column {column}{near}"


def check_name(name: str) -> str:
    """`name` if it can name a database, table or column; raises `Refused` with code BAD_IDENTIFIER."""
    if IDENTIFIER.fullmatch(name) is None or len(name) > IDENTIFIER_CHARACTERS_MAX:
        raise Refused(
            f"{short(name)!r} can't be a name",
            code=ErrorCode.BAD_IDENTIFIER,
            hint=f"use letters, digits and _, no digit first, at most {IDENTIFIER_CHARACTERS_MAX} characters",
        )
    return name


def read(text: str) -> Source:
    """The one statement in `text`; raises `BadStatement` if there is none, or several, or it is out of bounds."""
    _check_text(text)
    try:
        tokens = Tokenizer(dialect="spark").tokenize(text)
    except TokenError as error:
        offset = len(text) if error.end is None else error.end
        raise BadStatement(
            f"the statement can't be read {place(text, offset)}: a quote or a comment may not be closed",
            hint=_hint(tuple(text[:100].upper().split())),
        ) from None  # It repeats the text, and a password with it.
    except FOREIGN_ERRORS:
        raise BadStatement("the statement can't be read", hint=_hint(tuple(text[:100].upper().split()))) from None
    if tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    source = Source(text=text, tokens=tuple(tokens), forms=tuple(_form(text, token) for token in tokens))
    if not source.tokens:
        raise source.bad("there is no statement in the text")
    for token in source.tokens:
        if token.token_type == TokenType.SEMICOLON:
            raise source.bad("only one statement is allowed; a semicolon may only stand at its end", token.start)
    return source


def _check_text(text: str) -> None:
    split = "split it: for example, create the table first and add columns to it"
    if len(text) > STATEMENT_CHARACTERS_MAX:
        raise BadStatement(f"a statement of {len(text)} characters, over {STATEMENT_CHARACTERS_MAX}", hint=split)
    if sum(1 for _ in _WORD.finditer(text)) > STATEMENT_WORDS_MAX:
        raise BadStatement(f"a statement of more than {STATEMENT_WORDS_MAX} words and signs", hint=split)
    offset = text.find("\0")
    if offset < 0:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            offset = error.start
    if offset >= 0:
        raise BadStatement(
            f"a character that is not text {place(text, offset)}",
            hint="write the statement as plain UTF-8 text without NUL",
        )


def _form(text: str, token: Token) -> str:
    if token.token_type == TokenType.IDENTIFIER:
        return "`"
    if token.token_type == TokenType.STRING:
        return "'"
    if token.token_type == TokenType.NUMBER:
        return "9"
    written = text[token.start : token.end + 1]
    return _SPACES.sub(" ", upper(written)) if written == token.text else "?"


def upper(word: str) -> str:
    """The word in upper case, for the comparison with keywords. A word with letters outside ASCII is never a keyword,
    although the upper case of a long s is an S."""
    return word.upper() if word.isascii() else word


def _explained(forms: tuple[str, ...]) -> tuple[str, ...]:
    """The forms of the statement that EXPLAIN explains, or of any other statement."""
    return forms[1:] if forms[:1] == ("EXPLAIN",) and len(forms) > 1 else forms


def _hint(forms: tuple[str, ...]) -> str:
    forms = _explained(forms)
    if forms[:3] == ("CREATE", "OR", "REPLACE"):
        forms = ("CREATE", "VIEW")
    words = [_SYNONYMS.get(form, form) for form in forms[:2]]
    if " ".join(words) in GRAMMAR:
        return GRAMMAR[" ".join(words)]
    alike = [grammar for key, grammar in GRAMMAR.items() if words and key.split()[0] == words[0]]
    return " | ".join(alike) or "a statement starts with one of " + ", ".join(GRAMMAR)


def short(word: str) -> str:
    """A word of a statement, cut to what an error repeats of it."""
    return word if len(word) <= _NEAR_CHARACTERS else word[: _NEAR_CHARACTERS - 2] + ".."
