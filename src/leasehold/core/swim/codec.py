"""Datagrams as bytes: 8 bytes of the hash of the cluster's tag, MessagePack, 16 bytes of HMAC-SHA256 over both.

A datagram that was not made with the cluster key is dropped before it is decoded. The key of the seal is derived from
the cluster key, which has other purposes too.
"""

import hashlib
import hmac
from enum import Enum
from typing import Final

import msgspec

from leasehold.core.swim.messages import Datagram, Member, MemberClaim
from leasehold.core.words.codec import UNREADABLE
from leasehold.ids import ClusterId
from leasehold.limits.swim import CLUSTER_KEY_BYTES, DATAGRAM_BYTES_MAX, DATAGRAM_CLUSTER_BYTES, DATAGRAM_SEAL_BYTES

PAYLOAD_BYTES_MAX: Final = DATAGRAM_BYTES_MAX - DATAGRAM_CLUSTER_BYTES - DATAGRAM_SEAL_BYTES
CLAIMS_HEADER_BYTES: Final = 2
"""How much longer the header of a long list is than that of an empty one."""
_PURPOSE: Final = b"leasehold swim/1"

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Datagram)


class Dropped(Enum):
    """Why bytes that arrived are no datagram of this cluster."""

    OVERSIZED = "oversized"
    UNAUTHENTICATED = "unauthenticated"
    OTHER_CLUSTER = "other cluster"
    MALFORMED = "malformed"


def encoded(thing: Datagram | MemberClaim | Member) -> bytes:
    """Its MessagePack."""
    return _encoder.encode(thing)


class Seal:
    """Seals and opens the datagrams of one cluster."""

    def __init__(self, key: bytes, cluster: ClusterId) -> None:
        assert len(key) == CLUSTER_KEY_BYTES, "a cluster key has one length"
        self._mac = hmac.new(hmac.digest(key, _PURPOSE, "sha256"), digestmod="sha256")
        self._cluster = hashlib.sha256(cluster.encode()).digest()[:DATAGRAM_CLUSTER_BYTES]

    def seal(self, datagram: Datagram) -> bytes:
        """The bytes to send."""
        body = self._cluster + _encoder.encode(datagram)
        blob = body + self._of(body)
        assert len(blob) <= DATAGRAM_BYTES_MAX, "claims are packed so that they fit"
        return blob

    def open(self, blob: bytes) -> Datagram | Dropped:
        if len(blob) > DATAGRAM_BYTES_MAX:
            return Dropped.OVERSIZED
        body, mac = blob[:-DATAGRAM_SEAL_BYTES], blob[-DATAGRAM_SEAL_BYTES:]
        if not hmac.compare_digest(self._of(body), mac):
            return Dropped.UNAUTHENTICATED
        if body[:DATAGRAM_CLUSTER_BYTES] != self._cluster:
            return Dropped.OTHER_CLUSTER
        try:
            return _decoder.decode(body[DATAGRAM_CLUSTER_BYTES:])
        except UNREADABLE:
            return Dropped.MALFORMED

    def _of(self, body: bytes) -> bytes:
        mac = self._mac.copy()
        mac.update(body)
        return mac.digest()[:DATAGRAM_SEAL_BYTES]
