"""Every bound of the system, named, with its unit at the end; relations between them are asserted.

Durations are integers of nanoseconds, sizes are bytes.
"""

from typing import Final

MILLISECOND_NS: Final = 1_000_000
SECOND_NS: Final = 1_000_000_000

# Lease (DESIGN section 7).
DRIFT_PPM: Final = 10_000
"""A clock gains or loses at most this many parts in a million (1 %)."""
LEASE_DURATION_NS: Final = 3 * SECOND_NS
LEASE_MARGIN_NS: Final = 500 * MILLISECOND_NS
RENEWAL_INTERVAL_NS: Final = 500 * MILLISECOND_NS
BOUND_SLACK_NS: Final = 400 * MILLISECOND_NS
"""What the published bound allows for transactions, round trips and scheduling."""
LEASE_DURATION_MIN_NS: Final = 1_600 * MILLISECOND_NS
LEASE_DURATION_MAX_NS: Final = 600 * SECOND_NS
LEASE_MARGIN_MIN_NS: Final = 100 * MILLISECOND_NS
LEASE_MARGIN_MAX_NS: Final = 10 * SECOND_NS
RENEWALS_OUTSTANDING_MAX: Final = 64
"""A grant for a renewal older than the last so many is ignored."""

assert LEASE_DURATION_MIN_NS < LEASE_DURATION_NS < LEASE_DURATION_MAX_NS
assert RENEWAL_INTERVAL_NS * 3 < LEASE_DURATION_MIN_NS, "a lease must outlast two lost renewals"
assert LEASE_MARGIN_MIN_NS < LEASE_MARGIN_NS < LEASE_MARGIN_MAX_NS

# Leadership (DESIGN section 4).
LEADERSHIP_DURATION_NS: Final = 3 * SECOND_NS
LEADERSHIP_BEAT_NS: Final = 500 * MILLISECOND_NS
LEADERSHIP_MARGIN_NS: Final = 500 * MILLISECOND_NS
"""Added to a challenger's wait, for timers that fire late."""
LEADER_POLL_NS: Final = 500 * MILLISECOND_NS
"""How often a coordinator that stands by looks at the leader record."""
LEADER_RETRY_NS: Final = 200 * MILLISECOND_NS
"""How long a coordinator that lost its leadership, or its meta storage, waits before it stands again."""

assert LEADERSHIP_BEAT_NS * 3 < LEADERSHIP_DURATION_NS, "a leadership must outlast two lost beats"

# Names and statements.
IDENTIFIER_CHARACTERS_MAX: Final = 128
STATEMENT_CHARACTERS_MAX: Final = 1_000_000
COLUMNS_MAX: Final = 2_000
BUCKETS_MAX: Final = 1_024
REPLICATION_MAX: Final = 7
REPLICATION_FOR_TWO: Final = 3
"""A table with so many replicas or more is written with two holders at least, unless `min_in_sync` says otherwise."""
DECIMAL_PRECISION_MAX: Final = 38
NODES_MAX: Final = 1_024
"""Nodes that are not removed."""
NODE_IDS_MAX: Final = 16 * NODES_MAX
"""Ids that a cluster ever gives out: those of removed nodes stay as records of a few hundred bytes, so that neither the
number nor its token is used again. That is 3.4 MB in the store and in a snapshot, and 6.6 MB in each process."""
PROPERTY_CHARACTERS_MAX: Final = 1_024
PROPERTIES_MAX: Final = 64
COMMENT_CHARACTERS_MAX: Final = 1_024
"""Of what describes a database, table, view or column."""
STATEMENT_WORDS_MAX: Final = 100_000
"""Words and signs, those within quotes included: it bounds the time to read a statement to about a second."""
VIEW_NESTING_MAX: Final = 32
"""Brackets within brackets in the SELECT of a view."""
VIEW_BODY_CHARACTERS_MAX: Final = 20_000
"""Of the SELECT of a view, as it is written."""
VIEW_COLUMNS_EXPANDED_MAX: Final = 5_000
"""What every `*` in the SELECT of a view may stand for, its subqueries included."""
VIEW_COLUMNS_JOINED_MAX: Final = 100_000
"""Of all that the SELECT of a view reads, its subqueries included, each counted as often as it is named."""
VIEW_NODES_MAX: Final = 50_000
"""Nodes of the syntax tree of a view's SELECT once its names are written out: it bounds the time to check it to a few
seconds."""
VIEW_DEPTH_MAX: Final = 16
"""A view reads views that read views .. so deep."""
QUERY_TABLES_MAX: Final = 100
"""Tables that one SELECT reads, those of its views included."""
INSERT_ROWS_MAX: Final = 1_000
"""Of one INSERT: more rows are appended as Arrow."""
NEAREST_NAMES_MAX: Final = 1_000
"""Names that a mistyped one is compared with: it bounds the time for it to some milliseconds."""
NAMES_IN_ERROR_MAX: Final = 5
"""Of a list of names, in the text of an error."""
DURATION_CHARACTERS_MAX: Final = 64
DURATION_NS_MAX: Final = 2**63 - 1

assert 10 * COLUMNS_MAX + PROPERTIES_MAX * PROPERTY_CHARACTERS_MAX < STATEMENT_WORDS_MAX, "the widest table fits"

# Messages and queues.
MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
VALUE_BYTES_MAX: Final = 1024 * 1024
KEY_BYTES_MAX: Final = 1024
DESCRIPTION_BYTES_MAX: Final = VALUE_BYTES_MAX - 1024
"""Of a database, table or view as people describe it: the rest is for its state, so that it can always be dropped."""
TRANSACTION_OPERATIONS_MAX: Final = 100_000
RANGE_PAGE_MAX: Final = 1_000
WATCH_QUEUE_REVISIONS_MAX: Final = 10_000
COMMAND_QUEUE_MAX: Final = 4_096
COMMANDS_PER_TRANSACTION_MAX: Final = 256
STATEMENTS_KEPT: Final = 10_000
"""Finished statements whose outcome can still be asked for by id."""
TRANSACTIONS_KEPT: Final = 10_000
"""Ended write transactions whose idempotency key is still known."""

assert VALUE_BYTES_MAX < MESSAGE_BYTES_MAX

# Meta storage.
META_STORAGE_BYTES_MAX: Final = 8 * 1024 * 1024 * 1024
TRANSACTION_BYTES_MAX: Final = 15 * 1024 * 1024
"""Of the keys and values of one branch, each change's framing included: a revision travels whole in one message."""
CHANGE_FRAMING_BYTES: Final = 32
RANGE_PAGE_BYTES_MAX: Final = 8 * 1024 * 1024
"""A page ends early once it holds so much."""
RANGE_VERSIONS_PER_KEY: Final = 4
"""A range reads so many versions for each key of a page one after the other; where there are more it goes from key to
key, which takes four times as long for each."""
REPLAY_REVISIONS_MAX: Final = 1_000
"""How many revisions one read of the history spans."""
REPLAY_BYTES_MAX: Final = 8 * 1024 * 1024
COMPACTION_SLICE_ROWS: Final = 1_000
"""Compaction deletes in slices of so many rows, so that no transaction waits long behind it."""
COMPACTION_PAUSE_NS: Final = 5 * MILLISECOND_NS
"""So long nobody asks for anything before a slice, unless there was a transaction since the last one."""
CHECKPOINT_COMMITS: Final = 256
"""The write-ahead log is folded into the file after so many commits, between two answers."""
CHECKPOINT_PAGES_MAX: Final = 10_000
"""It is folded at once when it has grown to so many pages."""
QUICK_CHECK_BYTES_MAX: Final = 16 * 1024 * 1024
"""A file up to this size is checked whole when it is opened."""

