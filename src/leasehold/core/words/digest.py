"""The digest of a projection: the XOR of the hashes of its items.

It does not depend on their order, and a change moves it by the hashes of the old and the new item alone. A vault keeps
it up from revision to revision; the sender and the receiver of a snapshot compare it.
"""

import hashlib
from struct import Struct

DIGEST_BYTES = 32
_length = Struct(">I")


def item_digest(key: bytes, value: bytes) -> int:
    """What one item counts for. The digest of nothing is 0."""
    return int.from_bytes(hashlib.sha256(_length.pack(len(key)) + key + value).digest())


def digest_bytes(digest: int) -> bytes:
    """As it is stored and sent."""
    return digest.to_bytes(DIGEST_BYTES)
