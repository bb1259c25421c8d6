"""What Spark's SELECT needs of each table that it names: which columns, and which rows at most.

Spark does not tell a source of Python either of them (`docs/decisions/0061-*.md`). Too few columns, or a condition that
excludes a row that Spark would keep, would give wrong answers. So this decides by what stands in the text, not by a
full reading of it, and where a form is not known for sure all columns are read, without conditions.

**Columns.** A column may be needed if its name occurs anywhere in the text, unless it stands behind another table's
name and a dot. A star needs all columns of what its SELECT reads, but for COUNT(*).

**Conditions.** The WHERE stays in the SELECT, so a condition here only spares reading. It is taken from the WHERE of
the very SELECT that names the table, if it is joined to the rest by AND and compares a column of the table with a
literal. All of these are null-rejecting, so outer joins keep their answer: the WHERE drops a row that does not fulfil
one, and it also drops the row of NULLs that would take its place. They are taken only where Spark compares a type with
a literal as Leasehold does.

| type of the column | literals |
| --- | --- |
| TINYINT .. BIGINT | whole numbers |
| DECIMAL | numbers, while Spark compares them without rounding |
| DOUBLE | numbers with a point |
| STRING | texts without escapes |
| DATE, TIMESTAMP | `DATE '..'`, and `TIMESTAMP '..'` with a zone |
| any | IS NOT NULL |
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from sqlglot import exp

from leasehold.core.words.literals import fit
from leasehold.core.words.records import Field
from leasehold.core.words.statements import Literal, fold
from leasehold.core.words.types import Decimal, parse_type
from leasehold.errors import Refused
from leasehold.limits.statements import DECIMAL_PRECISION_MAX, FILTER_VALUES_MAX, FILTERS_MAX
from leasehold.sql.front import Source
from leasehold.sql.references import Reference, SparkSelect, names_of

_ODD: Final = (exp.Pivot, exp.Lateral, exp.QueryTransform)
"""Parts that make columns, or read some that the text does not name."""
_ODD_TEXT: Final = re.compile(r"\$\{|\|>|\bIDENTIFIER\s*\(", re.IGNORECASE)
"""Spark replaces `${..}` before it reads the text, and IDENTIFIER(..) makes names of expressions."""
_PLAIN_NAME: Final = re.compile(r"\w+")
_COMPARISONS: Final[Mapping[type[exp.Expr], str]] = {
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_PLAIN_ARGUMENTS: Final = frozenset({"this", "expression", "expressions", "low", "high"})
"""Of sqlglot's comparisons; all others change what they mean."""
_WHOLE: Final = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_INTEGER: Final = re.compile(r"[0-9]+", re.ASCII)
_FRACTION: Final = re.compile(r"[0-9]+\.[0-9]+", re.ASCII)
_DOUBLE_CHARACTERS_MAX: Final = 16
_INT_DIGITS: Final = 10
_BIGINT_DIGITS: Final = 20
_START: Final = re.compile(r"([^%_\\]+)%")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_INSTANT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)
_TYPED: Final = {"DATE": _DATE, "TIMESTAMP": _INSTANT}


class ReadNeeds(NamedTuple):
    """What a SELECT needs of one reference."""

    columns: tuple[str, ...] | None
    """In the order of the table; None for all, empty if only the number of rows counts."""
    where: str | None
    """As `sql/where.py` reads it."""


ALL: Final = ReadNeeds(columns=None, where=None)


def needed(select: SparkSelect, fields: Mapping[int, Sequence[Field]]) -> dict[int, ReadNeeds]:
    """What is needed of the references whose `fields` are given, by their place."""
    if _is_odd(select):
        return dict.fromkeys(fields, ALL)
    names = _Names(select)
    texts = _Texts(select.source)
    found: dict[int, ReadNeeds] = {}
    for place, own in fields.items():
        reference = select.references[place]
        if _has_other_names(reference):
            found[place] = ALL
        else:
            conditions = _Conditions(reference, own, texts)
            found[place] = ReadNeeds(columns=names.of(reference, own), where=conditions.text())
    return found


# ---------------------------------------------------------------- forms that are not known


def _is_odd(select: SparkSelect) -> bool:
    text = select.source.text
    if _ODD_TEXT.search(text) or any(_is_odd_part(node) for node in select.tree.walk()):
        return True
    signs = sum(form == "*" for form in select.source.forms)
    return signs != sum(isinstance(node, exp.Star | exp.Mul) for node in select.tree.walk())


def _is_odd_part(node: exp.Expr) -> bool:
    match node:
        case exp.Star() if not _counts_rows(node):
            select = node.find_ancestor(exp.Select)
            return select is None or select.args.get("from_") is None  # may be that of an outer SELECT
        case exp.Identifier():
            return _PLAIN_NAME.fullmatch(node.name) is None  # may be a pattern for names
        case exp.Join():
            return node.method.upper() == "NATURAL"
        case exp.With():
            return bool(node.args.get("recursive"))
        case exp.SetOperation():
            return bool(node.args.get("by_name"))
        case _:
            return isinstance(node, _ODD)