assert VALUE_BYTES_MAX < RANGE_PAGE_BYTES_MAX < MESSAGE_BYTES_MAX
assert VALUE_BYTES_MAX + KEY_BYTES_MAX < TRANSACTION_BYTES_MAX < MESSAGE_BYTES_MAX

# Data.
BATCH_ROWS: Final = 65_536
BATCH_VALUES_MAX: Final = 32 * BATCH_ROWS
"""Of all columns of a batch that a scan decodes: a wide table is read in batches of fewer rows."""
SEGMENT_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
ROW_GROUP_ROWS: Final = 1_048_576
SEGMENTS_PER_COMMIT_MAX: Final = 4_096
PLANNED_SEGMENT_BYTES_MIN: Final = 190
"""No segment takes less of a plan: of a table that has too many for one message, none is looked at."""
PLANNED_SEGMENT_BYTES_MAX: Final = 320
"""Nor more, without its statistics."""
TABLE_SEGMENTS_MAX: Final = 40_000
"""Segments that commits make of one table at most, so that a plan can name them all."""
SMALL_SEGMENT_BYTES: Final = 1024 * 1024
SMALL_SEGMENTS_MIN: Final = 16
"""A rewrite joins segments that are smaller, where a bucket has so many of them."""
DELETES_MAX: Final = 64
"""DELETEs of one table that hide rows of its files; a rewrite makes room for more."""
DELETE_CHECKS_MAX: Final = 4_000
"""Segments held against DELETEs in one decision of a leader; a DELETE beyond that counts as concerning some, until
housekeeping has looked."""
CONDITIONS_MAX: Final = 16
"""Comparisons in the WHERE of one DELETE."""
REPLACED_KEPT_NS: Final = 600 * SECOND_NS
"""Segments that a rewrite replaced stay for so long, for scans that were planned before."""
REWRITE_EXPIRED_PERCENT: Final = 10
"""A segment is rewritten once about so many of its rows have expired."""
REWRITE_PORTION_BYTES: Final = 256 * 1024 * 1024
"""Of segments that one write transaction of a rewrite replaces, or a single larger one."""
REWRITE_PORTION_SEGMENTS: Final = 256
REWRITE_PLAN_SEGMENTS_MAX: Final = 4_096
"""A larger rewrite is planned in several parts."""
REWRITE_ATTEMPTS: Final = 16
"""How often a rewrite plans anew, without having replaced anything, because the table changed meanwhile."""
REWRITE_WAIT_NS: Final = 60 * SECOND_NS
"""How long a rewrite waits, without having replaced anything, for statements that take something away."""
TRANSACTION_TTL_NS: Final = 600 * SECOND_NS
"""An open write transaction is aborted after so long without an end."""
SCHEMA_WAIT_NS: Final = 2 * SECOND_NS
"""How long a node waits for a revision that the client has already seen."""
SERVE_LOG_FILE_BYTES_MAX: Final = 32 * 1024 * 1024
SERVE_LOG_FILES_MAX: Final = 4
FORWARD_CHUNK_BYTES: Final = 1024 * 1024

# Client.
CONNECT_TIMEOUT_NS: Final = 5 * SECOND_NS
CALL_TIMEOUT_NS: Final = 30 * SECOND_NS
STATEMENT_RESOLVE_NS: Final = 30 * SECOND_NS
"""How long a client asks by statement id before it says that the outcome is unknown."""
STATEMENT_REMEMBERED_NS: Final = 60 * SECOND_NS
"""So long after its end the outcome of a statement is kept, however many end meanwhile (`core.forgetting`)."""

assert 2 * STATEMENT_RESOLVE_NS <= STATEMENT_REMEMBERED_NS, "the last call of a client may wait as long as it asks"

SEALS_WAIT_NS: Final = 2 * SECOND_NS
"""A commit waits at most until its leader is so old for nodes that have not found this leader yet: their seals can't
be checked before."""
SEAL_POLL_NS: Final = 50 * MILLISECOND_NS

assert SEALS_WAIT_NS < CALL_TIMEOUT_NS, "who waits so hears the answer"

FORMAT_VERSION: Final = 1
"""Of a data directory; a newer one is refused."""
PROTOCOL_VERSION: Final = 1
PROTOCOL_VERSION_MIN: Final = 1

# Transport.
FAILURE_CHARACTERS_MAX: Final = 4_096
SESSION_SEND_MESSAGES_MAX: Final = 16_384
SESSION_SEND_BYTES_MAX: Final = 4 * MESSAGE_BYTES_MAX
SESSION_RECEIVE_MESSAGES_MAX: Final = 1_024
SESSION_SEND_WAIT_NS: Final = 100 * MILLISECOND_NS
"""How long a full send queue may take to drain before the session is given up."""
SESSION_END_GRACE_NS: Final = 250 * MILLISECOND_NS
"""How long the end of a session may take in order, before it is cut."""
KEEPALIVE_INTERVAL_NS: Final = SECOND_NS
KEEPALIVE_TIMEOUT_NS: Final = 1_500 * MILLISECOND_NS
RECONNECT_BACKOFF_MIN_NS: Final = 50 * MILLISECOND_NS
RECONNECT_BACKOFF_MAX_NS: Final = 200 * MILLISECOND_NS
CONNECT_ATTEMPT_NS: Final = SECOND_NS
CLOCK_SLEEP_STEP_NS: Final = SECOND_NS
"""A sleeper looks at the clock at least this often, so that a suspend delays it no further."""

assert WATCH_QUEUE_REVISIONS_MAX < SESSION_SEND_MESSAGES_MAX, "a whole watch backlog fits a session's queue"
assert KEEPALIVE_INTERVAL_NS + KEEPALIVE_TIMEOUT_NS < LEASE_DURATION_NS, "a dead peer is noticed within a lease"

# Local storage of a data node.
ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
"""An encoder holds so much Arrow data before it writes a row group, even if that has fewer than ROW_GROUP_ROWS."""
ENCODER_BATCHES_MAX: Final = 1_024
"""An encoder that holds more batches than this joins them, so that tiny batches cost no more memory than large ones."""
DICTIONARY_SAMPLE_ROWS: Final = 8_192
"""So many rows of a segment decide whether a dictionary pays for a column."""
STATISTIC_CHARACTERS_MAX: Final = 32
"""A longer string is cut to a bound of this length."""
SERVE_RECORD_BYTES_MAX: Final = 4_096
SERVE_LOG_PIECES_MAX: Final = 64
"""Files of one serve log where restarts left small ones; in bytes they stay below SERVE_LOG_FILES_MAX full ones."""

