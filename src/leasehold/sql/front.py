"""The front of the parser: text to tokens, within bounds, and the questions (SHOW, DESCRIBE).

sqlglot's grammar does not know our questions, so they are matched here, token by token. Where a statement is
refused, the text says what and where, and the hint is the grammar of the statement that seems meant.
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from leasehold.core.statements import (
    Describe,
    Question,
    ShowCluster,
    ShowDatabases,
    ShowNodes,
    ShowTables,
    TableName,
)
from leasehold.errors import BadStatement, Refused
from leasehold.ids import IDENTIFIER
from leasehold.limits import (
    IDENTIFIER_CHARACTERS_MAX,
    STATEMENT_CHARACTERS_MAX,
    STATEMENT_NESTING_MAX,
    STATEMENT_WORDS_MAX,
)

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
"""What sqlglot may raise on text that it can't read: its own errors, and slips of its code on odd input."""

GRAMMAR: Final = {
    "CREATE DATABASE": "CREATE DATABASE [IF NOT EXISTS] name",
    "DROP DATABASE": "DROP DATABASE [IF EXISTS] name",
    "CREATE TABLE": (
        "CREATE TABLE [IF NOT EXISTS] database.table (column type [NOT NULL], ..) [USING leasehold]"
        " [CLUSTERED BY (column) INTO n BUCKETS] [TBLPROPERTIES ('key' = 'value', ..)]"
    ),
    "ALTER TABLE": (
        "ALTER TABLE database.table ADD COLUMN name type | ADD COLUMNS (name type, ..)"
        " | RENAME COLUMN old TO new | DROP COLUMN name"
    ),
    "ALTER CLUSTER": "ALTER CLUSTER SET setting = value, ..",
    "DROP TABLE": "DROP TABLE [IF EXISTS] database.table",
    "SHOW": "SHOW DATABASES | SHOW TABLES [IN database] | SHOW NODES | SHOW CLUSTER",
    "DESCRIBE": "DESCRIBE [TABLE] database.table",
}
"""The grammar of every statement, by its first words."""

_SYNONYMS: Final = {"SCHEMA": "DATABASE", "DESC": "DESCRIBE"}
_NEAR_CHARACTERS: Final = 40
_OPENING: Final = frozenset("([{<")
_CLOSING: Final = frozenset(")]}>")
_SPACES: Final = re.compile(r"\s+")
_WORD: Final = re.compile(r"\w+|[^\w\s]")


class _Tokenizer(Spark.Tokenizer):
    """Spark's tokens, without its habit of taking all that follows SHOW as one string."""

    COMMANDS: ClassVar[set[TokenType]] = set()


@dataclass(frozen=True, kw_only=True)
class Source:
    """One statement's text and tokens, without the semicolon that may end it.

    `forms` are the tokens as the grammar sees them: words and signs in upper case, and one sign each for
    what a person makes up: a name in backquotes (`` ` ``), a string (`'`), a number (`9`); `?` for any other.
    """

    text: str
    tokens: tuple[Token, ...]
    forms: tuple[str, ...]

    @property
    def hint(self) -> str:
        """The grammar of the statement that the first words promise."""
        return _hint(self.forms)

    def bad(self, what: str, offset: int | None = None) -> BadStatement:
        """The error to raise: `what` is wrong at the character `offset`, if a place is known."""
        where = "" if offset is None else f" {self.place(offset)}"
        return BadStatement(f"{what}{where}", hint=self.hint)

    def place(self, offset: int) -> str:
        """The character `offset` for people: line and column from 1, and the word that stands there."""
        for token in self.tokens:
            if token.start <= offset <= token.end:
                return place(self.text, token.start, self.text[token.start : token.end + 1])
        return place(self.text, offset, "")


def place(text: str, offset: int, word: str) -> str:
    """`at line 1, column 5, near 'word'`; an `offset` past the text is its end."""
    if offset >= len(text.rstrip()):
        return "at the end of the statement"
    line = text.count("\n", 0, offset) + 1
    column = offset - text.rfind("\n", 0, offset)
    near = f", near {_short(word)!r}" if word else ""
    return f"at line {line}, column {column}{near}"


def check_name(name: str) -> str:
    """`name` if it can name a database, table or column; raises `Refused` with code BAD_IDENTIFIER."""
    if IDENTIFIER.fullmatch(name) is None or len(name) > IDENTIFIER_CHARACTERS_MAX:
        raise Refused(
            f"{_short(name)!r} can't be a name",
            code="BAD_IDENTIFIER",
            hint=f"use letters, digits and _, no digit first, at most {IDENTIFIER_CHARACTERS_MAX} characters",
        )
    return name


