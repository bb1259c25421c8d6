"""A SELECT, of a view or as people type it: its syntax tree, its one canonical text, and the tables that it names.

sqlglot parses it, within bounds, so that no text can block a process. sqlglot accepts far more than a SELECT, so what
would run code, change something or read outside of the catalog is refused by name. A word that sqlglot ignores
(`LIMIT 5 ONLY`) is not in the canonical text, which is stored and shown.
"""

from collections.abc import Callable, Iterator
from typing import Final

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.parser import SENTINEL_NONE
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from leasehold.core.words.statements import TableName, fold
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, Refused
from leasehold.limits.statements import DURATION_CHARACTERS_MAX, VIEW_BODY_CHARACTERS_MAX, VIEW_NESTING_MAX
from leasehold.sql.cursor import qualified
from leasehold.sql.front import FOREIGN_ERRORS, Source, read, short

_STEPS_MIN: Final = 5_000
_STEPS_PER_TOKEN: Final = 3
"""A SELECT that a person writes takes one or two."""
_ROUNDS_MAX: Final = 4
"""A text is written out and parsed again until it stays the same."""
_STARTS: Final = frozenset({"SELECT", "WITH", "("})
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_OPEN: Final = frozenset({",", "SELECT", "WHERE", "ON", "AND", "OR", "GROUP BY", "HAVING", "IN"})
_SHUT: Final = frozenset(
    {",", ")", "]", "}", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "UNION", "INTERSECT", "EXCEPT", ""}
)
"""One of these can't follow one of _OPEN, though sqlglot ignores an extra comma and accepts empty clauses."""
_BEFORE_COMMA: Final = frozenset(
    {"(", "[", "{", "DISTINCT", "FROM", "ORDER BY", "PARTITION BY", "WITH"} | _OPEN - {"AND", "OR", "ON", "IN"}
)
_FALLBACK: Final = "this is not valid here"
_REFUSED: Final = (
    (exp.Anonymous, "this function is not known here"),
    (exp.Command, _FALLBACK),
    (exp.DDL, "a SELECT changes nothing, so this is not supported"),
    ((exp.Insert, exp.Update, exp.Delete, exp.Merge), "a SELECT changes nothing, so this is not supported"),
    (exp.Into, "SELECT INTO is not supported"),
    (exp.Lock, "locking is not supported"),
    (exp.Hint, "hints are not supported"),
    (exp.QueryTransform, "SELECT TRANSFORM runs a program, so it is not supported"),
    (exp.Placeholder, "parameters are not supported"),
    (exp.Parameter, "parameters are not supported"),
    (exp.SessionParameter, "parameters are not supported"),
)
"""What sqlglot accepts and a SELECT must not contain."""
_SPARKS: Final = (exp.Anonymous, exp.Hint, exp.QueryTransform, exp.With, exp.Table)
"""Parts that Spark may understand although they are refused here."""
_TABLE_PARTS: Final = frozenset({"this", "db", "catalog", "alias", "joins", "laterals", "sample", "pivots"})


class _Entangled(Exception):
    """To parse the statement takes too many steps. It is not one of sqlglot's errors, which sqlglot would catch."""


class _Dialect(Spark):
    """Spark's dialect, which does not log bad paths into JSON."""

    STRICT_JSON_PATH_SYNTAX = False


class BoundedParser(SparkParser):
    """Spark's grammar, except that a text that it does not understand is an error and never an opaque command.

    It also counts its steps: for some texts (joins without a condition) sqlglot tries 2**n ways.
    """

    _steps = 0

    def _advance(self, times: int = 1) -> None:
        self._steps += 1
        if self._steps > _STEPS_MIN + _STEPS_PER_TOKEN * self._tokens_size:
            raise _Entangled
        super()._advance(times)

    def raise_error(self, message: str, token: Token = SENTINEL_NONE) -> None:
        """Raises `ParseError` with the offset of the token."""
        at = token or self._curr
        offset = at.start if at else len(self.sql)
        # Always raised at once: sqlglot would otherwise collect errors in some of its modes and read on.
        raise ParseError(message, [{"offset": offset}])

    def _parse_interval(
        self, require_interval: bool = True, parse_function_unit: bool = True
    ) -> exp.Add | exp.Interval | None:
        """sqlglot looks into its text for a number at each place, which holds up the whole process if it is long."""
        begins = bool(self._curr) and self._curr.token_type == TokenType.INTERVAL
        text = self._next if begins else self._curr
        if (begins or not require_interval) and text and len(text.text) > DURATION_CHARACTERS_MAX:
            self.raise_error("an interval is too long", text)
        return super()._parse_interval(require_interval, parse_function_unit)

    def _warn_unsupported(self) -> None:
        self.raise_error(_FALLBACK)

    def _parse_as_command(self, start: Token) -> exp.Command:
        self.raise_error(_FALLBACK)
        return super()._parse_as_command(start)


def view_query(source: Source, first: int) -> tuple[str, tuple[TableName, ...]]:
    """The canonical text of the SELECT that starts at the token `first` and ends the statement, and the tables and
    views that it names, each once.

    Raises `BadStatement`, or `Refused` with code BAD_IDENTIFIER, SELECT_TOO_LONG.
    """
    for token, form in zip(source.tokens[first:], source.forms[first:], strict=True):
        if not form.isascii() or (form == "9" and not token.text.isascii()):  # sqlglot folds such letters into ASCII
            raise source.bad("letters outside ASCII are allowed only in quotes", token.start)
    tree, text = _tree(source, first), ""
    for _ in range(_ROUNDS_MAX):
        written = _written(source, tree)
        if written == text:
            return text, _reads(source, tree)
        text = written
        tree = parse_query(text)
    raise source.bad("the SELECT can't be stored without changing its meaning")