assert ROW_GROUP_BYTES < SEGMENT_BYTES_MAX
assert COLUMNS_MAX * (2 * 4 * STATISTIC_CHARACTERS_MAX + 140) < VALUE_BYTES_MAX, "a manifest entry holds all statistics"
assert SERVE_LOG_FILES_MAX <= SERVE_LOG_PIECES_MAX
STATEMENT_TEXT_KEPT: Final = 4_096
"""Characters of a statement's text that its records keep."""
PURGE_BATCH: Final = 256
"""Ended statements or write transactions forgotten at once, so that finding the oldest costs little each."""
SCAN_PAUSE_NS: Final = 100 * MILLISECOND_NS
"""Between two rounds over the replicas of a segment."""
LINEAGES_KEPT: Final = 10_000
"""Recent revisions whose hash a leader compares with what renewals report."""
SESSION_QUEUE_MESSAGES_MAX: Final = 4_096
"""What waits for one node; a node that reads no faster is cut off and comes back."""
PROGRESS_INTERVAL_NS: Final = 250 * MILLISECOND_NS
"""How often a waiting client is told whom its statement waits for."""
PROGRESS_SHOWN_NS: Final = 500 * MILLISECOND_NS
"""How often a command shows on a terminal how many rows it has read."""
RECEIPTS_PAGE_MAX: Final = 1_000
HISTORY_ROWS_MAX: Final = 1_000
"""Newest statements that SHOW HISTORY lists."""
HOUSEKEEPING_INTERVAL_NS: Final = 5 * SECOND_NS
"""How often a leader looks for write transactions that have expired."""
CATCH_UP_DIFFERENCE: Final = 100
"""A recovering node may lag so many revisions behind when it asks to be let into the logical topology."""
CLIENT_PATIENCE_NS: Final = STATEMENT_RESOLVE_NS
"""How long a client asks again while nobody answers who could, unless its caller gives a `timeout`."""
SCAN_GIVE_UP_NS: Final = CLIENT_PATIENCE_NS
LATE_ANSWER_NS: Final = 5 * SECOND_NS
"""How much longer than the timeout of a statement a client asks how that ended."""
RETRY_PAUSE_NS: Final = 100 * MILLISECOND_NS
"""Between two attempts to reach a coordinator."""
JOIN_ASK_AGAIN_NS: Final = 5 * SECOND_NS
"""A node whose join has to wait asks again after so long at the latest: the wait may have become shorter."""
JOIN_WAIT_TOLD_NS: Final = 30 * SECOND_NS
"""A node whose join has to wait says so in its log, and says it again after so long."""
CUT_OFF_TOLD_NS: Final = 10 * SECOND_NS
"""A node that no coordinator answers says so in its log, and says it again after so long."""
SURRENDER_WAIT_NS: Final = 1 * SECOND_NS
"""How long a node that stops in order waits to hear that its lease was taken back."""
VAULT_BATCH_REVISIONS_MAX: Final = 10_000
"""Revisions that the vault applies in one transaction."""
RECONCILE_INTERVAL_NS: Final = 500 * MILLISECOND_NS
"""How often a node compares its disk with its durable catalog."""
FETCH_ROUND_SEGMENTS_MAX: Final = 64
TRASH_ROUND_FILES_MAX: Final = 64
"""Trashed files deleted per round: deleting gives way to serving."""
LOCAL_NODES: Final = 3
LOCAL_NODES_MAX: Final = 32
VAULT_FULL_RETRY_NS: Final = SECOND_NS
"""How often a vault whose disk is full tries whether there is space again."""
DISK_TRIAL_NS: Final = SECOND_NS
"""How often a node whose disk is full tries whether there is space again."""
DISK_TRIAL_BYTES: Final = 64 * 1024
SILENT_SHOWN_NS: Final = 1_500 * MILLISECOND_NS
"""A node with an open session that has said nothing for so long, three renewals, is shown as silent."""
START_WATCH_NS: Final = 2 * SECOND_NS
"""How long a person's command watches whether a process that listens stays: what a coordinator refuses ends it."""
START_WAIT_NS: Final = 300 * SECOND_NS
"""How long a person's command waits by default until the processes that it starts serve, while they make progress."""
START_STALL_NS: Final = 60 * SECOND_NS
"""A process that is waited for and has neither used CPU time nor written to its log for so long is given up."""
START_TELL_NS: Final = 5 * SECOND_NS
"""How often a command says what it waits for."""
STOP_WAIT_NS: Final = 8 * SECOND_NS
"""How long a process may take to stop in order; then it is killed."""
SCAN_PARTITION_BYTES: Final = 32 * 1024 * 1024
"""Of segments on disk: about so much is read by one Spark task."""
SCAN_PARTITIONS_MIN: Final = 4
"""A small table is read by so many tasks, if it has as many segments."""
SCAN_PARTITIONS_MAX: Final = 1_024
JAVA_ANSWER_NS: Final = 10 * SECOND_NS
"""How long `java -version` may take."""

assert SCAN_PARTITIONS_MIN <= SCAN_PARTITIONS_MAX

