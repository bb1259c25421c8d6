"""INSERT INTO .. VALUES: literals become the values of their columns, and one write transaction adds them."""

from typing import TYPE_CHECKING

import pyarrow as pa

from leasehold.client.columns import field_named
from leasehold.core.ddl.origin import hash_text
from leasehold.core.words.literals import fit
from leasehold.core.words.messages import Rows
from leasehold.core.words.records import Field
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
