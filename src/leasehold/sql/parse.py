"""SQL text to statements: `parse`, the one way in.

The front takes the questions, `sql/cluster.py` the settings; sqlglot reads the other definitions, and its tree is
taken by allow-list. What is not known is refused by name, never ignored.
"""

from sqlglot import exp

from leasehold.core.statements import (
    AddColumns,
    AnyStatement,
    CreateDatabase,
    Definition,
    DropColumn,
    DropDatabase,
    DropTable,
    RenameColumn,
)
from leasehold.errors import Refused
from leasehold.sql.cluster import alter_cluster
from leasehold.sql.front import Source, question, read
from leasehold.sql.table import create_table, read_columns
from leasehold.sql.tree import (
    check_shape,
    clause_name,
    column_name,
    database_name,
    only,
    parse_tree,
    table_name,
    unsupported,
)

_DATABASES = frozenset({"DATABASE", "SCHEMA"})


def parse(text: str) -> AnyStatement:
    """The one statement in `text`.

    Raises `BadStatement`, whose hint is the grammar of the statement that seems meant, or `Refused` with code
    BAD_TYPE, BAD_IDENTIFIER, BAD_PROPERTY, BAD_BUCKETS, DUPLICATE_COLUMN, NO_SUCH_COLUMN, TOO_MANY_COLUMNS,
    NOT_NULL_ADDED, NO_SUCH_SETTING, FIXED_SETTING, BAD_SETTING or SETTING_TWICE. It raises nothing else, whatever the
    text, and prints nothing.
    """
    source = read(text)
    asked = question(source) or alter_cluster(source)
    if asked is not None:
        return asked
    if source.forms[0] not in {"CREATE", "DROP", "ALTER"}:
        raise source.bad("this is not one of our statements", source.tokens[0].start)
    definition = _definition(source, parse_tree(source))
    check_shape(source)
    return definition


def _definition(source: Source, tree: exp.Expr) -> Definition:
    kind = str(tree.args.get("kind", "")).upper()
    match tree:
        case exp.Create() if kind in _DATABASES:
            only(source, tree, "this", "kind", "exists")
            return CreateDatabase(name=database_name(source, tree.this), if_not_exists=bool(tree.args.get("exists")))
        case exp.Create() if kind == "TABLE":
            return create_table(source, tree)
        case exp.Drop() if kind in _DATABASES or kind == "TABLE":
            return _drop(source, tree, kind)
        case exp.Alter() if kind == "TABLE":
            return _alter(source, tree)
        case exp.Create() | exp.Drop() | exp.Alter():
            raise source.bad(f"{clause_name(tree)} {kind[:40]} is not supported")
        case _:
            raise unsupported(source, tree)


def _drop(source: Source, tree: exp.Drop, kind: str) -> DropTable | DropDatabase:
    only(source, tree, "tables", "kind", "exists")
    names = tree.args.get("tables") or ()
    if len(names) != 1:
        raise source.bad("one object is dropped by one statement")
    if_exists = bool(tree.args.get("exists"))
    if kind == "TABLE":
        return DropTable(table=table_name(source, names[0]), if_exists=if_exists)
    return DropDatabase(name=database_name(source, names[0]), if_exists=if_exists)


def _alter(source: Source, tree: exp.Alter) -> AddColumns | RenameColumn | DropColumn:
    only(source, tree, "this", "kind", "actions")
    table = table_name(source, tree.this)
    actions = tree.args.get("actions") or ()
    if len(actions) != 1:
        raise source.bad("one change by one statement; several columns are added by ADD COLUMNS (..)")
    match actions[0]:
        case exp.ColumnDef() as column:
            return _add_columns(source, AddColumns(table=table, columns=read_columns(source, [column])))
        case exp.Schema() as schema:
            only(source, schema, "expressions")
            return _add_columns(source, AddColumns(table=table, columns=read_columns(source, schema.expressions)))
        case exp.RenameColumn() as rename:
            only(source, rename, "this", "to")
            old, new = column_name(source, rename.this), column_name(source, rename.args.get("to"))
            return RenameColumn(table=table, old=old, new=new)
        case exp.Drop() as drop:
            only(source, drop, "tables", "kind")
            columns = drop.args.get("tables") or ()
            if drop.args.get("kind") != "COLUMN" or len(columns) != 1:
                raise source.bad("one column is dropped by one statement, DROP COLUMN name")
            return DropColumn(table=table, column=column_name(source, columns[0]))
        case action:
            raise unsupported(source, action)


def _add_columns(source: Source, statement: AddColumns) -> AddColumns:
    for column in statement.columns:
        if not column.nullable:
            raise Refused(
                f"column {column.name} can't be added as NOT NULL: the rows that are there have no value for it",
                code="NOT_NULL_ADDED",
                hint=source.hint,
            )
    return statement