# Flight.
TICKET_BYTES_MAX: Final = 1024 * 1024
FLIGHT_BATCH_BYTES: Final = 8 * 1024 * 1024
"""A larger batch is divided into parts of about so much."""
FLIGHT_PART_BYTES: Final = 1024 * 1024
"""Rows travel to a node in messages of about so much; a larger row travels in pieces."""
FLIGHT_MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A larger row is refused when it is written."""
FLIGHT_FAILURE_BYTES_MAX: Final = 1_024
"""Of the text of an error, and of its hint: all of it must fit into the headers of an answer."""
FLIGHT_CLIENTS_MAX: Final = 256
"""Addresses that a process keeps connections to."""
FLIGHT_KEEPALIVE_INTERVAL_NS: Final = 3 * SECOND_NS
FLIGHT_KEEPALIVE_TIMEOUT_NS: Final = 2 * SECOND_NS
"""A peer that does not answer for so long after such an interval is given up, even in the middle of a write."""
FLIGHT_SILENCE_NS: Final = 4 * FLIGHT_KEEPALIVE_INTERVAL_NS
"""A server of gRPC takes the fourth ping in a row for abuse if it has sent nothing meanwhile, and ends the call."""
FLIGHT_SHUTDOWN_NS: Final = 2 * SECOND_NS
"""How long streams under way may take to end once a node stops."""
FLIGHT_READS_MAX: Final = 256
FLIGHT_WRITES_MAX: Final = 32
"""Segments that a node encodes or takes from peers at once; each holds a row group and the queues to its peers."""
FLIGHT_WAITS_MAX: Final = 256
"""Calls that wait for a revision which a node does not show yet."""
FLIGHT_CALLERS_OPENING_MAX: Final = 8
"""Calls of users and nodes whose first message is read at the same time; further ones wait for their turn."""
FLIGHT_CALLERS_WAITING_MAX: Final = 512
FLIGHT_CALLERS_PATIENCE_NS: Final = 2 * SECOND_NS
"""While others wait, a call is cancelled whose first message has not come for so long."""
FLIGHT_STRANGERS_OPENING_MAX: Final = 4
"""The same for calls that don't say who calls; here also those that wait until the node has decided on the ticket."""
FLIGHT_STRANGERS_WAITING_MAX: Final = 128
FLIGHT_STRANGERS_PATIENCE_NS: Final = 100 * MILLISECOND_NS
FLIGHT_OPENING_NS: Final = 10 * SECOND_NS
"""A call whose turn it is and that has sent no message by then is cancelled, whoever waits."""
FLIGHT_IDLE_NS: Final = 60 * SECOND_NS
"""A call is cancelled whose client sends or takes no message for so long."""
FLIGHT_WATCH_NS: Final = 500 * MILLISECOND_NS
"""How often a server looks for calls to cancel."""
FLIGHT_CALLS_MAX: Final = 1_024
"""Calls that a node serves at once, each on a thread; others are refused."""
FLIGHT_HEADER_BYTES_MAX: Final = 2 * 1024 * 1024
"""Of a schema, or of what describes a batch."""
FLIGHT_RECEIVED_BYTES_MAX: Final = TICKET_BYTES_MAX + FLIGHT_HEADER_BYTES_MAX + 1024
"""The largest message that a node takes: a ticket and a schema, or what describes a batch and FLIGHT_PART_BYTES."""
FLIGHT_COPIES: Final = 4
"""How often gRPC holds a message that it receives, at the worst moment."""
FLIGHT_FIELDS_MAX: Final = 16
"""Fields in a message of the protocol, which has four."""
SEGMENTS_VERIFIED_MAX: Final = 16_384
"""Segment files whose whole checksum a process remembers to have found right."""
FORWARD_QUEUE_CHUNKS: Final = 16
FORWARD_STALL_NS: Final = 3 * SECOND_NS
"""A peer that takes nothing for so long while its queue is full is left out of the write, though its process answers
or `min_in_sync` needs it."""
FORWARD_FINISH_NS: Final = 5 * SECOND_NS
"""How long such a peer may take to sync and answer once this node has synced."""
FORWARD_PATIENCE_MIN_NS: Final = 100 * MILLISECOND_NS
"""A peer that is later than this node by so long has to answer a probe within the same time, or it is left out."""
FORWARD_PROBE_DELAY_NS: Final = 25 * MILLISECOND_NS
"""The same for a peer that has not said that it takes the file, which is probed earlier."""
FORWARD_SLOWER: Final = 4
"""Where this node's own sync takes longer, a peer may be so many times later."""
FORWARD_PATIENCE_MAX_NS: Final = 2 * SECOND_NS
FORWARD_PROBES: Final = 30
"""Probes in a row that a silent peer gets after a write found it silent, one in each FORWARD_PATIENCE_MIN_NS."""
FETCH_BASE_NS: Final = 10 * SECOND_NS
FETCH_BYTES_PER_SECOND_MIN: Final = 10 * 1024 * 1024
"""A copy slower than this is given up."""
SCAN_BATCH_TIMEOUT_NS: Final = LEASE_DURATION_NS
"""A replica that has sent nothing for so long is left for the next one; twice as long after each such round."""
SCAN_PLANS_MAX: Final = 5
"""How many plans a client makes for one query whose rows are taken away before it has shown any."""
QUERIES_MAX: Final = 10_000
"""Queries of Spark, for each table that they read, whose cutoff is kept."""
QUERY_KEPT_NS: Final = 3_600 * SECOND_NS
"""How long the cutoff of a query is kept after its last task has asked for it."""
QUERIES_AT_ONCE: Final = 1_000
"""So many of them are forgotten in one transaction."""
SCAN_STREAMS: Final = 4
"""Segments that one reader reads at once."""
SCAN_AHEAD_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of the batches of one segment that wait for the reader, beside what the window of gRPC holds; a larger one waits
alone."""
SCAN_DISCARDS_MAX: Final = 4
"""A client that learns of newer revisions faster than a batch travels throws away so many in a row for it."""
HEDGE_DELAY_MIN_NS: Final = 100 * MILLISECOND_NS
"""A replica that is silent for so long is not waited for alone: another one is asked as well."""
HEDGE_DELAY_FIRST_NS: Final = 300 * MILLISECOND_NS
"""The same, until a client has had its first answer."""
HEDGE_DELAY_MAX_NS: Final = 2 * SECOND_NS
HEDGE_SLOWER: Final = 4
"""Where answers usually take longer, silence is so many times as long as they take."""
HEDGE_BYTES_PER_SECOND: Final = 200 * 1024 * 1024
"""So fast a replica handles what it handles before it answers: a file that it verifies, rows that it encodes."""
HEDGE_EVERY: Final = 10
"""Of the requests of a client one in so many may be a hedge."""
HEDGE_BURST: Final = 10
"""Hedges that a client may send at once after it had needed none for a while."""
QUERY_MEMORY_BYTES: Final = 1024 * 1024 * 1024
"""What DuckDB may hold for one SELECT unless the caller says otherwise: the rest must be streamed."""
QUERY_THREADS_MAX: Final = 4
QUERY_BATCHES_AHEAD: Final = 1
"""Batches of an answer that wait for whoever reads it; DuckDB holds some MiB more."""
QUERY_STOP_NS: Final = 2 * SECOND_NS
"""How long whoever ends a query waits for its thread."""
QUERY_ROWS_SHOWN_MAX: Final = 200
"""Of an answer that is shown as a table."""
APPEND_BUFFER_BYTES: Final = 64 * 1024 * 1024
"""Rows that a writer gathers for each bucket before it sends them as a segment."""
APPEND_BUFFERS_BYTES_MAX: Final = 256 * 1024 * 1024
"""For all buckets together; twice as much is in memory while one load is sent and the next one gathered."""
APPEND_BATCHES_MAX: Final = 1_024
"""A writer that holds more batches than this joins them."""
APPEND_STREAMS: Final = 4
"""Segments that one writer sends at once."""
STAGE_CALL_NS: Final = 60 * SECOND_NS
FORWARD_CALL_NS: Final = STAGE_CALL_NS
"""A node forwards for as long as its client may write."""
STAGE_PAUSE_NS: Final = 100 * MILLISECOND_NS
"""Between two rounds over the replicas of a bucket."""

assert FLIGHT_BATCH_BYTES < FLIGHT_MESSAGE_BYTES_MAX
assert 2 * FLIGHT_STRANGERS_WAITING_MAX + FLIGHT_CALLERS_WAITING_MAX < FLIGHT_CALLS_MAX
assert 2 * (FLIGHT_READS_MAX + FLIGHT_WRITES_MAX) + FLIGHT_WAITS_MAX < FLIGHT_CALLS_MAX
assert max(FLIGHT_PART_BYTES, FORWARD_CHUNK_BYTES) <= TICKET_BYTES_MAX, "rows fit where a ticket does"
assert (
    FLIGHT_CALLERS_OPENING_MAX + FLIGHT_STRANGERS_OPENING_MAX
) * FLIGHT_COPIES * FLIGHT_RECEIVED_BYTES_MAX < 160 * 1024 * 1024, "what all first messages hold"
assert HEDGE_DELAY_MIN_NS < HEDGE_DELAY_FIRST_NS < HEDGE_DELAY_MAX_NS < SCAN_BATCH_TIMEOUT_NS
assert SCAN_AHEAD_BYTES_MAX > FLIGHT_BATCH_BYTES
assert SCAN_BATCH_TIMEOUT_NS * 2 < SCAN_GIVE_UP_NS, "a reader tries another replica before it gives up"
assert FORWARD_PROBE_DELAY_NS < FORWARD_PATIENCE_MIN_NS < FORWARD_PATIENCE_MAX_NS < FORWARD_STALL_NS
assert FORWARD_STALL_NS + FORWARD_FINISH_NS < STAGE_CALL_NS, "a peer's delay does not fail the write"
assert FORWARD_STALL_NS + FORWARD_FINISH_NS < FLIGHT_SILENCE_NS, "nor is the node taken for silent meanwhile"
STATEMENTS_RUNNING_MAX: Final = 4_096
OPEN_TRANSACTIONS_MAX: Final = 10_000
END_POLL_NS: Final = 20 * MILLISECOND_NS
"""How often a person's command looks whether a process has ended."""
TRANSACTION_RENEW_NS: Final = 60 * SECOND_NS
"""How often a writer asks for more time."""

