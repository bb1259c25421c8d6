"""Tokens to sqlglot's syntax tree, and the allow-list: what may stand in a tree, all else refused by name.

sqlglot reads far more than we mean, and some of what it reads it forgets: a stray comma, a word it does not
need. So a tree is taken only if each of its parts is known here, and if the statement's tokens have the shape
of our grammar (`check_shape`).
"""

import re
from collections.abc import Iterable
from typing import Final

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError
from sqlglot.parser import SENTINEL_NONE
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from leasehold.core.statements import TableName
from leasehold.errors import BadStatement, Refused
from leasehold.sql.front import FOREIGN_ERRORS, Source, check_name

_WRITTEN: Final = "leasehold.written"
"""Where a type's node keeps the words it was written with: sqlglot itself keeps only what they mean to it."""
_CALLED: Final = {
    "ALTER COLUMN": "ALTER COLUMN",
    "ALTER RENAME": "RENAME TO",
    "ALTER SET": "SET",
    "CLUSTER PROPERTY": "CLUSTER BY",
    "COMPUTED COLUMN CONSTRAINT": "GENERATED ALWAYS AS",
    "DATA TYPE": "a list of types",
    "PROPERTY": "this property",
}
"""Parts of the tree whose class is not called as people write them."""
_UNSAID: Final = (None, False, [])
_STEPS_MIN: Final = 1_000
_STEPS_PER_TOKEN: Final = 50
_FALLBACK: Final = "this is not understood"

_NAME = r"(?:[A-Z_][A-Z0-9_]*|`) "
_TYPE = r"[A-Z]+ (?:\( 9 (?:, 9 )?\) )?"
_COLUMN = rf"{_NAME}{_TYPE}(?:NOT NULL )?"
_PROPERTY = rf"(?:'|{_NAME.strip()}) = (?:'|9) "
_CLUSTERED = rf"CLUSTERED BY \( {_NAME}\) INTO 9 BUCKETS "
_CLAUSES = rf"(?:USING LEASEHOLD |{_CLUSTERED}|TBLPROPERTIES \( {_PROPERTY}(?:, {_PROPERTY})*\) )*"
_SHAPE: Final = re.compile(
    "|".join(
        (
            rf"CREATE (?:DATABASE|SCHEMA) (?:IF NOT EXISTS )?{_NAME}",
            rf"DROP (?:DATABASE|SCHEMA) (?:IF EXISTS )?{_NAME}",
            rf"DROP TABLE (?:IF EXISTS )?{_NAME}\. {_NAME}",
            rf"ALTER TABLE {_NAME}\. {_NAME}ADD COLUMN {_NAME}{_TYPE}",
            rf"ALTER TABLE {_NAME}\. {_NAME}ADD COLUMNS \( {_NAME}{_TYPE}(?:, {_NAME}{_TYPE})*\) ",
            rf"ALTER TABLE {_NAME}\. {_NAME}RENAME COLUMN {_NAME}TO {_NAME}",
            rf"ALTER TABLE {_NAME}\. {_NAME}DROP COLUMN {_NAME}",
            rf"CREATE TABLE (?:IF NOT EXISTS )?{_NAME}\. {_NAME}\( {_COLUMN}(?:, {_COLUMN})*\) {_CLAUSES}",
        )
    )
)
"""The forms of a whole definition, each followed by a space. Its repetitions start and end at fixed signs, so
matching takes time in proportion to the statement."""


class _Entangled(Exception):
    """Reading the statement takes too many steps. Not one of sqlglot's errors, which it would catch itself."""


class _Parser(SparkParser):
    """Spark's grammar, except that what it does not understand is an error and never an opaque command.

    It also counts its steps: sqlglot reads some texts (joins without a condition) by trying 2**n ways, and a
    text from outside must not hold up the process that parses it.
    """

    _steps = 0

    def _advance(self, times: int = 1) -> None:
        self._steps += 1
        if self._steps > _STEPS_MIN + _STEPS_PER_TOKEN * self._tokens_size:
            raise _Entangled
        super()._advance(times)

    def raise_error(self, message: str, token: Token = SENTINEL_NONE) -> None:
        at = token or self._curr
        offset = at.start if at else len(self.sql)
        # Always raised at once: sqlglot would otherwise collect errors in some of its modes and read on.
        raise ParseError(message, [{"offset": offset}])

    def _parse_as_command(self, start: Token) -> exp.Command:
        self.raise_error(_FALLBACK)
        return super()._parse_as_command(start)

    def _parse_types(
        self,
        check_func: bool = False,
        schema: bool = False,
        allow_identifiers: bool = True,
        with_collation: bool = False,
    ) -> exp.Expr | None:
        first = self._index
        found = super()._parse_types(check_func, schema, allow_identifiers, with_collation)
        if isinstance(found, exp.DataType):
            found.meta[_WRITTEN] = tuple(self._tokens[first : self._index])
        elif schema and found is None and self._curr and self._curr.token_type == TokenType.VAR:
            found = exp.DataType(this=exp.DType.UNKNOWN)
            found.meta[_WRITTEN] = (self._curr,)
            self._advance()
        return found


