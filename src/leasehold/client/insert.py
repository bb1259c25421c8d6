"""INSERT INTO .. VALUES: literals become the values of their columns, and one write transaction adds them."""

from typing import TYPE_CHECKING

import pyarrow as pa

from leasehold.core.ddl.origin import hash_text
from leasehold.core.words.literals import fit
from leasehold.core.words.messages import Rows
from leasehold.core.words.nearest import nearest
from leasehold.core.words.records import Field
from leasehold.core.words.statements import fold
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotFound
from leasehold.ids import StatementId, TransactionId
from leasehold.sql.insert import InsertRows, column_count, read_insert
from leasehold.storage.schema import arrow_type, scalar

if TYPE_CHECKING:
    from leasehold.client.cluster import Cluster


def insert(cluster: "Cluster", text: str, statement: StatementId | None = None) -> Rows:
    """Adds the rows, all or none, and returns how many.

    The `statement` is the id of the write transaction: the same id again adds nothing twice. Raises as `read_insert`
    and `Table.append`, and `Refused`: BAD_VALUE for a literal that its column can't hold, and STATEMENT_ID_USED for the
    id of another statement, or of another user's.
    """
    asked = read_insert(text)
    table = cluster.table(str(asked.table))
    rows = _values(asked, table.fields, table.name)
    transaction = TransactionId(statement) if statement else None
    added = table.append(rows, transaction=transaction, text_sha256=hash_text(text))
    answer = (table.name, str(int(added)), str(added.segments_short))
    return Rows(columns=("table", "rows", "segments_short"), rows=(answer,), revision=added.revision)


def _values(asked: InsertRows, fields: tuple[Field, ...], name: str) -> pa.Table:
    chosen = [field_named(column, fields, name) for column in asked.columns] or list(fields)
    width = len(asked.rows[0])
    if width != len(chosen):
        raise column_count(1, width, len(chosen))
    columns: list[pa.Array] = []
    for place, field in enumerate(chosen):
        texts = (fit(row[place], field.type, column=field.name) for row in asked.rows)
        columns.append(pa.array([scalar(one, field.type).as_py() for one in texts], arrow_type(field.type)))
    return pa.table(columns, names=[field.name for field in chosen])


def field_named(column: str, fields: tuple[Field, ...], name: str) -> Field:
    """The column of the table `name`, in any case. Raises `NotFound` with code NO_SUCH_COLUMN."""
    for field in fields:
        if fold(field.name) == fold(column):
            return field
    known = ", ".join(field.name for field in fields)
    meant = nearest(column, (field.name for field in fields))
    hint = f"{meant} it has {known}".lstrip()[:500]
    raise NotFound(f"table {name} has no column {column}", code=ErrorCode.NO_SUCH_COLUMN, hint=hint)