def read(text: str) -> Source:
    """The one statement in `text`; raises `BadStatement` if there is none, or several, or it is out of bounds."""
    _check_text(text)
    try:
        tokens = _Tokenizer(dialect="spark").tokenize(text)
    except TokenError as error:
        offset = len(text) if error.end is None else error.end
        raise BadStatement(
            f"the statement can't be read {place(text, offset, '')}: a quote or comment may lack its end",
            hint=_hint(tuple(text[:100].upper().split())),
        ) from error
    except FOREIGN_ERRORS as error:
        raise BadStatement("the statement can't be read", hint=_hint(tuple(text[:100].upper().split()))) from error
    if tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    source = Source(text=text, tokens=tuple(tokens), forms=tuple(_form(text, token) for token in tokens))
    if not source.tokens:
        raise source.bad("there is no statement in the text")
    for token in source.tokens:
        if token.token_type == TokenType.SEMICOLON:
            raise source.bad("one statement at a time: a semicolon may only end it", token.start)
    _check_nesting(source)
    return source


def question(source: Source) -> Question | None:
    """The statement if it is SHOW or DESCRIBE, None if it starts otherwise; raises `BadStatement`."""
    match list(source.forms):
        case ["SHOW", "DATABASES"]:
            return ShowDatabases()
        case ["SHOW", "NODES"]:
            return ShowNodes()
        case ["SHOW", "CLUSTER"]:
            return ShowCluster()
        case ["SHOW", "TABLES"]:
            return ShowTables()
        case ["SHOW", "TABLES", "IN" | "FROM", _]:
            return ShowTables(database=_name(source, 3))
        case ["DESCRIBE" | "DESC", _, ".", _]:
            return Describe(table=TableName(_name(source, 1), _name(source, 3)))
        case ["DESCRIBE" | "DESC", "TABLE", _, ".", _]:
            return Describe(table=TableName(_name(source, 2), _name(source, 4)))
        case ["SHOW" | "DESCRIBE" | "DESC" as first, *rest]:
            known = 1 + (rest[:1] in (["DATABASES"], ["NODES"], ["CLUSTER"], ["TABLES"], ["TABLE"]))
            offset = source.tokens[known].start if known < len(source.tokens) else len(source.text)
            raise source.bad(f"this is no form of {first} that is known here", offset)
        case _:
            return None


def _check_text(text: str) -> None:
    if len(text) > STATEMENT_CHARACTERS_MAX:
        raise BadStatement(
            f"a statement of {len(text)} characters, over {STATEMENT_CHARACTERS_MAX}",
            hint="split it, e.g. create the table first and add columns to it",
        )
    if sum(1 for _ in _WORD.finditer(text)) > STATEMENT_WORDS_MAX:
        raise BadStatement(
            f"a statement of more than {STATEMENT_WORDS_MAX} words and signs",
            hint="split it, e.g. create the table first and add columns to it",
        )
    offset = text.find("\0")
    if offset < 0:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            offset = error.start
    if offset >= 0:
        line = text.count("\n", 0, offset) + 1
        raise BadStatement(
            f"a character that is not text at line {line}, column {offset - text.rfind(chr(10), 0, offset)}",
            hint="write the statement as plain UTF-8 text without NUL",
        )


def _check_nesting(source: Source) -> None:
    # sqlglot tries several readings of each bracket: the depth bounds both its stack and its time.
    depth = 0
    for token, form in zip(source.tokens, source.forms, strict=True):
        if form in _OPENING:
            depth += 1
        elif form in _CLOSING:
            depth -= 1
        if depth > STATEMENT_NESTING_MAX:
            raise source.bad(f"brackets nest deeper than {STATEMENT_NESTING_MAX}", token.start)


def _form(text: str, token: Token) -> str:
    if token.token_type == TokenType.IDENTIFIER:
        return "`"
    if token.token_type == TokenType.STRING:
        return "'"
    if token.token_type == TokenType.NUMBER:
        return "9"
    written = text[token.start : token.end + 1]
    return _SPACES.sub(" ", written.upper()) if written == token.text else "?"


def _name(source: Source, index: int) -> str:
    token = source.tokens[index]
    if source.forms[index] in {"'", "?"}:
        raise source.bad("a name is expected, not a string,", token.start)
    return check_name(token.text)


def _hint(forms: tuple[str, ...]) -> str:
    words = [_SYNONYMS.get(form, form) for form in forms[:2]]
    if words:
        if len(words) == 2 and " ".join(words) in GRAMMAR:
            return GRAMMAR[" ".join(words)]
        alike = [grammar for key, grammar in GRAMMAR.items() if key.split()[0] == words[0]]
        if alike:
            return " | ".join(alike)
    return "a statement starts with one of " + ", ".join(GRAMMAR)


def _short(word: str) -> str:
    return word if len(word) <= _NEAR_CHARACTERS else word[: _NEAR_CHARACTERS - 2] + ".."
