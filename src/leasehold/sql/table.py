"""CREATE TABLE and column definitions, from sqlglot's tree."""

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from leasehold.core.statements import ColumnDefinition, CreateTable, fold
from leasehold.core.types import PLAIN_NAMES, ColumnType, Plain, parse_type
from leasehold.errors import Refused
from leasehold.limits import BUCKETS_MAX, COLUMNS_MAX
from leasehold.sql.front import Source
from leasehold.sql.properties import TableProperties, read_properties
from leasehold.sql.tree import clause_name, column_name, only, table_name, unsupported, written

_SYNONYMS: Final = {"INTEGER": "INT", "LONG": "BIGINT", "REAL": "FLOAT", "VARCHAR": "STRING"}
_DECIMALS: Final = frozenset({"DECIMAL", "NUMERIC"})


def create_table(source: Source, tree: exp.Create) -> CreateTable:
    """The statement; raises `BadStatement`, or `Refused` with a precise code."""
    only(source, tree, "this", "kind", "exists", "properties")
    schema = tree.this
    if not isinstance(schema, exp.Schema):
        table_name(source, schema)
        raise source.bad("a table needs at least one column")
    only(source, schema, "this", "expressions")
    name = table_name(source, schema.this)
    columns = read_columns(source, schema.expressions)
    cluster_by, buckets, given = _clauses(source, tree, columns)
    return CreateTable(
        name=name,
        columns=columns,
        if_not_exists=bool(tree.args.get("exists")),
        cluster_by=cluster_by,
        buckets=buckets,
        replication=given.replication,
        ttl_ns=given.ttl_ns,
        time_column=given.time_column,
        properties=given.others,
    )


def read_columns(source: Source, nodes: Sequence[object]) -> tuple[ColumnDefinition, ...]:
    """At least one column, at most `COLUMNS_MAX`, no name twice; raises `BadStatement` or `Refused`."""
    if not nodes:
        raise source.bad("at least one column is expected")
    if len(nodes) > COLUMNS_MAX:
        raise Refused(
            f"{len(nodes)} columns, over {COLUMNS_MAX}", code="TOO_MANY_COLUMNS", hint="split the table into several"
        )
    columns = tuple(_column(source, node) for node in nodes)
    seen: set[str] = set()
    for column in columns:
        if fold(column.name) in seen:
            raise Refused(
                f"column {column.name} is there twice",
                code="DUPLICATE_COLUMN",
                hint="give each column its own name; upper and lower case don't tell names apart",
            )
        seen.add(fold(column.name))
    return columns


def find_column(columns: Sequence[ColumnDefinition], name: str) -> ColumnDefinition | None:
    """The column that `name` means, in whatever case it is written."""
    return next((column for column in columns if fold(column.name) == fold(name)), None)


def _column(source: Source, node: object) -> ColumnDefinition:
    if isinstance(node, exp.Identifier):
        raise source.bad(f"column {node.name[:100]} has no type")
    if not isinstance(node, exp.ColumnDef):
        what = clause_name(node) if isinstance(node, exp.Expr) else "this"
        raise source.bad(f"{what} is not supported among the columns")
    only(source, node, "this", "kind", "constraints")
    name = column_name(source, node.this)
    nullable = True
    for constraint in node.args.get("constraints") or ():
        if not isinstance(constraint, exp.ColumnConstraint):
            raise source.bad(f"column {name}: only NOT NULL may follow the type")
        only(source, constraint, "kind")
        kind = constraint.args.get("kind")
        if not isinstance(kind, exp.NotNullColumnConstraint):
            what = clause_name(kind) if isinstance(kind, exp.Expr) else "this"
            raise source.bad(f"column {name}: {what} is not supported")
        if kind.args.get("allow_null"):
            raise source.bad(f"column {name}: NULL is not written, a column is nullable unless it is NOT NULL")
        nullable = False
    if not isinstance(node.args.get("kind"), exp.DataType):
        raise source.bad(f"column {name} has no type")
    return ColumnDefinition(name=name, type=_type(source, name, node.args["kind"]), nullable=nullable)


def _type(source: Source, column: str, node: exp.DataType) -> ColumnType:
    tokens = written(node)
    words = [source.text[token.start : token.end + 1].upper() for token in tokens]
    match words:
        case [word] if _SYNONYMS.get(word, word) in PLAIN_NAMES:
            return Plain(_SYNONYMS.get(word, word))
        case [word] if word in _DECIMALS:
            spelling = "DECIMAL(10,0)"
        case [word, "(", precision, ")"] if word in _DECIMALS:
            spelling = f"DECIMAL({precision},0)"
        case [word, "(", precision, ",", scale, ")"] if word in _DECIMALS:
            spelling = f"DECIMAL({precision},{scale})"
        case _:
            spelling = " ".join(words)
    try:
        # The canonical spelling is ours: only DECIMAL has come this far with a chance to be one.
        return parse_type(spelling)
    except Refused as error:
        where = f" {source.place(tokens[0].start)}" if tokens else ""
        raise Refused(f"column {column}: {error.text}{where}", code="BAD_TYPE", hint=error.hint) from error


def _clauses(
    source: Source, tree: exp.Create, columns: tuple[ColumnDefinition, ...]
) -> tuple[str | None, int, TableProperties]:
    """`cluster_by`, `buckets` and the properties; each clause at most once."""
    clauses = tree.args.get("properties")
    if clauses is not None:
        only(source, clauses, "expressions")
    assignments: list[exp.Property] = []
    cluster: tuple[str, int] | None = None
    stored = False
    for clause in clauses.expressions if clauses is not None else ():
        match clause:
            case exp.ClusteredByProperty():
                if cluster is not None:
                    raise source.bad("CLUSTERED BY is there twice")
                cluster = _clustering(source, clause, columns)
            case exp.FileFormatProperty():
                _check_format(source, clause)
                if stored:
                    raise source.bad("USING is there twice")
                stored = True
            case exp.Property() if type(clause) is exp.Property:
                assignments.append(clause)
            case _:
                raise unsupported(source, clause)
    if source.forms.count("TBLPROPERTIES") > 1:
        raise source.bad("TBLPROPERTIES is there twice")
    cluster_by, buckets = cluster or (None, 1)
    return cluster_by, buckets, read_properties(source, assignments, columns)


def _check_format(source: Source, clause: exp.FileFormatProperty) -> None:
    if clause.args.get("hive_format"):
        raise source.bad("STORED AS is not supported")
    only(source, clause, "this")
    if not isinstance(clause.this, exp.Var | exp.Identifier) or fold(clause.this.name) != "leasehold":
        raise source.bad("tables are stored by leasehold only: leave USING out")


def _clustering(
    source: Source, clause: exp.ClusteredByProperty, columns: tuple[ColumnDefinition, ...]
) -> tuple[str, int]:
    only(source, clause, "expressions", "buckets")
    if len(clause.expressions) != 1:
        raise source.bad("a table is clustered by one column")
    name = column_name(source, clause.expressions[0])
    column = find_column(columns, name)
    if column is None:
        raise Refused(
            f"CLUSTERED BY names {name}, which is not a column of the table",
            code="NO_SUCH_COLUMN",
            hint="name one of the columns in the parentheses",
        )
    count = clause.args.get("buckets")
    digits = count.this if isinstance(count, exp.Literal) and not count.is_string else ""
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10 and 1 <= int(digits) <= BUCKETS_MAX):
        raise Refused(
            f"a table has 1 to {BUCKETS_MAX} buckets",
            code="BAD_BUCKETS",
            hint="write INTO n BUCKETS, n a whole number",
        )
    return column.name, int(digits)