assert TRANSACTION_RENEW_NS * 5 < TRANSACTION_TTL_NS
SEGMENT_ROWS_MAX: Final = 2**40
assert REWRITE_PORTION_SEGMENTS <= SEGMENTS_PER_COMMIT_MAX
assert TABLE_SEGMENTS_MAX * PLANNED_SEGMENT_BYTES_MAX + 3 * VALUE_BYTES_MAX < MESSAGE_BYTES_MAX, "columns come twice"
assert BUCKETS_MAX * SMALL_SEGMENTS_MIN * 2 < TABLE_SEGMENTS_MAX, "a full table has segments that a rewrite joins"
LEFTOVERS_AT_ONCE: Final = 1_024
"""Records that one transaction removes of what goes in slices: manifest entries behind a DROP, rights behind a DROP
USER, what a rewrite replaced."""
FOUND_INLINE_MAX: Final = 2_000
"""Records that housekeeping looks at on the loop that grants leases; more are looked at on a thread of its own."""
HORIZONS_AT_ONCE: Final = 1_024
"""Expiry horizons that one decision looks at."""
ROWS_PAGE_MAX: Final = 5_000
"""Rows of the answer to a SHOW that travel in one message; the rest follows in further ones."""
ROWS_PAGE_CHARACTERS_MAX: Final = 1_000_000
"""Of a page of several rows: at four bytes each they stay well below a message."""
SHOW_INLINE_ROWS_MAX: Final = 2_000
"""A SHOW that looks at more tables, segments, views or rights is put together on a thread of its own."""
CASCADE_OBJECTS_MAX: Final = 1_000
"""Databases, tables and views that one statement drops."""
CASCADE_RECORDS_MAX: Final = 20_000
"""Their buckets, DELETEs and rights, which all go in one transaction."""
CASCADE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of their descriptions, which one transaction marks."""
LITERAL_CHARACTERS_MAX: Final = 1_024
"""Of a default or of a value in a condition; as many bytes of a BINARY."""

assert CASCADE_RECORDS_MAX + 3 * CASCADE_OBJECTS_MAX < TRANSACTION_OPERATIONS_MAX
assert CASCADE_BYTES_MAX < TRANSACTION_BYTES_MAX
PARSE_INLINE_CHARACTERS: Final = 10_000
"""A longer statement is parsed on a thread of its own."""
VAULT_DELAY_NS: Final = 30 * MILLISECOND_NS
"""How long applied revisions wait for more before the vault writes them, out of the way of the renewal they cause."""
SEGMENTS_PER_REPORT_MAX: Final = 256
"""Segments that a node reports as held in one message: the leader changes a record for each."""
REPORT_GATHER_NS: Final = 200 * MILLISECOND_NS
"""How long a segment that was fetched waits for others to be reported with it."""
REPORT_REPEAT_NS: Final = 5 * SECOND_NS
"""A segment that was reported is left alone for so long; if the leader still does not know of it, it is told again."""
RECONCILE_REST_MIN_NS: Final = SECOND_NS
"""What a node failed to put right on its disk rests for so long, and twice as long after each further failure."""
RECONCILE_REST_MAX_NS: Final = 30 * SECOND_NS
RECONCILE_RESTS_KEPT: Final = 65_536
FETCH_REST_MIN_NS: Final = LEASE_DURATION_NS
"""A peer that failed or was slow is asked for nothing for so long, so that it delays one copy and not each."""
SESSION_REVISIONS_MAX: Final = SESSION_QUEUE_MESSAGES_MAX // 2
"""Revisions that wait for one node; the rest of its queue is for grants, which never wait."""
SESSION_REVISIONS_BYTES_MAX: Final = 4 * MESSAGE_BYTES_MAX

assert FETCH_ROUND_SEGMENTS_MAX <= RECONCILE_RESTS_KEPT, "what rests is remembered at least for a round"
assert SEGMENTS_PER_REPORT_MAX < TRANSACTION_OPERATIONS_MAX
assert TRANSACTION_BYTES_MAX < SESSION_REVISIONS_BYTES_MAX, "the largest revision fits"
ENCODED_REVISIONS_KEPT: Final = 4
"""Newest revisions whose encoded bytes are kept, for the next node that they go to."""
CLOSE_GATHER_NS: Final = 50 * MILLISECOND_NS
"""How long the receipt of an answered statement waits for others, to be written with them."""

# Where clients ask.
PLACE_REST_MIN_NS: Final = SECOND_NS
"""A replica that is fenced, gone or silent is asked last for so long, by the reader or writer that met it; twice as
long each time that it is met so again."""
PLACE_REST_MAX_NS: Final = 30 * SECOND_NS
CLUSTERS_KNOWN_MAX: Final = 16
"""Of so many clusters the tasks of one Python worker of Spark share what they know."""
PLACES_TIMEOUT_NS: Final = 2 * SECOND_NS
"""How long a reader or writer waits to hear where else its replicas are: the places it knows may serve again sooner."""
PLACES_AGAIN_NS: Final = 100 * MILLISECOND_NS
"""One reader or writer asks that no more often, however many streams it has."""
REASON_CHARACTERS_MAX: Final = 400
"""Of what each replica said, in the error of a reader or writer that gives up."""
TOLD_ADDRESS_CHARACTERS_MAX: Final = 60
"""Of each address that a fenced node names: those of a bucket's other replicas fit into one error."""

assert PLACES_TIMEOUT_NS < SCAN_GIVE_UP_NS
assert 160 + (REPLICATION_MAX - 1) * (TOLD_ADDRESS_CHARACTERS_MAX + 82) < FLIGHT_FAILURE_BYTES_MAX

# Users and logins.
PRINCIPALS_MAX: Final = 10_000
"""Users and roles."""
ROLES_PER_USER_MAX: Final = 64
PASSWORD_CHARACTERS_MAX: Final = 1_024
PASSWORD_TIME_COST: Final = 2
"""Passes of argon2id over its memory: a password costs about 50 ms and 19 MiB (OWASP's least, RFC 9106)."""
PASSWORD_MEMORY_KIB: Final = 19 * 1024
PASSWORD_LANES: Final = 1
PASSWORDS_AT_ONCE: Final = 2
"""Passwords that a leader hashes or checks at the same time."""
PASSWORDS_WAITING_MAX: Final = 128
"""Passwords that wait to be checked; the places are divided among lanes in core/password_queue.py."""
WRONG_PASSWORD_REST_MIN_NS: Final = 250 * MILLISECOND_NS
"""How late a wrong password is answered; twice as late after each further one of the same name."""
WRONG_PASSWORD_REST_MAX_NS: Final = 4 * SECOND_NS
WRONG_PASSWORD_RECENT_NS: Final = 60 * SECOND_NS
"""For how long a wrong password for a user's name keeps that name out of the places for users without one."""
WRONG_PASSWORDS_KEPT: Final = 4_096
"""Names of users, and as many other names, whose wrong passwords are counted."""
LOGINS_PER_USER_MAX: Final = 1_024
"""A further one ends the oldest of them."""
LOGINS_MAX: Final = 16_384
"""A further one ends the PURGE_BATCH oldest of all."""
LOG_OUT_TIMEOUT_NS: Final = 250 * MILLISECOND_NS
"""How long a client that closes may wait to have logged out: a courtesy, which holds nobody up."""
COORDINATOR_PROOF_NS: Final = SECOND_NS
"""How long a client relies on a coordinator's proof of itself before it asks for another one."""
LOGIN_TTL_NS: Final = 24 * 3600 * SECOND_NS
"""How long a login holds, counted by the leader that made it or found it."""

assert WRONG_PASSWORD_REST_MAX_NS < CALL_TIMEOUT_NS, "whoever waits hears the answer"

