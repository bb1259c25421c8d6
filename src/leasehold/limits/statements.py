"""Bounds of statements: names, columns, views, texts, answers, what is kept of those that ended."""

from typing import Final

from leasehold.limits.messages import VALUE_BYTES_MAX
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

IDENTIFIER_CHARACTERS_MAX: Final = 128
STATEMENT_CHARACTERS_MAX: Final = 1_000_000
COLUMNS_MAX: Final = 2_000
BUCKETS_MAX: Final = 1_024
REPLICATION_MAX: Final = 7
REPLICATION_FOR_TWO: Final = 3
"""A table with at least this many replicas is written with two holders or more, unless `min_in_sync` says otherwise."""
DECIMAL_PRECISION_MAX: Final = 38
PROPERTY_CHARACTERS_MAX: Final = 1_024
PROPERTIES_MAX: Final = 64
COMMENT_CHARACTERS_MAX: Final = 1_024
"""Of the comment on a database, table, view or column."""
STATEMENT_WORDS_MAX: Final = 100_000
"""Words and signs, those within quotes included: reading a statement takes about a second at most."""
VIEW_NESTING_MAX: Final = 32
"""Brackets within brackets in the SELECT of a view."""
VIEW_BODY_CHARACTERS_MAX: Final = 20_000
"""Of the SELECT of a view, as it is written."""
VIEW_COLUMNS_EXPANDED_MAX: Final = 5_000
"""Columns that all `*` in the SELECT of a view stand for, its subqueries included."""
VIEW_COLUMNS_JOINED_MAX: Final = 100_000
"""Columns of all that the SELECT of a view reads, its subqueries included, each as often as it is named."""
VIEW_NODES_MAX: Final = 50_000
"""Nodes of the syntax tree of a view's SELECT with its names written out: checking it takes a few seconds at most."""
VIEW_DEPTH_MAX: Final = 16
"""Views that read views, one above the other."""
VIEW_NEEDS_MAX: Final = 10_000
"""Tables and views that are named by a view and by all views below it. A plan looks at each of them, for some
microseconds."""
QUERY_TABLES_MAX: Final = 100
"""Tables that one SELECT reads, those of its views included."""
INSERT_ROWS_MAX: Final = 1_000
"""Of one INSERT; more rows are appended as Arrow."""
NEAREST_CHARACTERS_MAX: Final = 64
NEAREST_COMPARED_MAX: Final = 8
"""Names that are compared letter by letter."""
NEAREST_NAMES_MAX: Final = 1_000
"""Names that a mistyped one is compared with, in some milliseconds."""
NAMES_IN_ERROR_MAX: Final = 5
"""Of a list of names, in the text of an error."""
DURATION_CHARACTERS_MAX: Final = 64
DURATION_NS_MAX: Final = 2**63 - 1
DESCRIPTION_BYTES_MAX: Final = VALUE_BYTES_MAX - 1024
"""Of a database, table or view as people describe it; the rest is for its state, so that it can always be dropped."""
STATEMENTS_KEPT: Final = 10_000
"""Finished statements whose outcome is kept."""
TRANSACTIONS_KEPT: Final = 10_000
"""Ended write transactions whose id is still known."""
CONDITIONS_MAX: Final = 16
"""Comparisons in the WHERE of one DELETE."""
FILTERS_MAX: Final = 64
"""Conditions on the rows of one scan."""
FILTER_VALUES_MAX: Final = 1_024
"""Values of all of them together."""
REPLACED_VALUES_MAX: Final = 10_000
"""The same of the rows that one write replaces."""
FILTER_BYTES_MAX: Final = 256 * 1024
"""Of these values, which each ticket of the scan carries."""
STATEMENT_REMEMBERED_NS: Final = 60 * SECOND_NS
"""How long the outcome of a statement is kept at least, however many end meanwhile (`core.ddl.outcomes`)."""
STATEMENT_TEXT_BYTES_KEPT: Final = 2_048
"""Of a statement's text in its records, in memory and in UTF-8: each character counts as the widest one of the text.
10,000 such records take some 40 MiB in each process."""
UNRECORDED_TEXT_BYTES_KEPT: Final = 256
"""The same of a statement that was refused or had nothing to do, once it is answered."""
STATEMENT_TEXT_COMPARED: Final = 4_096
"""Characters that records of older versions keep, which have no hash of the text."""
PURGE_BATCH: Final = 256
"""Ended statements or write transactions forgotten at once, so that finding the oldest costs little each."""
PROGRESS_INTERVAL_NS: Final = 250 * MILLISECOND_NS
"""How often a waiting client hears which nodes its statement waits for."""
RECEIPTS_PAGE_MAX: Final = 1_000
HISTORY_ROWS_MAX: Final = 1_000
"""Newest statements that SHOW HISTORY lists."""
STATEMENTS_RUNNING_MAX: Final = 4_096
"""Statements that run or wait at a leader, also those whose clients have gone."""
USER_STATEMENTS_RUNNING_MAX: Final = 512
"""The same of one user. Waiting for the same object, so many take some 5 s."""
USER_CASCADES_MAX: Final = 32
"""Those of one user with CASCADE: each waits for all statements about views, and they for it."""
STATEMENTS_RUNNING_BYTES_MAX: Final = 64 * 1024 * 1024
"""What these statements take in memory, as texts and as parsed forms."""
USER_STATEMENTS_RUNNING_BYTES_MAX: Final = 24 * 1024 * 1024
"""The same of one user."""
ROWS_PAGE_MAX: Final = 5_000
"""Rows of the answer to a SHOW in one message; the rest follows in further ones."""
ROWS_PAGE_CHARACTERS_MAX: Final = 1_000_000
"""Of a page of several rows: at four bytes each they stay well below a message."""
LARGE_STATEMENT_NS: Final = SECOND_NS
"""How long a statement that changes many records keeps the next such statement from its beginning, at most."""
INLINE_EFFORT_MAX: Final = 100
"""A question that looks at more rows, columns, buckets and segments is answered on a thread. They take up to 30 us
each."""
CASCADE_OBJECTS_MAX: Final = 1_000
"""Databases, tables and views that one statement drops."""
CASCADE_RECORDS_MAX: Final = 20_000
"""Their buckets, DELETEs and rights, which all go in one transaction."""
CASCADE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of their descriptions, which one transaction marks."""
LITERAL_CHARACTERS_MAX: Final = 1_024
"""Of a default or of a value in a condition; as many bytes of a BINARY."""
PARSE_INLINE_CHARACTERS: Final = 128
"""A longer statement is parsed on a thread of its own: signs and conditions take 3 ms for each 1,000 characters."""
LARGE_STATEMENT_CHARACTERS: Final = 10_000
"""A longer statement is not parsed for a user without any right."""
CHANGES_COMMITS_MAX: Final = 1_000
"""In one answer about changes: the commit time of each is looked up."""
CLOSE_GATHER_NS: Final = 50 * MILLISECOND_NS
"""How long the receipt of an answered statement waits for others, to be written with them."""
PARSE_KEPT_CHARACTERS: Final = 128
PARSED_STATEMENTS_KEPT: Final = 500
PARSES_PER_USER_MAX: Final = 2
"""Large statements of one user that wait for the thread, however large they are. With a further one, all that wait may
have PARSES_PER_USER_CHARACTERS together, else it is refused as BUSY."""
PARSES_PER_USER_CHARACTERS: Final = 10_000
PARSE_COUNTED_CHARACTERS: Final = 150
"""A shorter text counts as this many characters."""
PARSES_WAITING_MAX: Final = 1_024
"""Large statements of all users that wait to be parsed."""
SHARED_ANSWER_REST: Final = 4
"""The state of many nodes takes a fifth of the event loop at most: so many times as long as an answer takes there is
none (`coordinator/shared_answer.py`)."""
SHARED_ANSWER_AT_ONCE_MAX: Final = 16
"""Callers who get it in one turn of the event loop."""
