"""Relations between the bounds, asserted when the package is imported."""

from leasehold.limits import (
    certificates,
    clients,
    etcd,
    flight,
    http2,
    lease,
    local,
    log,
    membership,
    messages,
    metastorage,
    node_disk,
    people,
    processes,
    recovery,
    replication,
    requests,
    segments,
    sessions,
    statements,
    swim,
    units,
    upkeep,
    vault,
    zookeeper,
)

assert lease.LEASE_DURATION_MIN_NS < lease.LEASE_DURATION_NS < lease.LEASE_DURATION_MAX_NS
assert lease.RENEWAL_INTERVAL_NS * 3 < lease.LEASE_DURATION_MIN_NS, "a lease must outlast two lost renewals"
assert lease.LEASE_MARGIN_MIN_NS < lease.LEASE_MARGIN_NS < lease.LEASE_MARGIN_MAX_NS

assert (
    10 * statements.COLUMNS_MAX + statements.PROPERTIES_MAX * statements.PROPERTY_CHARACTERS_MAX
    < statements.STATEMENT_WORDS_MAX
), "the widest table fits"
assert statements.COLUMNS_MAX * (2 * 4 * segments.STATISTIC_CHARACTERS_MAX + 140) < messages.VALUE_BYTES_MAX, (
    "a manifest entry holds all statistics"
)
assert statements.BUCKETS_MAX * upkeep.SMALL_SEGMENTS_MIN * 2 < segments.TABLE_SEGMENTS_MAX, (
    "a full table has segments that a rewrite joins"
)
assert statements.CASCADE_RECORDS_MAX + 3 * statements.CASCADE_OBJECTS_MAX < metastorage.TRANSACTION_OPERATIONS_MAX
assert statements.CASCADE_BYTES_MAX < metastorage.TRANSACTION_BYTES_MAX
assert (
    160 + (statements.REPLICATION_MAX - 1) * (clients.TOLD_ADDRESS_CHARACTERS_MAX + 82)
    < flight.FLIGHT_FAILURE_BYTES_MAX
)
assert statements.USER_CASCADES_MAX < statements.USER_STATEMENTS_RUNNING_MAX
assert statements.PARSE_KEPT_CHARACTERS <= statements.PARSE_INLINE_CHARACTERS <= statements.LARGE_STATEMENT_CHARACTERS

assert messages.VALUE_BYTES_MAX < messages.MESSAGE_BYTES_MAX
assert messages.VALUE_BYTES_MAX < metastorage.RANGE_PAGE_BYTES_MAX < messages.MESSAGE_BYTES_MAX
assert (
    messages.VALUE_BYTES_MAX + messages.KEY_BYTES_MAX < metastorage.TRANSACTION_BYTES_MAX < messages.MESSAGE_BYTES_MAX
)
assert recovery.SNAPSHOT_PAGE_BYTES_MAX + messages.VALUE_BYTES_MAX < messages.MESSAGE_BYTES_MAX
assert messages.PROTOCOL_VERSION_MIN <= messages.PROTOCOL_VERSION

assert 2 * clients.STATEMENT_RESOLVE_NS <= statements.STATEMENT_REMEMBERED_NS, (
    "the last call of a client may wait as long as it asks"
)
assert requests.CALLS_PER_PEER_MAX < requests.CALLS_MAX, "one address leaves room for others"
assert requests.CALLS_OF_CLIENT_MAX <= requests.CALLS_MAX // requests.STRANGERS_PART
assert http2.STRANGERS_LATER_NS < http2.NEWCOMER_NS <= http2.NEWCOMERS_NS
assert clients.SCAN_PARTITIONS_MIN <= clients.SCAN_PARTITIONS_MAX
assert clients.HEDGE_DELAY_MIN_NS < clients.HEDGE_DELAY_MAX_NS < clients.SCAN_BATCH_TIMEOUT_NS
assert clients.SCAN_AHEAD_BYTES_MAX > flight.FLIGHT_BATCH_BYTES
assert clients.SCAN_BATCH_TIMEOUT_NS * 2 < clients.CLIENT_PATIENCE_NS, (
    "a reader tries another replica before it gives up"
)
assert clients.PLACES_TIMEOUT_NS < clients.CLIENT_PATIENCE_NS