# Recovery and the logical topology (DESIGN sections 2 and 6).
RETENTION_NS: Final = 3600 * SECOND_NS
CLOCK_STEP_NS: Final = 600 * SECOND_NS
"""By how much the leader's wall clock may step ahead, by default, and still make rows expire."""
CLOCK_STEP_MIN_NS: Final = SECOND_NS
CLOCK_STEP_MAX_NS: Final = 36_500 * 24 * 3600 * SECOND_NS
CLOCK_DOWNTIME_MAX_NS: Final = 7 * 24 * 3600 * SECOND_NS
"""For how long a cluster may have had no leader, and the next one believes its wall clock without being told."""
RETENTION_MIN_NS: Final = SECOND_NS
RETENTION_MAX_NS: Final = 30 * 24 * 3600 * SECOND_NS
RETENTION_REVISIONS: Final = 200_000
RETENTION_REVISIONS_MIN: Final = 100
RETENTION_REVISIONS_MAX: Final = 100_000_000
CATCH_UP_DIFFERENCE_MAX: Final = 1_000_000
RETENTION_HOLD_NS: Final = 60 * SECOND_NS
"""A node that takes a snapshot holds the revisions after it for so long from its last page on."""
RETENTION_HOLDS_MAX: Final = NODES_MAX
COMPACTION_INTERVAL_NS: Final = 5 * SECOND_NS
"""How often a leader looks whether there is something to forget."""
TOPOLOGY_GRACE_NS: Final = 10 * SECOND_NS
"""A node whose connection has been gone for so long, and whose lease has ended, leaves the logical topology."""
SESSION_IDLE_NS: Final = 60 * SECOND_NS
"""A session, at whatever stage, of which nothing has been heard for so long is ended."""
SNAPSHOT_PAGE_BYTES_MAX: Final = 4 * 1024 * 1024
SNAPSHOT_TIMEOUT_NS: Final = 600 * SECOND_NS
RECOVERY_PROGRESS_NS: Final = 500 * MILLISECOND_NS
"""How often a recovering node tells how far it is."""
CAPABILITIES_MAX: Final = 32

assert RETENTION_MIN_NS <= RETENTION_NS <= RETENTION_MAX_NS
assert RETENTION_REVISIONS_MIN <= RETENTION_REVISIONS <= RETENTION_REVISIONS_MAX
assert SNAPSHOT_PAGE_BYTES_MAX + VALUE_BYTES_MAX < MESSAGE_BYTES_MAX
assert RETENTION_HOLD_NS > 10 * COMPACTION_INTERVAL_NS, "a node that is slow to ask for the next page keeps its hold"
assert SESSION_IDLE_NS > 20 * RENEWAL_INTERVAL_NS

# The vault.
VAULT_FORMAT_VERSION: Final = 2
"""Of the vault's file; 2 keeps a hash beside each item."""
VAULT_STAGED_KEYS_MAX: Final = 16_000_000
"""Of a snapshot that a vault takes in for a leap."""
VAULT_WHOLE_BYTES_MAX: Final = 16 * 1024 * 1024
"""A vault of up to so many bytes is checked whole when it is opened."""
VAULT_BUCKETS_CACHED_MAX: Final = 65_536
"""Buckets whose segments a process has read from its vault and keeps at hand, though they could be read again."""
BUCKET_PATCH_KEYS_MAX: Final = 256
"""Segments of a bucket that change before a process reads the bucket by itself; they are kept apart until then."""
VAULT_CACHE_BYTES: Final = 64 * 1024 * 1024
"""Of the vault's file that its database keeps in memory: keys of segments and transactions are random."""
VAULT_LOG_PAGES: Final = 4_096
"""Of the log (16 MiB) that a writer leaves before it moves them into the file; a start after a kill moves them."""
VAULT_SCRUB_ROWS: Final = 500
"""Items that one step of the check in the background reads."""
VAULT_SCRUB_INTERVAL_NS: Final = 500 * MILLISECOND_NS
"""Between two steps: a million keys take a quarter of an hour, and less than a hundredth of a core."""
VAULT_SCRUB_REST_NS: Final = 6 * 3600 * SECOND_NS
"""Between a whole check in the background and the next."""
VAULT_FINDINGS_MAX: Final = 100
"""That an integrity check lists."""

assert VAULT_STAGED_KEYS_MAX > VAULT_BATCH_REVISIONS_MAX
assert VAULT_SCRUB_INTERVAL_NS < VAULT_SCRUB_REST_NS

# The configuration of a process, and standalone mode.
CONFIG_BYTES_MAX: Final = 64 * 1024
CONFIG_SHOWN_MAX: Final = 200
"""Characters of what a person wrote that an error repeats."""
CONFIG_ADDRESSES_MAX: Final = 64
COORDINATORS_KNOWN_MAX: Final = 128
"""Coordinators that a node asks in turn: those it was given and those its vault remembers."""
NODE_WAIT_POLL_NS: Final = 250 * MILLISECOND_NS
CHECK_PROGRESS_NS: Final = SECOND_NS
"""How often a check of all segments tells how far it is."""
SEGMENTS_LISTED_MAX: Final = 1_000
"""Segments that standalone mode lists of each kind; all are counted."""
RESETS_MAX: Final = 1_000
"""Folders of earlier resets that a node's directory keeps, and of earlier adoptions."""
RESET_MARKER_BYTES_MAX: Final = 64

assert CONFIG_ADDRESSES_MAX < COORDINATORS_KNOWN_MAX, "what a node was given leaves room for what it remembers"

# The coordinator's side of recovery.
TOPOLOGY_LOOK_NS: Final = SECOND_NS
"""How often a leader looks for members that have to leave the logical topology."""
SESSION_OPENING_NS: Final = 10 * SECOND_NS
"""How long a stream may take until it says whose session it is."""
SNAPSHOTS_AT_ONCE: Final = 4
"""Nodes that take a snapshot from a leader at the same time; more are refused as BUSY and ask again."""
RETENTION_SAMPLES_MAX: Final = 1_024
"""What a leader remembers of when each revision was the newest."""
RECOVERY_WHY_CHARACTERS_MAX: Final = 200
"""Of what a node says of its recovery, as it is shown."""
UNJOINED_KEPT_NS: Final = 600 * SECOND_NS
"""An id whose node never joined is given up after so long: counted by the leader, from when it first knew of the id or
the node last asked."""
GIVEN_UP_AT_ONCE: Final = 256
"""Such ids that are given up in one transaction."""
ADOPT_POLL_NS: Final = 500 * MILLISECOND_NS
ADOPT_FORGET_NS: Final = 60 * SECOND_NS
"""Who asks for a node's incarnation after so long a pause begins to wait anew."""

assert PROTOCOL_VERSION_MIN <= PROTOCOL_VERSION
assert SESSION_OPENING_NS < SESSION_IDLE_NS
assert TOPOLOGY_LOOK_NS < TOPOLOGY_GRACE_NS
assert ADOPT_POLL_NS < ADOPT_FORGET_NS
assert GIVEN_UP_AT_ONCE < TRANSACTION_OPERATIONS_MAX
assert NODES_MAX < NODE_IDS_MAX