def parse_tree(source: Source) -> exp.Expr:
    """The syntax tree of a definition; raises `BadStatement` where sqlglot can't read it."""
    try:
        trees = _Parser(dialect=Spark()).parse(list(source.tokens), source.text)
    except ParseError as error:
        detail = error.errors[0] if error.errors else {}
        raise source.bad(_plain(str(error)), detail.get("offset")) from error
    except (_Entangled, RecursionError) as error:
        raise source.bad("the statement is too entangled to be read") from error
    except FOREIGN_ERRORS as error:
        raise source.bad("the statement can't be understood") from error
    tree = trees[0] if len(trees) == 1 else None
    if tree is None:
        raise source.bad("the statement can't be understood")
    return tree


def check_shape(source: Source) -> None:
    """Raises `BadStatement` unless the tokens are those of one of our definitions, to the last sign."""
    if _SHAPE.fullmatch("".join(f"{form} " for form in source.forms)) is None:
        raise source.bad("something in the statement has no meaning here")


def only(source: Source, node: exp.Expr, *known: str) -> None:
    """Raises `BadStatement`, naming it, if `node` says anything but what is `known`."""
    for name, value in node.args.items():
        if name not in known and value not in _UNSAID:
            raise source.bad(f"{_clause(name, value)} is not supported")


def unsupported(source: Source, node: exp.Expr) -> BadStatement:
    """The error for a clause, action or constraint that is not ours."""
    return source.bad(f"{clause_name(node)} is not supported")


def clause_name(node: exp.Expr) -> str:
    """A clause as people call it: `PARTITIONED BY` for a `PartitionedByProperty`."""
    if isinstance(node, exp.Properties) and node.expressions:
        return clause_name(node.expressions[0])
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper().split()
    if " ".join(words) in _CALLED:
        return _CALLED[" ".join(words)]
    kept = [word for word in words if word not in {"PROPERTY", "COLUMN", "CONSTRAINT", "SCHEMA"}]
    return " ".join(kept or words)


def table_name(source: Source, node: object) -> TableName:
    """A table's name, `database.table`; raises `Refused` with code BAD_IDENTIFIER for fewer or more parts."""
    parts = _name_parts(source, node)
    if len(parts) != 2:
        raise Refused(
            f"a table is named by its database and its own name, not {'.'.join(parts)[:300]!r}",
            code="BAD_IDENTIFIER",
            hint=f"write database.{parts[-1][:100]}" if len(parts) == 1 else "write database.table, without a catalog",
        )
    return TableName(check_name(parts[0]), check_name(parts[1]))


def database_name(source: Source, node: object) -> str:
    """A database's name; raises `Refused` with code BAD_IDENTIFIER if it has several parts."""
    parts = _name_parts(source, node)
    if len(parts) != 1:
        raise Refused(
            f"a database has a name of one part, not {'.'.join(parts)[:300]!r}",
            code="BAD_IDENTIFIER",
            hint=source.hint,
        )
    return check_name(parts[0])


def column_name(source: Source, node: object) -> str:
    """A column's name, bare or as an expression of nothing else."""
    if isinstance(node, exp.Column):
        if node.args.get("table") is None:
            only(source, node, "this")
            return column_name(source, node.this)
        node = exp.Dot()
    if isinstance(node, exp.Dot):
        raise Refused(
            "a column's name has no dot: there are no nested columns", code="BAD_IDENTIFIER", hint=source.hint
        )
    return check_name(_identifier(source, node))


def written(node: exp.DataType) -> tuple[Token, ...]:
    """The tokens that a type was written with."""
    tokens: Iterable[Token] = node.meta.get(_WRITTEN, ())
    return tuple(tokens)


def _name_parts(source: Source, node: object) -> list[str]:
    if not isinstance(node, exp.Table):
        raise source.bad("a name is expected")
    only(source, node, "this", "db", "catalog")
    parts: list[str] = []
    for part in (node.args.get("catalog"), node.args.get("db"), node.args.get("this")):
        if isinstance(part, exp.Dot):
            parts += [_identifier(source, inner) for inner in part.flatten()]
        elif part is not None:
            parts.append(_identifier(source, part))
    if not parts:
        raise source.bad("a name is expected")
    return parts


def _identifier(source: Source, node: object) -> str:
    if not isinstance(node, exp.Identifier) or not isinstance(node.this, str):
        raise source.bad("a name is expected")
    only(source, node, "this", "quoted")
    return node.this


def _clause(name: str, value: object) -> str:
    if name == "exists":
        return "IF EXISTS or IF NOT EXISTS"
    if name == "expression":
        return "AS SELECT"
    if name == "cluster":
        return "ON CLUSTER"
    if name == "position":
        return "FIRST or AFTER"
    first = value[0] if isinstance(value, list) and value else value
    if isinstance(first, exp.Expr) and name not in {"sorted_by", "partition"}:
        return clause_name(first)
    return name.replace("_", " ").upper()


def _plain(message: str) -> str:
    # sqlglot's other messages speak of the classes of its tree.
    return message[:1].lower() + message[1:] if message.startswith("Expecting ") else _FALLBACK