assert segments.SEALS_WAIT_NS < clients.CALL_TIMEOUT_NS, "who waits so hears the answer"
assert segments.ROW_GROUP_BYTES < segments.SEGMENT_BYTES_MAX
assert 4 * segments.STREAMS_PER_TABLE_MAX <= segments.STREAMS_MAX, "one table leaves room for others"
assert 4 * segments.USER_STREAMS_MAX <= segments.STREAMS_MAX, "one user leaves room for others"
assert segments.TRANSACTION_RENEW_NS * 5 < segments.TRANSACTION_TTL_NS
assert (
    segments.TABLE_SEGMENTS_MAX * segments.PLANNED_SEGMENT_BYTES_MAX + 3 * messages.VALUE_BYTES_MAX
    < messages.MESSAGE_BYTES_MAX
), "columns come twice"

assert sessions.WATCH_QUEUE_REVISIONS_MAX < sessions.SESSION_SEND_MESSAGES_MAX, (
    "a whole watch backlog fits a session's queue"
)
assert sessions.KEEPALIVE_INTERVAL_NS + sessions.KEEPALIVE_TIMEOUT_NS < lease.LEASE_DURATION_NS, (
    "a dead peer is noticed within a lease"
)
assert sessions.SESSION_IDLE_NS > 20 * lease.RENEWAL_INTERVAL_NS
assert sessions.COORDINATOR_QUIET_NS > 3 * lease.RENEWAL_INTERVAL_NS, "each renewal has an answer"
assert sessions.SESSION_OPENING_NS < sessions.SESSION_IDLE_NS

assert people.PASSWORD_MEMORY_KIB * 1024 < processes.MEMORY_GROWN_BYTES, "a login gives no memory back"

assert node_disk.SERVE_LOG_FILES_MAX <= node_disk.SERVE_LOG_PIECES_MAX
assert (
    node_disk.TRASH_FILES_PER_SECOND * replication.RECONCILE_INTERVAL_NS
    <= node_disk.TRASH_ROUND_FILES_MAX * units.SECOND_NS
), "a round takes its share"
assert node_disk.REPAIRS_MAX >= node_disk.RESETS_MAX

assert flight.FLIGHT_BATCH_BYTES <= flight.FLIGHT_MESSAGE_BYTES_MAX <= flight.FLIGHT_SENT_BYTES_MAX
assert flight.FLIGHT_PART_BYTES < flight.FLIGHT_BATCH_SMALL_BYTES, "rows of the usual size wait for nobody"
assert 2 * flight.FLIGHT_STRANGERS_WAITING_MAX + flight.FLIGHT_CALLERS_WAITING_MAX < flight.FLIGHT_CALLS_MAX
assert 2 * (flight.FLIGHT_READS_MAX + flight.FLIGHT_WRITES_MAX) + flight.FLIGHT_WAITS_MAX < flight.FLIGHT_CALLS_MAX
assert flight.FLIGHT_STRANGERS_WAITS_MAX < flight.FLIGHT_STRANGERS_OPENING_MAX, "somebody can be served meanwhile"
assert 2 * requests.CALLS_PER_PEER_MAX <= flight.FLIGHT_CALLS_MAX, "no peer takes all calls of a node"
assert segments.SCANS_FEW * segments.SCAN_FIRST_BYTES_MAX < flight.FLIGHT_SCANS_BYTES_MAX, "several scans begin at once"
assert 8 * statements.COLUMNS_MAX * segments.CHUNK_BYTES < segments.SEGMENT_FOOTER_BYTES_MAX, (
    "the widest table may have several row groups in a segment"
)
assert segments.SEGMENT_FOOTER_BYTES_MAX < segments.FOOTERS_BYTES_MAX
assert flight.FLIGHT_WRITES_MAX * segments.FOOTERS_OF_ONE_BYTES <= segments.FOOTERS_BYTES_MAX
assert segments.PAGE_INDEX_COLUMNS_MAX * segments.PAGE_BYTES <= segments.ROW_GROUP_BYTES
assert segments.SEGMENT_FOOTER_BYTES_MAX + segments.SCAN_FIRST_BYTES_MAX < flight.FLIGHT_SCANS_BYTES_MAX
assert flight.FLIGHT_READS_MAX * flight.FLIGHT_FOOTER_SMALL_BYTES <= flight.FLIGHT_SCANS_BYTES_MAX, (
    "small files that are not made room for"
)
assert 2 * statements.FILTER_BYTES_MAX <= flight.TICKET_BYTES_MAX
assert 4 * statements.VIEW_BODY_CHARACTERS_MAX <= statements.FILTER_BYTES_MAX  # in UTF-8
assert max(flight.FLIGHT_PART_BYTES, replication.FORWARD_CHUNK_BYTES) <= flight.TICKET_BYTES_MAX, (
    "rows fit where a ticket does"
)
assert (
    flight.FLIGHT_CALLERS_OPENING_MAX + flight.FLIGHT_STRANGERS_OPENING_MAX
) * flight.FLIGHT_COPIES * flight.FLIGHT_RECEIVED_BYTES_MAX < 80 * 1024 * 1024, "what all first messages hold"

