"""Reads a statement token by token; each token must be one that the grammar expects there."""

import re
from collections.abc import Callable
from typing import Final, TypeVar

from sqlglot.tokenizer_core import Token, TokenType

from leasehold.core.words.statements import Literal, TableName
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadStatement, Refused
from leasehold.limits.statements import COMMENT_CHARACTERS_MAX
from leasehold.sql.front import Source, check_name, short

T = TypeVar("T")

_WORD: Final = re.compile(r"\w|[^\x00-\x7f]")
_UNNAMED: Final = frozenset({"'", "9", "?"})
"""Forms that start like words but are not names."""
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BYTES: Final = re.compile(r"(?:[0-9a-fA-F]{2})*")
_CONSTANTS: Final = {
    "TRUE": Literal("boolean", "true"),
    "FALSE": Literal("boolean", "false"),
    "NULL": Literal("null", ""),
}


class Cursor:
    """A place in a statement. A method that reads something moves past it.

    It raises `BadStatement`, or `Refused` with a precise code, which says what is wrong and where.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.at = 0

    @property
    def form(self) -> str:
        """The form of the next token, empty at the end."""
        return self.ahead(0)

    def ahead(self, count: int) -> str:
        """The form of the token `count` after the next one."""
        at = self.at + count
        return self.source.forms[at] if at < len(self.source.forms) else ""

    def token(self) -> Token:
        if self.at == len(self.source.tokens):
            raise self.bad("something is missing")
        self.at += 1
        return self.source.tokens[self.at - 1]

    def bad(self, what: str) -> BadStatement:
        """The error that `what` is wrong with the next token."""
        tokens = self.source.tokens
        return self.source.bad(what, tokens[self.at].start if self.at < len(tokens) else len(self.source.text))

    def unsupported(self, expected: str = "") -> BadStatement:
        """The error that the next token is not valid here; it names the token if that is a word."""
        if _WORD.match(self.form) and self.form not in _UNNAMED and not self.source.is_secret(self.at):
            what = f"{short(self.form)} is not supported here" + (f", {expected}" if expected else "")
        elif not self.form:
            what = f"something is missing, {expected}" if expected else "something is missing"
        else:
            what = expected or "this is not valid here"
        return self.bad(what)

    def end(self) -> None:
        """Raises `BadStatement` if anything follows."""
        if self.form:
            raise self.unsupported()

    # ---------------------------------------------------------------- words and signs

    def accept(self, *forms: str) -> bool:
        """Whether all these forms come next; if so, moves past them."""
        if self.source.forms[self.at : self.at + len(forms)] != forms:
            return False
        self.at += len(forms)
        return True

    def choose(self, *forms: str) -> str:
        if self.form not in forms:
            raise self.unsupported(f"{_alternatives(forms)} is expected")
        self.at += 1
        return self.source.forms[self.at - 1]

    def once(self, said: set[str], *forms: str) -> str:
        """Reads one of these forms, which must not be in `said` yet, and adds it."""
        if self.form in said:
            raise self.bad(f"{self.form} occurs twice")
        form = self.choose(*forms)
        said.add(form)
        return form

    def expect(self, *forms: str) -> None:
        """Reads all these forms."""
        for form in forms:
            self.choose(form)

    def listed(self, one: "Callable[[Cursor], T]") -> tuple[T, ...]:
        """`(one, ..)`, at least one."""
        self.expect("(")
        found = [one(self)]
        while self.choose(",", ")") == ",":
            found.append(one(self))
        return tuple(found)

    # ---------------------------------------------------------------- names

    def database(self) -> str:
        return self._object("database")

    def principal(self) -> str:
        return self._object("user or role")

    def token_name(self) -> str:
        return self._object("token")

    def _object(self, kind: str) -> str:
        parts = self.parts()
        if len(parts) != 1:
            raise Refused(
                f"the name of a {kind} has one part, not {'.'.join(parts)[:300]!r}",
                code=ErrorCode.BAD_IDENTIFIER,
                hint=self.source.hint,
            )
        return check_name(parts[0])

    def column(self) -> str:
        name = self._part()
        if self.form == ".":
            raise Refused(
                "a column's name has no dot: there are no nested columns",
                code=ErrorCode.BAD_IDENTIFIER,
                hint=self.source.hint,
            )
        return check_name(name)

    def table(self) -> TableName:
        """A table's or view's name, `database.table`."""
        return qualified(self.parts())

    def parts(self) -> list[str]:
        """A name with dots in it, as it is written."""
        parts = [self._part()]
        while self.accept("."):
            parts.append(self._part())
        return parts

    def _part(self) -> str:
        if " " in self.form:
            raise self.unsupported("a name is expected")
        if self.form in _UNNAMED or (self.form != "`" and not _WORD.match(self.form)):
            raise self.bad("a name is expected")
        return self.token().text

    # ---------------------------------------------------------------- values

    def text(self) -> str:
        if self.form != "'":
            raise self.unsupported("a text in quotes is expected")
        value = self.token().text
        try:
            value.encode()
        except UnicodeEncodeError:
            value = "\0"
        if "\0" in value:
            self.at -= 1
            raise self.bad("a character that is not text here")
        return value

    def comment(self) -> str:
        """A string that describes something; raises `Refused` with code BAD_COMMENT for a long one."""
        text = self.text()
        if len(text) > COMMENT_CHARACTERS_MAX:
            raise Refused(
                f"a comment of {len(text)} characters, over {COMMENT_CHARACTERS_MAX}",
                code=ErrorCode.BAD_COMMENT,
                hint="shorten it",
            )
        return text

    def count(self, what: str) -> int:
        """A whole number without a sign."""
        text = self.source.tokens[self.at].text if self.form == "9" else ""
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(2**62))):
            raise self.unsupported(f"{what} is expected")
        self.at += 1
        return int(text)

    def interval(self) -> str | None:
        """`INTERVAL 30 DAYS`, `INTERVAL '30' DAY` or `INTERVAL '30 days'` as the text of a duration; else None."""
        if self.ahead(1) not in {"9", "'"} or not self.accept("INTERVAL"):
            return None
        parts = [self.token().text]
        while self.form == "9" or _WORD.match(self.form):
            parts.append(self.token().text)
        return " ".join(parts)

    def literal(self) -> Literal:
        """A value: a number with or without a sign, a string, TRUE, FALSE, NULL, DATE '..', TIMESTAMP '..', X'..'."""
        if self.form in {"-", "+", "9"}:
            return self._number()
        if self.form == "'":
            return Literal("string", self.text())
        if self.form in _CONSTANTS:
            return _CONSTANTS[self.choose(*_CONSTANTS)]
        if self.accept("DATE"):
            return Literal("date", self.text())
        if self.accept("TIMESTAMP"):
            return Literal("timestamp", self.text())
        if self.form == "?" and self.source.tokens[self.at].token_type == TokenType.HEX_STRING:
            return self._bytes()
        raise self.unsupported(
            "a value is expected: a number, 'text', TRUE, FALSE, NULL, DATE 'text', TIMESTAMP 'text' or X'hex'"
        )

    def _number(self) -> Literal:
        sign = "-" if self.form == "-" else ""
        if self.form != "9":
            self.at += 1
        text = self.source.tokens[self.at].text if self.form == "9" else ""
        if _NUMBER.fullmatch(text) is None:
            raise self.bad("a number is expected, such as 12, 1.5 or 1e3")
        self.at += 1
        return Literal("number", sign + text)

    def _bytes(self) -> Literal:
        token = self.source.tokens[self.at]
        if self.source.text[token.start] not in "xX" or _BYTES.fullmatch(token.text) is None:
            raise self.bad("bytes are written as X'..' with two hex digits each, so they can't be this")
        self.at += 1
        return Literal("binary", token.text.lower())


def _alternatives(forms: tuple[str, ...]) -> str:
    *first, last = map(repr, forms)
    return f"{', '.join(first)} or {last}" if first else last


def qualified(parts: list[str]) -> TableName:
    """The name of a table or view from its parts; raises `Refused` with code BAD_IDENTIFIER."""
    if len(parts) != 2:
        raise Refused(
            f"the name of a table has two parts, database.table, not {'.'.join(parts)[:300]!r}",
            code=ErrorCode.BAD_IDENTIFIER,
            hint=f"write database.{parts[-1][:100]}" if len(parts) == 1 else "write database.table, without a catalog",
        )
    return TableName(check_name(parts[0]), check_name(parts[1]))
