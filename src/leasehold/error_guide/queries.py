"""Codes of queries and views."""

from leasehold.error_codes import ErrorCode
from leasehold.error_guide.entry import Entry

QUERIES = {
    ErrorCode.COLUMN_DROPPED: Entry("a column of the query was dropped meanwhile", "run the query again without it"),
    ErrorCode.CYCLIC_VIEW: Entry(
        "the view would read itself, directly or through other views",
        "read the tables instead of those views",
    ),
    ErrorCode.GENERATION_CHANGED: Entry(
        "the cluster was recovered from an older state while the request ran",
        "run the query or the write again",
    ),
    ErrorCode.NOT_IN_A_VIEW: Entry(
        "the SELECT of a view uses an expression that a view can't hold",
        "use tables, columns and functions that Leasehold knows",
    ),
    ErrorCode.NOT_ON_THIS_ENGINE: Entry(
        "the query engine, DuckDB or Spark, can't run this SELECT or view",
        "run it in the other engine; the hint names the call",
    ),
    ErrorCode.NO_COLUMN_NAME: Entry("a column of a view has no name", "write AS name after the expression"),
    ErrorCode.QUERY_FAILED: Entry("DuckDB failed on the query", "CAST the values where their types differ"),
    ErrorCode.QUERY_TOO_LARGE: Entry(
        "the query needs more memory than it may use",
        "allow more memory, read fewer rows or columns, or run it in Spark",
    ),
    ErrorCode.ROWS_TAKEN_AWAY: Entry(
        "rows of the table were deleted or expired while the query read them",
        "run the query again",
    ),
    ErrorCode.SEGMENTS_LOST: Entry(
        "rows of the table are lost, because all nodes that held them were removed",
        "run `leasehold forget-lost TABLE` to give them up, then write the rows again",
    ),
    ErrorCode.SELECT_TOO_LONG: Entry("the text of a SELECT is too long", "split the SELECT into several views"),
    ErrorCode.TABLE_DROPPED: Entry(
        "the table was dropped, or another table has its name now",
        "look up the table again: SHOW TABLES lists what exists",
    ),
    ErrorCode.TOO_MANY_TABLES: Entry("a SELECT reads too many tables and views", "read fewer tables in one SELECT"),
    ErrorCode.TOO_MANY_VIEWS: Entry("a view reads too many other views", "read the tables instead of those views"),
    ErrorCode.VIEW_DROPPED: Entry("the view was dropped", "look up the view again: SHOW VIEWS lists what exists"),
    ErrorCode.VIEW_NEEDS_IT: Entry(
        "views read the object that the statement would change or drop",
        "drop or change those views first, or write CASCADE to drop them too",
    ),
    ErrorCode.VIEW_TOO_DEEP: Entry("views read each other too deeply", "read the tables instead of views on them"),
}