assert (
    replication.FORWARD_PROBE_DELAY_NS
    < replication.FORWARD_PATIENCE_MIN_NS
    < replication.FORWARD_PATIENCE_MAX_NS
    < replication.FORWARD_STALL_NS
)
assert replication.FORWARD_STALL_NS + replication.FORWARD_FINISH_NS < clients.STAGE_CALL_NS, (
    "a peer's delay does not fail the write"
)
assert replication.FETCH_ROUND_SEGMENTS_MAX <= replication.RECONCILE_RESTS_KEPT, (
    "what rests is remembered at least for a round"
)
assert replication.SEGMENTS_PER_REPORT_MAX < metastorage.TRANSACTION_OPERATIONS_MAX
assert replication.SEGMENTS_PER_REPORT_MAX <= replication.MISSING_ROUND_SEGMENTS_MAX
assert replication.RECONCILE_TRASH_MAX >= node_disk.TRASH_ROUND_FILES_MAX
assert replication.REPORTED_SEGMENTS_AT_ONCE_MAX < metastorage.TRANSACTION_OPERATIONS_MAX
assert replication.SEGMENTS_PER_REPORT_MAX * 128 < requests.REQUEST_FRAME_BYTES_MAX, (
    "what a node reports travels in one frame"
)

assert upkeep.REWRITE_PORTION_SEGMENTS <= segments.SEGMENTS_PER_COMMIT_MAX
assert segments.TABLE_SEGMENTS_MAX < upkeep.REWRITE_PLANS_MAX * upkeep.REWRITE_PLAN_SEGMENTS_MAX, (
    "a full table is rewritten whole"
)

assert metastorage.TRANSACTION_BYTES_MAX < sessions.SESSION_REVISIONS_BYTES_MAX, "the largest revision fits"
assert metastorage.RETENTION_MIN_NS <= metastorage.RETENTION_NS <= metastorage.RETENTION_MAX_NS
assert metastorage.RETENTION_REVISIONS_MIN <= metastorage.RETENTION_REVISIONS <= metastorage.RETENTION_REVISIONS_MAX
assert metastorage.RETENTION_HOLD_NS > 10 * metastorage.COMPACTION_INTERVAL_NS, (
    "a node that is slow to ask for the next page keeps its hold"
)

assert people.WRONG_PASSWORD_REST_MAX_NS < clients.CALL_TIMEOUT_NS, "whoever waits hears the answer"
assert 3 * people.DELEGATED_RENEW_NS < people.DELEGATED_TTL_NS < people.LOGIN_TTL_NS, "a driver may miss two turns"
assert people.LOGINS_PER_USER_MAX < metastorage.TRANSACTION_OPERATIONS_MAX, "one transaction renews or ends them all"

assert vault.VAULT_STAGED_KEYS_MAX > vault.VAULT_BATCH_REVISIONS_MAX
assert vault.VAULT_SCRUB_INTERVAL_NS < vault.VAULT_SCRUB_REST_NS
assert vault.VAULT_BUSY_WAIT_MS * 1_000_000 < clients.CALL_TIMEOUT_NS

