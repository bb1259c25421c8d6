"""Where each record lies in the meta storage.

Everything nodes follow lies in one **watched range**, `[WATCH_START, WATCH_END)`. The leader record of a meta storage
that one coordinator locks lies outside it, so that its elections make no revision that a node would have to apply.
Commit times lie outside it too.
Numbers are zero-padded: the order of keys is the order of numbers.
"""

from leasehold.ids import BucketNumber, NodeId, ObjectId, PrincipalId, SegmentId, StatementId, TransactionId

LEADER = b"leader"
COMMIT_TIME = b"commit_time"
WATCH_START = b"c/"
WATCH_END = b"c0"
CLUSTER = b"c/cluster"
LINEAGE = b"c/lineage"
SETTINGS = b"c/settings"
COUNTERS = b"c/counters"
LARGEST_LEASE = b"c/lease/max_duration"
NODES = b"c/node/"
COORDINATORS = b"c/coordinator/"
DATABASES = b"c/database/"
TABLES = b"c/table/"
BUCKETS = b"c/bucket/"
SEGMENTS = b"c/segment/"
REPLACED = b"c/replaced/"
TRANSACTIONS = b"c/transaction/"
PROCEDURES = b"c/procedure/"
STATEMENTS = b"c/statement/"
DROPPED = b"c/dropped/"
VIEWS = b"c/view/"
DELETES = b"c/delete/"
PRINCIPALS = b"c/principal/"
GRANTS = b"c/grant/"
LOGINS = b"c/login/"
TOKENS = b"c/token/"
HORIZONS = b"c/horizon/"
QUERIES = b"c/query/"
STREAMS = b"c/stream/"
REVOKED_CERTIFICATES = b"c/revoked/"
CERTIFIED_NAMES = b"c/certified/"


def node(node_id: NodeId) -> bytes:
    return b"%s%010d" % (NODES, node_id)


def coordinator(address: str) -> bytes:
    return COORDINATORS + address.encode()


def revoked_certificate(serial: str) -> bytes:
    return REVOKED_CERTIFICATES + serial.encode()


def certified_name(name: str) -> bytes:
    return CERTIFIED_NAMES + name.encode()


def database(object_id: ObjectId) -> bytes:
    return b"%s%010d" % (DATABASES, object_id)


def table(object_id: ObjectId) -> bytes:
    return b"%s%010d" % (TABLES, object_id)


def bucket(table_id: ObjectId, number: BucketNumber) -> bytes:
    return b"%s%010d/%05d" % (BUCKETS, table_id, number)


def segment(table_id: ObjectId, number: BucketNumber, segment_id: SegmentId) -> bytes:
    return b"%s%010d/%05d/%s" % (SEGMENTS, table_id, number, segment_id.encode())


def table_of(key: bytes) -> ObjectId:
    return ObjectId(int(key.split(b"/")[2]))


def bucket_of(key: bytes) -> tuple[ObjectId, BucketNumber]:
    parts = key.split(b"/")
    return ObjectId(int(parts[2])), BucketNumber(int(parts[3]))


def node_of(key: bytes) -> NodeId:
    return NodeId(int(key.removeprefix(NODES)))


def replaced(table_id: ObjectId, number: BucketNumber, segment_id: SegmentId) -> bytes:
    return b"%s%010d/%05d/%s" % (REPLACED, table_id, number, segment_id.encode())


def transaction(transaction_id: TransactionId) -> bytes:
    return TRANSACTIONS + transaction_id.encode()


def procedure(number: int) -> bytes:
    return b"%s%010d" % (PROCEDURES, number)


def statement(statement_id: StatementId) -> bytes:
    return STATEMENTS + statement_id.encode()


def dropped(table_id: ObjectId) -> bytes:
    return b"%s%010d" % (DROPPED, table_id)


def horizon(table_id: ObjectId) -> bytes:
    return b"%s%010d" % (HORIZONS, table_id)


def query_name(table_id: ObjectId, query_id: str) -> str:
    return f"{table_id:010d}/{query_id}"


def query(table_id: ObjectId, query_id: str) -> bytes:
    return QUERIES + query_name(table_id, query_id).encode()


def stream(query_id: str) -> bytes:
    return STREAMS + query_id.encode()


def view(object_id: ObjectId) -> bytes:
    return b"%s%010d" % (VIEWS, object_id)


def delete(table_id: ObjectId, number: int) -> bytes:
    return b"%s%010d/%010d" % (DELETES, table_id, number)


def principal(principal_id: PrincipalId) -> bytes:
    return b"%s%010d" % (PRINCIPALS, principal_id)


def grant(object_id: ObjectId, principal_id: PrincipalId) -> bytes:
    return b"%s%010d/%010d" % (GRANTS, object_id, principal_id)


def login(token_hash: bytes) -> bytes:
    return LOGINS + token_hash.hex().encode()


def token(token_hash: bytes) -> bytes:
    return TOKENS + token_hash.hex().encode()