def _has_other_names(reference: Reference) -> bool:
    """Whether the text may call the table or its columns by other names: `(database.table) AS a`, `AS a (b, c)`."""
    around = reference.node.parent
    stands_alone = isinstance(around, exp.From | exp.Join) and isinstance(around.parent, exp.Select)
    return not stands_alone or (reference.has_alias and bool(reference.node.args["alias"].columns))


def _select_of(reference: Reference) -> exp.Select | None:
    return reference.node.find_ancestor(exp.Select)


# ---------------------------------------------------------------- columns


class _Names:
    """The names that occur in a SELECT, and its stars."""

    def __init__(self, select: SparkSelect) -> None:
        self._bare: set[str] = set()
        self._qualified: set[tuple[str, str]] = set()
        tokens, forms = select.source.tokens, select.source.forms
        for place, token in enumerate(tokens):
            for word in token.text.split():  # some keywords are of several words
                if place >= 2 and forms[place - 1] == ".":
                    self._qualified.add((fold(tokens[place - 2].text), fold(word)))
                else:
                    self._bare.add(fold(word))
        self._starred: set[str] = set()
        self._selects: list[exp.Select | None] = []
        for star in select.tree.find_all(exp.Star):
            if isinstance(star.parent, exp.Column):
                self._starred.add(fold(star.parent.table))  # may be that of an outer SELECT
            elif not _counts_rows(star):
                self._selects.append(star.find_ancestor(exp.Select))

    def of(self, reference: Reference, fields: Sequence[Field]) -> tuple[str, ...] | None:
        alias, own = fold(reference.alias), _select_of(reference)
        if alias in self._starred or any(one is own for one in self._selects):
            return None
        return tuple(one.name for one in fields if self._may_name(alias, fold(one.name)))

    def _may_name(self, alias: str, name: str) -> bool:
        return name in self._bare or (alias, name) in self._qualified


def _counts_rows(star: exp.Star) -> bool:
    """Whether it is that of COUNT(*), which reads no column."""
    count = star.parent
    return isinstance(count, exp.Count) and not count.expressions and not any(star.args.values())


# ---------------------------------------------------------------- conditions


class _Texts:
    """The texts in quotes of a statement, by how they are written."""

    def __init__(self, source: Source) -> None:
        before: dict[str, set[str]] = {}
        odd: set[str] = set()
        for place, token in enumerate(source.tokens):
            if source.forms[place] == "'":
                before.setdefault(token.text, set()).add(source.forms[place - 1] if place else "")
                if source.text[token.start : token.end + 1] != f"'{token.text}'":
                    odd.add(token.text)
        self._before = {text: forms for text, forms in before.items() if text not in odd}

    def is_plain(self, text: str) -> bool:
        """Whether it is written everywhere just so, between single quotes."""
        return text in self._before

    def is_typed(self, text: str, kind: str) -> bool:
        """Whether it stands everywhere behind the name of a type."""
        return self._before.get(text) == {kind}