assert processes.CONFIG_ADDRESSES_MAX < membership.COORDINATORS_KNOWN_MAX, (
    "what a node was given leaves room for what it remembers"
)

assert membership.TOPOLOGY_LOOK_NS < membership.TOPOLOGY_GRACE_NS
assert membership.ADOPT_POLL_NS < membership.ADOPT_FORGET_NS
assert membership.GIVEN_UP_AT_ONCE < metastorage.TRANSACTION_OPERATIONS_MAX
assert membership.NODES_MAX < membership.NODE_IDS_MAX
assert membership.STRUCK_BYTES_MAX + messages.VALUE_BYTES_MAX < metastorage.TRANSACTION_BYTES_MAX
assert max(membership.PLACED_AT_ONCE, membership.STRUCK_AT_ONCE) < metastorage.TRANSACTION_OPERATIONS_MAX
assert membership.ADOPT_WAIT_MAX_NS > 2 * lease.LEASE_DURATION_MAX_NS
assert membership.RECOUNTED_MAX >= membership.STRUCK_AT_ONCE, (
    "what a leader writes behind a removal does not keep the next one from its end"
)

assert recovery.RECOVERY_PROGRESS_NS < recovery.RECOVERY_LOG_NS
assert recovery.COMPARISON_POLL_NS < replication.RECONCILE_INTERVAL_NS
assert recovery.SNAPSHOT_BUSY_REST_NS < metastorage.RETENTION_HOLD_NS, "who is asked to come back keeps its hold"
assert recovery.RECOVERY_PROGRESS_NS < recovery.RECOVERY_ASK_AGAIN_NS < sessions.SESSION_IDLE_NS
assert recovery.SNAPSHOT_PAGE_BYTES_MAX + messages.VALUE_BYTES_MAX < sessions.SESSION_RECEIVE_BYTES_MAX

assert swim.SWIM_PING_TIMEOUT_NS + swim.SWIM_NACK_NS < swim.SWIM_PERIOD_NS, (
    "an indirect ping is answered within its period"
)
assert swim.SWIM_SPREAD_NS < swim.SWIM_PERIOD_NS < swim.SWIM_SEED_RETRY_NS < swim.SWIM_SYNC_NS < swim.SWIM_DEAD_KEPT_NS
assert swim.SWIM_PERIOD_NS * swim.SWIM_SUSPICION_PERIODS >= 2 * swim.SWIM_PERIOD_NS, (
    "a suspect has time to hear of it and to refute"
)
assert swim.SWIM_SEEDS_MAX >= processes.CONFIG_ADDRESSES_MAX
assert swim.DATAGRAM_BYTES_MAX + 40 + 8 <= 1_280 <= swim.DATAGRAM_READ_BYTES_MAX, "a datagram passes any path of IPv6"
assert swim.SWIM_SEEDS_MAX < swim.NAMES_KEPT
assert swim.DATAGRAMS_REST_NS < swim.SWIM_PING_TIMEOUT_NS // 10, "a rest makes nobody late"

