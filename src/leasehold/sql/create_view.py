"""CREATE VIEW and DROP VIEW."""

from leasehold.core.words.statements import CreateView, DropView
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.statements import COLUMNS_MAX
from leasehold.sql.cursor import Cursor
from leasehold.sql.query import view_query
from leasehold.sql.table import check_distinct


def create_view(cursor: Cursor, *, or_replace: bool) -> CreateView:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if if_not_exists and or_replace:
        raise cursor.source.bad("OR REPLACE and IF NOT EXISTS can't be combined")
    view = cursor.table()
    names = _names(cursor)
    comment = cursor.comment() if cursor.accept("COMMENT") else ""
    cursor.expect("AS")
    body, reads = view_query(cursor.source, cursor.at)
    cursor.at = len(cursor.source.tokens)
    return CreateView(
        view=view,
        body=body,
        reads=reads,
        names=names,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        comment=comment,
    )


def drop_view(cursor: Cursor) -> DropView:
    if_exists = cursor.accept("IF", "EXISTS")
    view = cursor.table()
    return DropView(view=view, if_exists=if_exists, cascade=cursor.accept("CASCADE"))


def _names(cursor: Cursor) -> tuple[str, ...]:
    names = cursor.listed(Cursor.column) if cursor.form == "(" else ()
    if len(names) > COLUMNS_MAX:
        raise Refused(
            f"{len(names)} columns, over {COLUMNS_MAX}", code=ErrorCode.TOO_MANY_COLUMNS, hint="name fewer of them"
        )
    check_distinct(names)
    return names
