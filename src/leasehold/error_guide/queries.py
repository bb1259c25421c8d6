"""Codes of queries and views."""

from leasehold.error_codes import ErrorCode
from leasehold.error_guide.entry import GuideEntry

QUERIES = {
    ErrorCode.COLUMN_DROPPED: GuideEntry(
        "a column of the query was dropped meanwhile", "run the query again without it"
    ),
    ErrorCode.CYCLIC_VIEW: GuideEntry(
        "the view would read itself, directly or through other views",
        "read the tables instead of those views",
    ),
    ErrorCode.GENERATION_CHANGED: GuideEntry(
        "the cluster was recovered from an older state while the request ran",
        "run the query or the write again",
    ),
    ErrorCode.NOT_IN_A_VIEW: GuideEntry(
        "the SELECT of a view uses an expression that a view can't hold",
        "use tables, columns and functions that Leasehold knows",
    ),
    ErrorCode.NOT_ON_THIS_ENGINE: GuideEntry(
        "the query engine, DuckDB or Spark, can't run this SELECT or view",
        "run it in the other engine; the hint names the call",
    ),
    ErrorCode.NO_COLUMN_NAME: GuideEntry("a column of a view has no name", "write AS name after the expression"),
    ErrorCode.QUERY_FAILED: GuideEntry("DuckDB failed on the query", "CAST the values where their types differ"),
    ErrorCode.QUERY_TOO_LARGE: GuideEntry(
        "the query needs more memory than it may use",
        "allow more memory, read fewer rows or columns, or run it in Spark",
    ),
    ErrorCode.ROWS_TAKEN_AWAY: GuideEntry(
        "rows of the table were deleted or expired while the query read them",
        "run the query again",
    ),
    ErrorCode.SEGMENTS_LOST: GuideEntry(
        "rows of the table are lost, because all nodes that held them were removed",
        "run `leasehold forget-lost TABLE` to give them up, then write the rows again",
    ),
    ErrorCode.SELECT_TOO_LONG: GuideEntry("the text of a SELECT is too long", "split the SELECT into several views"),
    ErrorCode.TABLE_DROPPED: GuideEntry(
        "the table was dropped, or another table has its name now",
        "look up the table again: SHOW TABLES lists what exists",
    ),
    ErrorCode.TOO_MANY_TABLES: GuideEntry(
        "a SELECT reads too many tables and views", "read fewer tables in one SELECT"
    ),
    ErrorCode.TOO_MANY_VIEWS: GuideEntry("a view reads too many other views", "read the tables instead of those views"),
    ErrorCode.VIEW_DROPPED: GuideEntry("the view was dropped", "look up the view again: SHOW VIEWS lists what exists"),
    ErrorCode.VIEW_NEEDS_IT: GuideEntry(
        "views read the object that the statement would change or drop",
        "drop or change those views first, or write CASCADE to drop them too",
    ),
    ErrorCode.VIEW_TOO_DEEP: GuideEntry("views read each other too deeply", "read the tables instead of views on them"),
}