class _Conditions:
    """The conditions on one reference."""

    def __init__(self, reference: Reference, fields: Sequence[Field], texts: _Texts) -> None:
        self._reference = reference
        self._fields = {fold(one.name): one for one in fields}
        self._texts = texts
        self._using: set[str] = set()

    def text(self) -> str | None:
        """As many as a scan takes, joined by AND. A SELECT is too short for one that takes too many bytes."""
        taken: list[str] = []
        values = 0
        for text, count in self._all():
            values += count
            if len(taken) == FILTERS_MAX or values > FILTER_VALUES_MAX:
                break
            taken.append(text)
        return " AND ".join(taken) or None

    def _all(self) -> Iterator[tuple[str, int]]:
        """Each with the number of its values."""
        select = self._select()
        where = None if select is None else select.args.get("where")
        if select is None or where is None:
            return
        joins: list[exp.Join] = select.args.get("joins") or []
        self._using = {fold(one.name) for join in joins for one in join.args.get("using") or ()}
        for condition in _joined_by_and(where.this):
            yield from self._taken(condition)

    def _select(self) -> exp.Select | None:
        """The SELECT whose WHERE drops rows of the table, if it sees all of them under a name of their own."""
        node = self._reference.node
        select = _select_of(self._reference)
        if select is None or node.args.get("sample") or node.args.get("joins"):
            return None
        if isinstance(node.parent, exp.Join) and node.parent.kind.upper() in {"SEMI", "ANTI"}:
            return None  # the WHERE does not see its columns
        joins: list[exp.Join] = select.args.get("joins") or []
        names = [fold(one.alias_or_name) for one in (select.args["from_"].this, *(join.this for join in joins))]
        return select if names.count(fold(self._reference.alias)) == 1 else None

    def _taken(self, condition: exp.Expr) -> Iterator[tuple[str, int]]:
        if any(value for name, value in condition.args.items() if name not in _PLAIN_ARGUMENTS):
            return  # such as the NOT of NOT LIKE
        match condition:
            case exp.Not(this=exp.Is(this=exp.Column() as column, expression=exp.Null())):
                field = self._field(column)
                if field is not None:
                    yield f"`{field.name}` IS NOT NULL", 0
            case exp.Between(this=exp.Column() as column):
                values = self._values(column, [condition.args["low"], condition.args["high"]])
                if values is not None:
                    yield f"`{values.name}` BETWEEN {values.texts[0]} AND {values.texts[1]}", 2
            case exp.In(this=exp.Column() as column) if condition.expressions:
                values = self._values(column, condition.expressions)
                if values is not None:
                    yield f"`{values.name}` IN ({', '.join(values.texts)})", len(values.texts)
            case exp.Like(this=exp.Column() as column, expression=exp.Literal() as pattern):
                values = self._values(column, [pattern])
                if values is not None and _START.fullmatch(pattern.name):
                    yield f"`{values.name}` LIKE {values.texts[0]}", 1
            case exp.EQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE() if isinstance(condition.this, exp.Column):
                values = self._values(condition.this, [condition.expression])
                if values is not None:
                    yield f"`{values.name}` {_COMPARISONS[type(condition)]} {values.texts[0]}", 1
            case _:
                pass

    def _field(self, column: exp.Column) -> Field | None:
        """The column of the table that is meant; None if it may be another's."""
        name = fold(column.name)
        if not isinstance(column.this, exp.Identifier) or column.catalog:
            return None
        if column.db:
            return self._fields.get(name) if names_of(column, self._reference) else None
        if column.table:
            return self._fields.get(name) if fold(column.table) == fold(self._reference.alias) else None
        # If another table has such a column too, Spark refuses the SELECT; but what USING joins is one column of both.
        return None if name in self._using else self._fields.get(name)

    def _values(self, column: exp.Column, nodes: Sequence[exp.Expr]) -> "_Values | None":
        """The literals as they are written, if Spark compares them with the column as Leasehold does."""
        field = self._field(column)
        if field is None:
            return None
        literals = [self._literal(node, field.type) for node in nodes]
        found = [one for one in literals if one is not None]
        if (
            len(found) < len(literals)
            or not _is_exact(found, field.type)
            or not all(_fits(one, field) for one in found)
        ):
            return None
        return _Values(field.name, tuple(map(_written, found)))

    def _literal(self, node: exp.Expr, kind: str) -> Literal | None:
        match node:
            case exp.Neg(this=exp.Literal(is_string=False) as number):
                return _number(f"-{number.name}", kind)
            case exp.Literal(is_string=False):
                return _number(node.name, kind)
            case exp.Literal() if kind == "STRING" and self._texts.is_plain(node.name):
                return Literal("string", node.name)
            case exp.Cast(this=exp.Literal(is_string=True) as text) if kind in _TYPED:
                is_so = self._texts.is_typed(text.name, kind) and _TYPED[kind].fullmatch(text.name)
                return Literal("date" if kind == "DATE" else "timestamp", text.name) if is_so else None
            case _:
                return None


class _Values(NamedTuple):
    name: str
    texts: tuple[str, ...]


def _joined_by_and(condition: exp.Expr) -> Iterator[exp.Expr]:
    rest = [condition]
    while rest:
        match rest.pop():
            case exp.And(this=left, expression=right):
                rest += [right, left]
            case exp.Paren(this=inner):
                rest.append(inner)
            case one:
                yield one


def _number(text: str, kind: str) -> Literal | None:
    digits = text.removeprefix("-")
    is_whole, is_fraction = _INTEGER.fullmatch(digits) is not None, _FRACTION.fullmatch(digits) is not None
    if isinstance(parse_type(kind), Decimal):
        taken = is_whole or is_fraction
    elif kind == "DOUBLE":
        taken = is_fraction and len(digits) <= _DOUBLE_CHARACTERS_MAX  # which all programs round alike
    else:
        taken = kind in _WHOLE
    return Literal("number", text) if taken else None


def _is_exact(literals: Sequence[Literal], kind: str) -> bool:
    """Whether Spark compares a DECIMAL with them in a type that holds all of them, else it rounds the column."""
    column = parse_type(kind)
    if not isinstance(column, Decimal):
        return True
    whole, scale = column.precision - column.scale, column.scale
    for one in literals:
        before, _, behind = one.text.removeprefix("-").partition(".")
        whole, scale = max(whole, len(before) if behind else _type_digits(before)), max(scale, len(behind))
    return whole + scale <= DECIMAL_PRECISION_MAX


def _type_digits(whole_number: str) -> int:
    """The digits of the type of a whole number, INT or BIGINT: in a list Spark goes by the type."""
    return _INT_DIGITS if len(whole_number) < _INT_DIGITS else _BIGINT_DIGITS


def _fits(literal: Literal, field: Field) -> bool:
    try:
        return fit(literal, field.type, column=field.name) is not None
    except Refused:
        return False


def _written(literal: Literal) -> str:
    match literal.kind:
        case "number":
            return literal.text
        case "string":
            return f"'{literal.text}'"
        case _:
            return f"{literal.kind.upper()} '{literal.text}'"