assert (
    4 * statements.STATEMENT_CHARACTERS_MAX
    < requests.REQUEST_BYTES_MAX
    < messages.MESSAGE_BYTES_MAX
    < requests.REQUESTS_BYTES_MAX
)
assert 2 * flight.FLIGHT_FIRST_OF_ONE_MAX < flight.FLIGHT_FIRST_BYTES_MAX, "no two callers take all room"
assert flight.FLIGHT_RECEIVED_BYTES_MAX <= flight.FLIGHT_FIRST_OF_ONE_MAX
assert 2 * flight.FLIGHT_CALLS_CROWDED <= flight.FLIGHT_CALLS_MAX
assert flight.FLIGHT_STRANGERS_WAITING_MAX < flight.FLIGHT_STRANGERS_CROWDED < flight.FLIGHT_STRANGERS_CALLS_MAX
assert requests.ANSWERS_BYTES_PER_PEER_MAX < requests.ANSWERS_BYTES_MAX, "one address alone is refused, not cut off"
assert messages.MESSAGE_BYTES_MAX + requests.ANSWER_CALL_BYTES < requests.ANSWERS_BYTES_PER_PEER_MAX
assert 4 * requests.CALLS_OF_CLIENT_MAX <= requests.TURNS_WAITING_PER_USER_MAX, "a user has several busy clients"
assert 4 * requests.TURNS_WAITING_PER_USER_MAX <= requests.TURNS_WAITING_MAX
assert 2 * requests.TURNS_WAITING_PER_USER_BYTES_MAX <= requests.TURNS_WAITING_BYTES_MAX, "no user takes all room"
assert 2 * requests.TURNS_WAITING_PER_USER_BYTES_MAX <= requests.REQUESTS_DECODED_OF_ONE_MAX, (
    "users of one address may wait in their turns"
)
assert 2 * requests.REQUESTS_DECODED_OF_ONE_MAX <= requests.REQUESTS_DECODED_BYTES_MAX, "no address takes all room"
assert 4 * requests.CALLS_OF_CLIENT_MAX <= requests.CALLS_PER_CONNECTION_MAX, "a client's calls are never refused"
assert 2 * requests.CALLS_PER_CONNECTION_MAX <= requests.REQUESTS_UNREAD_MAX, (
    "the calls of a client end none of its own"
)
assert requests.REQUESTS_UNREAD_MAX * (requests.REQUEST_FRAME_BYTES_MAX + 24 * 1024) < 64 * 1024 * 1024, (
    "what calls cost before they are read"
)
assert http2.HEADER_BLOCK_BYTES_MAX < http2.HEADER_LIST_BYTES_MAX
assert http2.RECEIVE_BYTES_MIN < http2.PIECE_BYTES < http2.RECEIVE_BYTES
assert http2.CALL_NS < http2.RECEIVE_NS < http2.TURN_NS < http2.DEBT_NS_MAX
assert 2 * requests.CALLS_PER_PEER_MAX < http2.ALLOWANCE, "who takes all calls back is not cut off"
assert http2.SEND_AHEAD_BYTES < http2.CONNECTION_WINDOW_BYTES
assert 2 * http2.SWEEP_NS < sessions.KEEPALIVE_INTERVAL_NS, "a silent peer is noticed in time"

assert (
    etcd.ETCD_PAGE_KEYS_MAX * (log.STORE_VALUE_BYTES_MAX + messages.KEY_BYTES_MAX) + messages.KEY_BYTES_MAX
    < etcd.ETCD_ANSWER_BYTES_MAX
)
assert zookeeper.ZOOKEEPER_VALUES_MAX * (log.STORE_VALUE_BYTES_MAX + 1024) < zookeeper.ZOOKEEPER_ANSWER_BYTES_MAX
assert max(etcd.ETCD_PAGE_KEYS_MAX, etcd.ETCD_DELETE_KEYS_MAX) <= etcd.ETCD_REPEATED_MAX
assert log.LEADERSHIP_DURATION_MIN_NS < log.LEADERSHIP_DURATION_NS < log.LEADERSHIP_DURATION_MAX_NS
assert log.LEADERSHIP_BEAT_NS * 3 < log.LEADERSHIP_DURATION_MIN_NS, "a leadership must outlast two lost beats"
assert lease.LEADER_POLL_NS < lease.LEADER_COURTESY_NS < lease.LEADER_ASIDE_NS, "a successor looks up in time"
assert lease.LEADER_POLL_NS <= log.LEADERSHIP_BEAT_NS, "a challenger sees every beat in time"
assert log.STORE_REQUEST_NS > log.STORE_ENDPOINTS_MAX * log.STORE_TRY_NS, "each member is asked once"
assert 0 < certificates.CERTIFICATE_DAYS <= certificates.CERTIFICATE_DAYS_MAX < certificates.AUTHORITY_DAYS
assert local.LOCAL_CALL_MIN_NS < local.LOCAL_END_AHEAD_NS, "a renewal that hangs delays no removal beyond its deadline"
assert local.LOCAL_END_AHEAD_NS * 4 < lease.LEASE_DURATION_MIN_NS, "a sub-lease of the shortest lease can be renewed"
