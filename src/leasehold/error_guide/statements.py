"""Codes of SQL statements."""

from leasehold.error_codes import ErrorCode
from leasehold.error_guide.entry import GuideEntry

STATEMENTS = {
    ErrorCode.ALREADY_EXISTS: GuideEntry(
        "the name is taken",
        "choose another name; CREATE .. IF NOT EXISTS accepts what exists",
    ),
    ErrorCode.BAD_BUCKETS: GuideEntry(
        "the number of buckets is not a whole number in its range",
        "write INTO n BUCKETS with a number that the message allows",
    ),
    ErrorCode.BAD_COMMENT: GuideEntry("a comment is too long", "shorten the comment"),
    ErrorCode.BAD_DURATION: GuideEntry("a duration can't be read", "write a number and a unit, as in 90s, 5m or 1h30m"),
    ErrorCode.BAD_IDENTIFIER: GuideEntry(
        "a name is not allowed for a database, a table, a view or a column",
        "use letters, digits and _, with no digit first; write a table as database.table",
    ),
    ErrorCode.BAD_NAME: GuideEntry(
        "a name is not allowed for a node or for a table",
        "name a table as database.table; use letters, digits, '.', '_' and '-' for a node",
    ),
    ErrorCode.BAD_PLACE: GuideEntry("a column can't be moved to that place", "name another column after AFTER"),
    ErrorCode.BAD_PROPERTY: GuideEntry(
        "a table property is unknown, or its value is not allowed",
        "choose a property and a value that the hint names",
    ),
    ErrorCode.BAD_SETTING: GuideEntry(
        "the value of a cluster setting is not allowed",
        "choose a value in the range that SHOW CLUSTER shows",
    ),
    ErrorCode.BAD_STATEMENT: GuideEntry(
        "the SQL text can't be parsed, or it is not a statement of Leasehold",
        "correct the statement at the place that the message names",
    ),
    ErrorCode.BAD_TEXT: GuideEntry(
        "the text of a statement is not in the expected encoding", "encode the text in UTF-8"
    ),
    ErrorCode.BAD_TIMEOUT: GuideEntry("the timeout of a statement is zero or negative", "give a longer timeout"),
    ErrorCode.BAD_TYPE: GuideEntry(
        "a column type is unknown or can't be used here", "choose one of the types in the hint"
    ),
    ErrorCode.BAD_VALUE: GuideEntry(
        "a value is not of the type of its column",
        "write a value of that type, which is not NULL in a condition",
    ),
    ErrorCode.COLUMN_COUNT: GuideEntry(
        "a row, a UNION or a list of names has another number of columns than it needs",
        "give each column one value or one name",
    ),
    ErrorCode.COLUMN_IN_USE: GuideEntry(
        "the table needs this column for its buckets, its time to live or a DELETE",
        "run `leasehold rewrite TABLE` if a DELETE needs it; otherwise copy the rows to a table without it",
    ),
    ErrorCode.DUPLICATE_COLUMN: GuideEntry(
        "two columns have the same name; upper and lower case do not distinguish names",
        "give each column its own name",
    ),
    ErrorCode.FIXED_SETTING: GuideEntry(
        "the setting exists but can't be changed",
        "choose one of the settings that SHOW CLUSTER lists",
    ),
    ErrorCode.IS_TABLE: GuideEntry("the statement needs a view, and the name is that of a table", "name a view"),
    ErrorCode.IS_VIEW: GuideEntry("the statement needs a table, and the name is that of a view", "name a table"),
    ErrorCode.LAST_COLUMN: GuideEntry("the column is the only column of its table", "drop the table instead"),
    ErrorCode.NARROWING: GuideEntry(
        "the new type of a column can't hold all values of the old type",
        "choose a wider type, or add a column",
    ),
    ErrorCode.NEEDS_DEFAULT: GuideEntry(
        "a NOT NULL column needs a value for the rows that exist",
        "add the column with NOT NULL DEFAULT value",
    ),
    ErrorCode.NOT_EMPTY: GuideEntry(
        "the database still holds tables or views",
        "drop them first, or write CASCADE to drop them too",
    ),
    ErrorCode.NOT_FOUND: GuideEntry(
        "no object has this name",
        "look up the name: SHOW DATABASES, SHOW TABLES, SHOW VIEWS and SHOW NODES list what exists",
    ),
    ErrorCode.NOT_NULL_ADDED: GuideEntry(
        "a NOT NULL column can't be added without a value for the rows that exist",
        "add the column with NOT NULL DEFAULT value",
    ),
    ErrorCode.NO_CONDITION: GuideEntry("a DELETE has no condition", "add WHERE; DROP TABLE deletes all rows at once"),
    ErrorCode.NO_PROCEDURE: GuideEntry("no procedure has this number", "look up the number with SHOW PROCEDURES"),
    ErrorCode.NO_STATEMENT: GuideEntry(
        "no statement with this id is known: it never changed anything, or it ended long ago",
        "check with SHOW TABLES or DESCRIBE before you run the statement again",
    ),
    ErrorCode.NO_SUCH_COLUMN: GuideEntry("no column has this name", "look up the columns with DESCRIBE"),
    ErrorCode.NO_SUCH_SETTING: GuideEntry("no setting has this name", "look up the settings with SHOW CLUSTER"),
    ErrorCode.NO_TIME_COLUMN: GuideEntry(
        "the table has no time column, so its rows can't expire",
        "create a table with TBLPROPERTIES ('time_column' = '..') and copy the rows",
    ),
    ErrorCode.OTHER_DATABASE: GuideEntry(
        "a table or view can't move to another database",
        "keep the database in RENAME TO, or create the object there and drop this one",
    ),
    ErrorCode.PAST_RETURN: GuideEntry(
        "the statement is past its point of no return and can't be cancelled",
        "wait until it ends; SHOW HISTORY shows its outcome",
    ),
    ErrorCode.ROLLED_BACK: GuideEntry(
        "the statement was cancelled or ran out of time, and nothing changed",
        "run the statement again, with a longer --timeout if that was the reason",
    ),
    ErrorCode.SETTING_TWICE: GuideEntry("a statement sets the same setting twice", "write each setting once"),
    ErrorCode.STATEMENT_ID_USED: GuideEntry(
        "the statement id belongs to another statement",
        "draw a new id for each statement",
    ),
    ErrorCode.TOO_LARGE: GuideEntry(
        "the change is too large for one transaction", "split the change into smaller parts"
    ),
    ErrorCode.TOO_MANY_COLUMNS: GuideEntry(
        "a table, a view or a SELECT has too many columns",
        "use fewer columns, or several tables or views",
    ),
    ErrorCode.TOO_MANY_CONDITIONS: GuideEntry("a DELETE has too many conditions", "split it into several DELETEs"),
    ErrorCode.TOO_MANY_DELETES: GuideEntry(
        "the files of the table hold rows of too many DELETEs",
        "run `leasehold rewrite TABLE`, which removes deleted rows from the files, then delete again",
    ),
    ErrorCode.TOO_MANY_ROWS: GuideEntry(
        "an INSERT has too many rows",
        "split the INSERT, or append the rows as Arrow data with `cluster.table(name).append(rows)`",
    ),
    ErrorCode.UNDER_WAY: GuideEntry(
        "another statement or rewrite works on the same table or view",
        "run it again when SHOW PROCEDURES no longer shows that statement",
    ),
}
