"""CREATE TABLE .. AS SELECT, which only Spark runs (`leasehold.spark.sql`)."""

from dataclasses import dataclass
from typing import Final

from leasehold.core.words.statements import TableName
from leasehold.errors import BadStatement
from leasehold.sql.cursor import Cursor
from leasehold.sql.front import Source, read

_QUERIES: Final = frozenset({"SELECT", "WITH", "("})


@dataclass(frozen=True, kw_only=True)
class CreateQuery:
    """`how` is the text between the name and AS; the SELECT begins at the token `first`."""

    table: TableName
    if_not_exists: bool
    how: str
    source: Source
    first: int


def read_create_query(text: str) -> CreateQuery | None:
    """The CREATE TABLE .. AS SELECT in `text`; None for any other statement. Raises `BadStatement`, `Refused`."""
    cursor = Cursor(read(text))
    if not cursor.accept("CREATE", "TABLE"):
        return None
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    table = cursor.table()
    tokens, begins = cursor.source.tokens, cursor.at
    while cursor.form and not (cursor.form == "AS" and cursor.ahead(1) in _QUERIES):
        cursor.at += 1
    if not cursor.form:
        return None
    if cursor.source.forms[begins] == "(":
        raise BadStatement(
            "a table has the columns of its SELECT", hint="leave them out here, and name and cast them in the SELECT"
        )
    how = text[tokens[begins].start : tokens[cursor.at].start]
    return CreateQuery(table=table, if_not_exists=if_not_exists, how=how, source=cursor.source, first=cursor.at + 1)