def parse_query(text: str) -> exp.Query:
    """The syntax tree of a view's SELECT, within all bounds; raises as `view_query`."""
    return _tree(read(text), 0)


def typed_query(
    source: Source, sparks: Callable[[exp.Query, str], LeaseholdError]
) -> tuple[exp.Query, tuple[TableName, ...]]:
    """The syntax tree of a typed SELECT, and the tables and views that it names, each once.

    Raises as `view_query`, or what `sparks` makes of a part that only Spark may understand.
    """
    tree = _tree(source, 0, sparks)
    return tree, _reads(source, tree)


def _tree(source: Source, first: int, sparks: Callable[[exp.Query, str], LeaseholdError] | None = None) -> exp.Query:
    tree = any_query(source, first)
    for node in tree.walk():
        fault = _fault(node)
        if fault is not None:
            raise sparks(tree, fault) if sparks and isinstance(node, _SPARKS) else source.bad(fault)
    return tree


def any_query(source: Source, first: int) -> exp.Query:
    """The syntax tree of the SELECT that starts at the token `first`, with parts in it that are not ours.

    Raises `BadStatement`, or `Refused` with code SELECT_TOO_LONG.
    """
    tokens = source.tokens[first:]
    if not tokens:
        raise source.bad("the SELECT is missing")
    _check_size(tokens[-1].end + 1 - tokens[0].start)
    if source.forms[first] not in _STARTS:
        raise source.bad("a SELECT is expected, not this", tokens[0].start)
    _check_signs(source, first)
    try:
        trees = BoundedParser(dialect=_Dialect()).parse(list(tokens), source.text)
    except ParseError as error:
        detail = error.errors[0] if error.errors else {}
        raise source.bad(_plain(str(error)), detail.get("offset")) from error
    except (_Entangled, RecursionError) as error:
        raise source.bad("the statement is too complex") from error
    except FOREIGN_ERRORS as error:
        raise source.bad("the statement can't be parsed") from error
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
        raise source.bad("one SELECT is expected", tokens[0].start)
    return tree


def _written(source: Source, tree: exp.Query) -> str:
    """The canonical text of a SELECT: one line without comments."""
    try:
        text = tree.sql(dialect=_Dialect(), comments=False, unsupported_level=ErrorLevel.RAISE)
        text.encode()
    except FOREIGN_ERRORS as error:
        raise source.bad("the statement can't be parsed") from error
    _check_size(len(text))
    return text


def _reads(source: Source, tree: exp.Query) -> tuple[TableName, ...]:
    found: dict[tuple[str, str], TableName] = {}
    clause = tree.args.get("with_")
    given: list[exp.Expr] = clause.expressions if isinstance(clause, exp.With) else []
    for table in tree.find_all(exp.Table):
        parts = list(_parts(source, table))
        if len(parts) == 1 and fold(parts[0]) in _usable(given, table):
            continue
        name = qualified(parts)
        found.setdefault((fold(name.database), fold(name.table)), name)
    return tuple(found.values())


def _usable(given: list[exp.Expr], table: exp.Table) -> set[str]:
    """The names that WITH defines at the place of `table`: inside the clause, those before its own."""
    own = table.find_ancestor(exp.CTE)
    before = next((at for at, one in enumerate(given) if one is own), len(given))
    return {fold(one.alias) for one in given[:before]}


def _parts(source: Source, table: exp.Table) -> Iterator[str]:
    for part in table.parts:
        if not isinstance(part, exp.Identifier):
            raise source.bad(f"a SELECT can read only tables and views, not {short(_shown(part))!r}")
        yield part.name


def _fault(node: exp.Expr) -> str | None:
    """Why a part of a SELECT is refused."""
    for kind, text in _REFUSED:
        if isinstance(node, kind):
            return f"{text}: {short(_shown(node))!r}"
    if isinstance(node, exp.With) and node.args.get("recursive"):
        return "WITH RECURSIVE is not supported"
    if isinstance(node, exp.With) and node.parent is not node.root():
        # sqlglot writes it at the start of the whole, where its names could mean something else.
        return "WITH is supported at the start of the whole SELECT only"
    if isinstance(node, exp.Table):
        for name, value in node.args.items():
            if value and name not in _TABLE_PARTS:
                return f"{name.upper()} is not supported behind a table's name"
    return None


def _shown(node: exp.Expr) -> str:
    try:
        return node.name or node.sql(dialect=_Dialect(), unsupported_level=ErrorLevel.IGNORE)
    except FOREIGN_ERRORS:
        return type(node).__name__


def _check_size(characters: int) -> None:
    if characters > VIEW_BODY_CHARACTERS_MAX:
        raise Refused(
            f"a SELECT of {characters} characters, over {VIEW_BODY_CHARACTERS_MAX}",
            code=ErrorCode.SELECT_TOO_LONG,
            hint="split it into several views",
        )


def _check_signs(source: Source, first: int) -> None:
    # sqlglot tries several readings of each bracket: the depth bounds both its stack and its time.
    depth = 0
    forms = ("", *source.forms[first:], "")
    for token, before, form, after in zip(source.tokens[first:], forms, forms[1:], forms[2:], strict=False):
        if (form in _OPEN and after in _SHUT) or (form == "," and before in _BEFORE_COMMA):
            raise source.bad("something is missing here", token.start)
        depth += (form in _OPENING) - (form in _CLOSING)
        if depth > VIEW_NESTING_MAX:
            raise source.bad(f"brackets nest deeper than {VIEW_NESTING_MAX}", token.start)


def _plain(message: str) -> str:
    # sqlglot's other messages speak of the classes of its tree.
    return message[:1].lower() + message[1:] if message.startswith("Expecting ") else _FALLBACK
