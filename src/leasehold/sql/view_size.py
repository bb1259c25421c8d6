"""The size of a SELECT once its names are resolved, counted before that is done.

sqlglot then expands each `*`, alias, position in GROUP BY and column of USING: a text of some hundred characters may
become gigabytes. The count here is too small by a few nodes at most.

The unit is a node of the syntax tree. sqlglot walks up from each column to its SELECT, several times, so a node in a
deep expression counts more: twice at a depth of `_HEIGHT_UNIT`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from leasehold.core.words.statements import fold
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.statements import VIEW_COLUMNS_EXPANDED_MAX, VIEW_COLUMNS_JOINED_MAX, VIEW_NODES_MAX

_HEIGHT_UNIT: Final = 64
_COLUMN_NODES: Final = 3
"""A column with its table: `t`.`c`."""
_NAMED_NODES: Final = 2
"""AS and the name behind it."""
_ADDED_NODES: Final[Mapping[type[exp.Expr], int]] = {
    exp.Column: 1,
    exp.Table: _NAMED_NODES,
    exp.Subquery: _NAMED_NODES,
}
"""Nodes that sqlglot adds, such as a missing alias."""


def check_size(tree: exp.Query, widths: Mapping[tuple[str, str], int]) -> int:
    """The size; `widths` are the numbers of columns of each table and view that the SELECT reads, by folded names.

    Raises `Refused` with code TOO_MANY_COLUMNS or SELECT_TOO_LONG.
    """
    return _Sizes(widths).count(tree)


class _Size(NamedTuple):
    """The size of an expanded expression; `inner` is the weight of the subqueries in it."""

    nodes: int = 0
    height: int = 0
    inner: int = 0

    @property
    def weight(self) -> int:
        return self.nodes + self.nodes * self.height // _HEIGHT_UNIT + self.inner

    def or_larger(self, other: "_Size | None") -> "_Size":
        return self if other is None else _Size(*map(max, self, other))


class _Sizes:
    def __init__(self, widths: Mapping[tuple[str, str], int]) -> None:
        self._tables = widths
        self._weights: dict[int, int] = {}
        """The weights and widths of the SELECTs counted so far, with their subqueries, by the ids of their nodes."""
        self._widths: dict[int, int] = {}
        self._expanded = 0
        self._joined = 0

    def count(self, tree: exp.Query) -> int:
        for scope in traverse_scope(tree):  # what a SELECT reads comes before it
            query = scope.expression
            if isinstance(query, exp.Select):
                sources = list(self._sources(scope))
                self._joined += sum(width for _, width in sources)
                _check_joined(self._joined)
                self._select(query, sources)
            elif isinstance(query, exp.SetOperation):
                self._widths[id(query)] = self._widths.get(id(query.left.unnest()), 1)
                self._weights[id(query)] = _checked(self._size(query, {}).weight)
        return self._size(tree, {}).weight

    def _sources(self, scope: Scope) -> Iterator[tuple[str, int]]:
        """The folded name and the width of each source of a SELECT. Two may have one name here."""
        given = {fold(name): source.expression for name, source in scope.cte_sources.items()}
        for table in scope.tables:
            query = None if table.db else given.get(fold(table.name))
            key = fold(table.db), fold(table.name)
            width = self._tables.get(key, 1) if query is None else self._widths.get(id(query), 1)
            yield fold(table.alias_or_name), width
        for derived in scope.derived_tables:
            yield fold(derived.alias), self._widths.get(id(derived.unnest()), 1)

    def _select(self, query: exp.Select, sources: Sequence[tuple[str, int]]) -> None:
        names, weight = _joined_by(query)
        weight += 1  # itself
        width = 0
        largest = _Size()
        for select in query.selects:
            size = self._size(select, names)
            if select.is_star:
                only = fold(select.table) if isinstance(select, exp.Column) else None
                columns = sum(wide for name, wide in sources if only in {None, name})
                width += columns
                weight += _NAMED_NODES * columns
                self._expanded += columns
                _check_expanded(self._expanded)
                size = _Size(size.nodes + columns * _COLUMN_NODES + sum(one.nodes for one in names.values()), 3)
            else:
                width += 1
                weight += _NAMED_NODES
            weight = _checked(weight + size.weight)
            largest = size.or_larger(largest)
            if isinstance(select, exp.Alias):
                names[fold(select.alias)] = size.or_larger(names.get(fold(select.alias)))
        for clause in query.iter_expressions():
            if clause.arg_key != "expressions":
                weight = _checked(weight + self._size(clause, names).weight)
        # A number in GROUP BY stands for one of the columns.
        places = sum(one.is_int for one in _grouped(query))
        self._widths[id(query)] = width
        self._weights[id(query)] = _checked(weight + places * largest.weight)

    def _size(self, root: exp.Expr, names: Mapping[str, _Size]) -> _Size:
        nodes = height = inner = 0
        rest = [(root, 1)]
        while rest:
            node, depth = rest.pop()
            weight = self._weights.get(id(node))
            if weight is not None:
                inner += weight
                continue
            named = names.get(fold(node.name)) if isinstance(node, exp.Column) and not node.table else None
            if named is not None:
                nodes, height, inner = nodes + named.nodes, max(height, depth + named.height), inner + named.inner
            nodes, height = nodes + 1 + _ADDED_NODES.get(type(node), 0), max(height, depth)
            rest.extend((child, depth + 1) for child in node.iter_expressions())
        return _Size(nodes, height, inner)


def _joined_by(query: exp.Select) -> tuple[dict[str, _Size], int]:
    """The columns of USING, each of which is expanded to one of every table, and the weight of the conditions."""
    joins = query.args.get("joins") or []
    whole = _Size(_COLUMN_NODES * (len(joins) + 1), 2)
    names: dict[str, _Size] = {}
    weight = 0
    for place, join in enumerate(joins, start=1):
        using = [fold(one.name) for one in join.args.get("using") or ()]
        names |= dict.fromkeys(using, whole)
        # Each is compared with its like in all tables before.
        weight += _Size(len(using) * _COLUMN_NODES * (place + 2), len(using)).weight
    return names, _checked(weight)


def _grouped(query: exp.Select) -> Iterator[exp.Expr]:
    group = query.args.get("group")
    if isinstance(group, exp.Group):
        yield from group.expressions


def _checked(weight: int) -> int:
    if weight > VIEW_NODES_MAX:
        raise Refused(
            "the SELECT becomes too large once its names and aliases are written out",
            code=ErrorCode.SELECT_TOO_LONG,
            hint="split it into several views",
        )
    return weight


def _check_expanded(columns: int) -> None:
    if columns > VIEW_COLUMNS_EXPANDED_MAX:
        raise Refused(
            f"* stands for more than {VIEW_COLUMNS_EXPANDED_MAX} columns in all subqueries",
            code=ErrorCode.TOO_MANY_COLUMNS,
            hint="name the columns instead of *",
        )


def _check_joined(columns: int) -> None:
    if columns > VIEW_COLUMNS_JOINED_MAX:
        raise Refused(
            f"the tables and views that the SELECT reads have more than {VIEW_COLUMNS_JOINED_MAX} columns in all",
            code=ErrorCode.TOO_MANY_COLUMNS,
            hint="split it into several views",
        )
