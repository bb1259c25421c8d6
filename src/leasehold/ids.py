"""The identifiers of the system, each its own type, so that no two of them can be swapped.

Numbers that order something (`Term`, `Revision`, `Incarnation` ..) count from 1; 0 means "none yet"
where a field says so. Names that come from outside are validated here, once.
"""

import re
from typing import NewType

NodeId = NewType("NodeId", int)
"""Small integer from 1, allocated once, never reused."""
STRANGERS = NodeId(0)
"""Stands in a barrier for the nodes that a recovered cluster knows nothing of."""
STRANGERS_NAME = "(the lost state)"
Term = NewType("Term", int)
"""A leader's fencing number."""
Revision = NewType("Revision", int)
"""The meta storage's global counter."""
Generation = NewType("Generation", int)
"""The cluster's lineage counter, raised only by disaster recovery."""
FIRST_GENERATION = Generation(1)
"""The generation of a cluster that was never recovered, and of messages that name none."""
Incarnation = NewType("Incarnation", int)
"""Counts the starts of one node."""
SchemaVersion = NewType("SchemaVersion", int)
"""Counts the changes of one table's schema."""
Sequence = NewType("Sequence", int)
"""Counts the grants of one term, over all nodes."""
RequestNumber = NewType("RequestNumber", int)
"""Counts the renewals of one session."""
ObjectId = NewType("ObjectId", int)
"""Names a database, table or view for ever; a name does not."""
PrincipalId = NewType("PrincipalId", int)
"""Names a user or role for ever."""
FieldId = NewType("FieldId", int)
"""Names a column of one table for ever."""
BucketNumber = NewType("BucketNumber", int)
"""A hash partition of a table, from 0."""

ClusterId = NewType("ClusterId", str)
"""128 bits in hex, drawn when the meta storage is initialised."""
Token = NewType("Token", str)
"""128 random bits in hex that prove the ownership of a node id. A secret."""
Session = NewType("Session", str)
"""128 random bits in hex, one process of one incarnation."""
Nonce = NewType("Nonce", str)
"""128 random bits in hex, one attempt to join."""
LoginToken = NewType("LoginToken", str)
"""128 random bits in hex: whoever holds it has logged in. A secret."""
NodeLogin = NewType("NodeLogin", str)
"""128 bits in hex, made of a `LoginToken`: what its holder shows to nodes. Coordinators do not take it. A secret."""
ApplicationSecret = NewType("ApplicationSecret", str)
"""128 random bits in hex: its holder renews and ends the delegated logins of a Spark application. A secret."""
UserToken = NewType("UserToken", str)
"""256 random bits as text: whoever holds it may log in as its user. A secret."""
StatementId = NewType("StatementId", str)
"""128 bits in hex, chosen by the client: asking again with it tells the true outcome."""
TransactionId = NewType("TransactionId", str)
"""128 bits in hex, chosen by the client, names one write transaction."""
SegmentId = NewType("SegmentId", str)
"""`<transaction id>-<128 bits in hex>`, globally unique; the segment's file name."""
LineageHash = NewType("LineageHash", bytes)
"""SHA-256, 32 bytes: ties a revision to all before it."""
EntryId = NewType("EntryId", str)
"""128 random bits in hex, drawn by the leader: tells one entry of the log from another with the same number."""
ChainHash = NewType("ChainHash", bytes)
"""SHA-256, 32 bytes: ties an entry of the log to all before it."""

HEX_128 = re.compile(r"[0-9a-f]{32}")
QUERY_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A UUID."""
SERIAL = re.compile(r"[0-9a-f]{1,40}")
USER_TOKEN = re.compile(r"lht_[0-9a-f]{64}")
"""Its beginning shows what it is to whoever finds it, and keeps it from being taken for its hash."""
SEGMENT_NAME = re.compile(r"[0-9a-f]{32}-[0-9a-f]{32}")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
NODE_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.%]{2,64}\]|[A-Za-z0-9][A-Za-z0-9._-]{0,252}):[0-9]{1,5}")
"""`host:port`, with a name or a number as host; IPv6 in brackets."""


def read_serial(text: str) -> str | None:
    """The serial number of a certificate as it is stored, from its hex digits, also in pairs with colons; None if it is
    none (RFC 5280, 4.1.2.2)."""
    digits = text.lower().replace(":", "").lstrip("0")
    return digits if SERIAL.fullmatch(digits) is not None else None


def is_hex_128(text: str) -> bool:
    """Whether `text` is exactly 128 bits in lower-case hex."""
    return HEX_128.fullmatch(text) is not None


def is_query_id(text: str) -> bool:
    """Whether `text` is the id of a streaming query, as Spark draws it."""
    return QUERY_ID.fullmatch(text) is not None


def is_user_token(text: str) -> bool:
    """Whether `text` is a well-formed token of a user."""
    return USER_TOKEN.fullmatch(text) is not None


def is_segment_id(text: str) -> bool:
    """Whether `text` is a well-formed segment id, and so safe as a file name."""
    return SEGMENT_NAME.fullmatch(text) is not None


def segment_transaction(segment: SegmentId) -> TransactionId:
    assert is_segment_id(segment)
    return TransactionId(segment[:32])