# What comes and goes with nodes: missing and evicted segments, placement, removal.
MISSING_ROUND_SEGMENTS_MAX: Final = 4_096
"""Segments that a node tells the leader it lacks in one comparison; the first one of a recovery tells them all."""
SIZES_AT_ONCE: Final = 1_024
"""Files whose size is looked up in one step."""
TRASH_FILES_PER_SECOND: Final = 128
TRASH_BYTES_PER_SECOND: Final = 256 * 1024 * 1024
"""What a node deletes of its trash for good: so much on average, whatever waits there."""
PLACED_AT_ONCE: Final = 256
"""Buckets that get another replica in one transaction."""
STRUCK_AT_ONCE: Final = 1_024
"""Manifest entries that a removed node is struck off in one transaction."""
STRUCK_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of these entries; one that is larger goes alone."""
REMOVALS_MAX: Final = 16
"""Removals of nodes that wait at once."""
LOST_TABLES_NAMED_MAX: Final = 5
"""Tables that the refusal of a removal names."""
ADOPT_WAIT_MAX_NS: Final = 1_300 * SECOND_NS
"""How long an adoption waits for the lease of the newest process to end."""
GENERATION_GAP: Final = 1_000_000
"""By so much at least every counter, incarnation and term jumps when a lost meta storage is recovered."""
NUMBERS_PER_SECOND: Final = 10
"""And by so much more for each second since the generation before began: more than a lost history gave out of each,
and a generation that began in the same restored state some seconds before this one."""
GENERATIONS_SINCE: Final = 1_735_689_600
"""2025, in seconds since 1970: when a cluster's first generation began at the earliest."""
ORIGINS_MAX: Final = 64
"""Beginnings of generations that a cluster remembers."""

assert TRASH_FILES_PER_SECOND * RECONCILE_INTERVAL_NS <= TRASH_ROUND_FILES_MAX * SECOND_NS, "a round takes its share"
assert SEGMENTS_PER_REPORT_MAX <= MISSING_ROUND_SEGMENTS_MAX
assert STRUCK_BYTES_MAX + VALUE_BYTES_MAX < TRANSACTION_BYTES_MAX
assert max(PLACED_AT_ONCE, STRUCK_AT_ONCE) < TRANSACTION_OPERATIONS_MAX
assert ADOPT_WAIT_MAX_NS > 2 * LEASE_DURATION_MAX_NS

# A node's own recovery.
RECOVERY_LEFT_MAX_NS: Final = 7 * 24 * 3600 * SECOND_NS
"""A guess of more time than this is none."""
FETCH_STALLED_NS: Final = 10 * SECOND_NS
"""Where no segment has come for so long, what has come before tells nothing of when the next one does."""
RECOVERY_LOG_NS: Final = 5 * SECOND_NS
"""How often the log of a recovering node says how far it is."""
BAD_SNAPSHOTS_MAX: Final = 3
"""So many snapshots in a row that were not what their sender counted end a node."""
SNAPSHOT_BUSY_REST_NS: Final = SECOND_NS
"""A leader that sends as many snapshots as it can is asked again after so long."""
COMPARISON_POLL_NS: Final = 20 * MILLISECOND_NS
"""How often a node that starts looks whether its disk can be compared already."""

assert RECOVERY_PROGRESS_NS < RECOVERY_LOG_NS
assert COMPARISON_POLL_NS < RECONCILE_INTERVAL_NS
assert SNAPSHOT_BUSY_REST_NS < RETENTION_HOLD_NS, "who is asked to come back keeps its hold"

# The physical topology (SWIM).
DATAGRAM_BYTES_MAX: Final = 1_400
"""Fits into one Ethernet frame with the headers of IPv6 and UDP."""
DATAGRAM_SEAL_BYTES: Final = 16
"""Of the HMAC-SHA256 at the end of a datagram."""
DATAGRAM_CLUSTER_BYTES: Final = 8
"""Of the cluster id's hash at the start of it."""
DATAGRAMS_QUEUED_MAX: Final = 4_096
"""That have arrived at a simulated member and were not looked at; the next ones are dropped. Really, in the kernel."""
DATAGRAMS_BATCH_MAX: Final = 64
"""Datagrams that are read one after the other."""
DATAGRAMS_REST_NS: Final = 10 * MILLISECOND_NS
"""How long none is read after a batch: so at most 6,400 a second are looked at, whoever sends how many."""
DATAGRAM_ADDRESSES_KEPT: Final = 4_096
"""Addresses whose numeric form is remembered."""
CLUSTER_KEY_BYTES: Final = 32
CLUSTER_KEY_FILE_BYTES_MAX: Final = 1_024
SWIM_PERIOD_NS: Final = 500 * MILLISECOND_NS
"""A member probes one other in each protocol period."""
SWIM_PING_TIMEOUT_NS: Final = 200 * MILLISECOND_NS
"""Without an answer for so long others are asked to ping for us."""
SWIM_NACK_NS: Final = 150 * MILLISECOND_NS
"""A member that was asked to ping says after so long that it has heard nothing, in time for who asked."""
SWIM_LATE_NS: Final = SWIM_PERIOD_NS
"""A member that runs so much later than it meant to was stopped or is overloaded, and judges nobody by that time."""
SWIM_HELPERS: Final = 3
"""Members that are asked to ping for us."""
SWIM_RELAYS_MAX: Final = 256
"""Pings that a member makes for others at the same time."""
SWIM_HEALTH_MAX: Final = 8
"""How bad a member may think of itself: its period and timeout grow up to one more times than this."""
SWIM_SUSPICION_PERIODS: Final = 4
"""The shortest suspicion, times the decimal logarithm of the number of members, in periods."""
SWIM_SUSPICION_STRETCH: Final = 6
"""A suspicion that nobody confirms lasts so many times the shortest."""
SWIM_CONFIRMATIONS: Final = 2
"""Further members that must suspect on their own before a suspicion is as short as can be."""
SWIM_SPREAD_NS: Final = 200 * MILLISECOND_NS
"""How often news is sent, beside what goes with pings and their answers, while there is any."""
SWIM_SPREAD_MEMBERS: Final = 3
SWIM_RETRANSMIT: Final = 4
"""A claim is sent so many times the decimal logarithm of the number of members."""
SWIM_SYNC_NS: Final = 10 * SECOND_NS
"""How often a member compares all it knows with another one."""
SWIM_SYNC_PAGES_MAX: Final = 32
"""Datagrams of one full answer: where more are needed, the next comparison goes on elsewhere."""
SWIM_SYNC_ANSWERS_MAX: Final = 16
"""Full answers that a member gives in one period."""
SWIM_SEED_RETRY_NS: Final = SECOND_NS
SWIM_SEEDS_MAX: Final = 64
SWIM_MEMBERS_MAX: Final = 2 * NODES_MAX
"""Those alive and those remembered as dead; further ones are not taken in."""
SWIM_DEAD_KEPT_NS: Final = 600 * SECOND_NS
"""How long dead members and those that left are remembered, so that older news can't revive them."""
SWIM_LEAVE_NS: Final = 3 * SWIM_SPREAD_NS
"""How long a member that leaves tells so."""
SWIM_LEAVE_MEMBERS: Final = 8
SWIM_INCARNATION_MAX: Final = 2**62

assert SWIM_PING_TIMEOUT_NS + SWIM_NACK_NS < SWIM_PERIOD_NS, "an indirect ping is answered within its period"
assert SWIM_SPREAD_NS < SWIM_PERIOD_NS < SWIM_SEED_RETRY_NS < SWIM_SYNC_NS < SWIM_DEAD_KEPT_NS
assert SWIM_PERIOD_NS * SWIM_SUSPICION_PERIODS >= 2 * SWIM_PERIOD_NS, "a suspect has time to hear of it and to refute"
assert SWIM_SEEDS_MAX >= CONFIG_ADDRESSES_MAX
assert DATAGRAMS_REST_NS < SWIM_PING_TIMEOUT_NS // 10, "a rest makes nobody late"

# Comparing a disk with a catalog that is large.
RECONCILE_SLICE_BUCKETS: Final = 32
"""Buckets that a node compares in one step."""
RECONCILE_SLICE_RECORDS: Final = 1_024
"""Records that a node looks at on its event loop before others have a turn."""
RECONCILE_ROUNDS_WHOLE: Final = 128
"""Rounds in which all is looked at once more, whether or not it seems to have changed: about a minute."""
RECONCILE_IN_TURN_MAX: Final = 64
"""Buckets that a round looks at for that: with 100,000 of them all have been looked at after a quarter of an hour."""
FOLDER_TICK_NS: Final = 2 * SECOND_NS
"""No file system counts the times of its folders more coarsely."""
RECONCILE_TRASH_MAX: Final = 1_024
"""Files that one round moves to the trash: then it compares again."""
LEAP_CHANGES_DECODED_MAX: Final = 20_000
"""A leap that changes more is followed by reading the vault anew, which leaves segments where they are."""

assert RECONCILE_TRASH_MAX >= TRASH_ROUND_FILES_MAX

# Statements that are parsed once.
PARSE_KEPT_CHARACTERS: Final = 500
PARSED_STATEMENTS_KEPT: Final = 500

assert PARSE_KEPT_CHARACTERS < PARSE_INLINE_CHARACTERS

# Repairing a directory while nothing is served.
REPAIRS_MAX: Final = 1_000
"""Folders of what repairs have moved, in one directory: a person deletes them."""

assert REPAIRS_MAX >= RESETS_MAX

# The log of a vault.
VAULT_BUSY_WAIT_MS: Final = 2_000
"""How long a write of the vault waits for another program that has its file open."""
VAULT_SYNCS_PER_CHECKPOINT: Final = 64
"""After so many syncs the log is moved into the file: a log that is lost takes no more than these."""

assert VAULT_BUSY_WAIT_MS * 1_000_000 < CALL_TIMEOUT_NS

# Asking to be let in.
RECOVERY_ASK_AGAIN_NS: Final = 5 * SECOND_NS
"""A node that has said that its recovery is finished says it again after so long without an answer."""

assert RECOVERY_PROGRESS_NS < RECOVERY_ASK_AGAIN_NS < SESSION_IDLE_NS

# The removal of a node, once its lease has ended.
RECOUNTED_MAX: Final = 2_000
"""Records that have changed since a census and are looked at on the loop that grants leases; after more there is a new
census, on a thread."""
REMOVAL_CENSUSES_MAX: Final = 16
COPIES_LACKED_MAX: Final = 100_000
"""Segments without a file that a leader remembers, of all nodes together; those beyond are not counted as lost."""
COPIES_NOTED_MAX: Final = 50_000
"""Entries of the manifest that may change while the segments with too few holders are counted, on a thread; after more
the count begins anew."""
"""Where so many are too old by the time the tombstone is decided, the removal is refused."""

assert RECOUNTED_MAX >= STRUCK_AT_ONCE, "what a leader writes behind a removal does not keep the next one from its end"

# What nodes report.
REPORTED_SEGMENTS_AT_ONCE_MAX: Final = 4 * SEGMENTS_PER_REPORT_MAX
"""Segments of reports that may share a transaction: deciding it takes some ten milliseconds, in which no grant goes
out."""
SESSION_REPORTS_BYTES_MAX: Final = MESSAGE_BYTES_MAX
"""What one node has reported and waits for its turn; what it says after that is read later."""
SESSION_RECEIVE_BYTES_MAX: Final = 4 * MESSAGE_BYTES_MAX

assert REPORTED_SEGMENTS_AT_ONCE_MAX < TRANSACTION_OPERATIONS_MAX
assert SNAPSHOT_PAGE_BYTES_MAX + VALUE_BYTES_MAX < SESSION_RECEIVE_BYTES_MAX

# Segments that a leader has read and not decoded.
UNREAD_CHECKED_AT_ONCE: Final = 1_000
"""Decoded in one step of their check, or those of one bucket: a few milliseconds on a thread."""
UNREAD_REST_NS: Final = 10 * MILLISECOND_NS
"""Between two steps: a million segments take a quarter of a minute."""

# What a coordinator takes in.
REQUEST_FRAME_BYTES_MAX: Final = 64 * 1024
"""Of one message to a coordinator as gRPC carries it; a larger request travels in several frames."""
REQUEST_BYTES_MAX: Final = 5 * 1024 * 1024
"""Of any request but a commit, which may take MESSAGE_BYTES_MAX."""
REQUESTS_BYTES_MAX: Final = 64 * 1024 * 1024
"""Requests in frames that a coordinator holds at the same time; a further one is answered BUSY before it is read."""
REQUEST_READ_NS: Final = 10 * SECOND_NS
"""How long a request may take to arrive, from its first byte on."""
REQUESTS_UNREAD_MAX: Final = 512
"""Requests that have begun and have not arrived; one more ends the oldest. Each may take a frame and some 24 KiB. Those
of honest clients arrive at once: of 5,000 asked at the same time 6 were unread."""
CALLS_PENDING_MAX: Final = 5_120
"""Calls that gRPC has accepted and the server has not begun, some 16 KiB each; of further ones gRPC cancels some."""
CALLS_PENDING_HARD_MAX: Final = 6_144
"""Above this gRPC cancels all further ones."""
REQUEST_WINDOW_BYTES: Final = 4 * 1024
"""What gRPC takes in of a call to a coordinator before anybody reads it."""
STREAM_WINDOW_BYTES: Final = 16 * 1024
"""What gRPC takes in of a call to a node before anybody reads it."""
HANDSHAKE_NS: Final = 5 * SECOND_NS
"""How long a connection may take until it speaks HTTP/2; then it is closed."""
CONNECTIONS_MAX: Final = 2 * NODES_MAX
"""To one node or coordinator; further ones are closed at once. Each takes some 17 KiB, without its calls. A process
that may not open twice as many files takes half as many connections as files."""
CONNECTION_IDLE_NS: Final = 60 * SECOND_NS
"""A connection without a call for so long is closed; a client opens another one when it needs it."""
SESSION_AHEAD_BYTES_MAX: Final = 1024 * 1024
"""What a coordinator reads ahead of a session that is open; before that, one message."""
SESSIONS_UNOPENED_MAX: Final = NODES_MAX
"""Sessions that have not said whose they are; one more ends the oldest."""

assert 4 * STATEMENT_CHARACTERS_MAX < REQUEST_BYTES_MAX < MESSAGE_BYTES_MAX < REQUESTS_BYTES_MAX
assert CALLS_PENDING_MAX < CALLS_PENDING_HARD_MAX
assert (
    REQUESTS_UNREAD_MAX * (REQUEST_FRAME_BYTES_MAX + 24 * 1024)
    + CALLS_PENDING_HARD_MAX * (REQUEST_WINDOW_BYTES + 16 * 1024)
    < 192 * 1024 * 1024
), "what calls cost before they are read"
assert SEGMENTS_PER_REPORT_MAX * 128 < REQUEST_FRAME_BYTES_MAX, "what a node reports travels in one frame"

# Statements that take long to parse.
PARSES_PER_USER_MAX: Final = 2
"""Of one user that wait to be parsed on the thread, however large they are. With a further one all that wait may have
PARSE_INLINE_CHARACTERS together, else it is refused as BUSY."""
PARSE_COUNTED_CHARACTERS: Final = 150
"""A shorter text counts as so many."""
PARSES_WAITING_MAX: Final = 1_024
"""Of all users."""

# Logs.
LOG_REST_MIN_NS: Final = SECOND_NS
"""A log line that repeats is written again after so long, then after twice as long each time."""
LOG_REST_MAX_NS: Final = 3600 * SECOND_NS
LOG_LINES_KEPT: Final = 1_024
"""Lines whose repetition a process notices."""
