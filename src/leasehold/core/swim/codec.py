"""Datagrams as bytes, sealed with keys that are derived from the cluster key, which has other purposes too.

| seal | bytes | spoken |
| --- | --- | --- |
| `swim/2` | the mark `swim/2`, 16 random bytes, MessagePack under ChaCha20-Poly1305 with 16 bytes of tag | everywhere |
| `swim/1` | 8 bytes of the hash of the cluster's tag, MessagePack, 16 bytes of HMAC-SHA256 over both | on loopback |

Each datagram of `swim/2` has a key of its own: HKDF-SHA256 of the cluster key, the cluster's tag and the random bytes.
So no nonce is counted, and none is used twice, even if a machine is copied while it runs. The mark and the tag of the
cluster are authenticated too.

Processes of the version before know only `swim/1`, and send to loopback alone. So this version sends `swim/1` to
loopback and `swim/2` elsewhere, and opens both on loopback. A datagram of `swim/1` from another machine is dropped. The
next version has no `swim/1`.
"""

import hashlib
import hmac
from enum import Enum
from typing import Final

import msgspec

from leasehold.core.swim.messages import Datagram, Member, MemberClaim
from leasehold.core.words.addresses import is_loopback
from leasehold.core.words.codec import UNREADABLE
from leasehold.ids import ClusterId
from leasehold.limits.swim import (
    CLUSTER_KEY_BYTES,
    DATAGRAM_BYTES_MAX,
    DATAGRAM_CLUSTER_BYTES,
    DATAGRAM_READ_BYTES_MAX,
    DATAGRAM_SALT_BYTES,
    DATAGRAM_SEAL_BYTES,
)

CLAIMS_HEADER_BYTES: Final = 2
"""How much longer the header of a long list is than that of an empty one."""
_MARK: Final = b"swim/2"
_HEAD_BYTES: Final = len(_MARK) + DATAGRAM_SALT_BYTES
PAYLOAD_BYTES_MAX: Final = DATAGRAM_BYTES_MAX - _HEAD_BYTES - DATAGRAM_SEAL_BYTES
_PURPOSE: Final = b"leasehold swim/2"
_FIRST_PURPOSE: Final = b"leasehold swim/1"
_NONCE: Final = bytes(12)
"""A key seals one datagram."""

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
    """Seals and opens the datagrams of one cluster. It opens also what `other` opens, while one cluster key takes the
    place of another."""

    def __init__(self, key: bytes, cluster: ClusterId, other: "Seal | None" = None) -> None:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - slow to load; only gossip needs it
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305  # noqa: PLC0415

        assert len(key) == CLUSTER_KEY_BYTES, "a cluster key has one length"
        self._cipher, self._invalid = ChaCha20Poly1305, InvalidTag
        tag = hashlib.sha256(cluster.encode()).digest()
        self._bound = _MARK + tag
        self._root = hmac.digest(_PURPOSE, key, "sha256")
        self._first = _FirstSeal(key, tag[:DATAGRAM_CLUSTER_BYTES])
        self._other = other

    def seal(self, datagram: Datagram, address: str, salt: bytes) -> bytes:
        """The bytes to send to `address`. `salt`: random bytes, never used before."""
        assert len(salt) == DATAGRAM_SALT_BYTES
        payload = _encoder.encode(datagram)
        if is_loopback(address):
            blob = self._first.seal(payload)
        else:
            blob = _MARK + salt + self._cipher(self._key(salt)).encrypt(_NONCE, payload, self._bound)
        assert len(blob) <= DATAGRAM_BYTES_MAX, "claims are packed so that they fit"
        return blob

    def open(self, blob: bytes, source: str) -> Datagram | Dropped:
        """What the bytes from `source` say."""
        if blob.startswith(_MARK):
            payload = self._opened(blob)
        elif is_loopback(source):
            payload = self._first.open(blob)
        else:
            payload = Dropped.UNAUTHENTICATED
        if isinstance(payload, Dropped):
            return payload if self._other is None else self._other.open(blob, source)
        try:
            return _decoder.decode(payload)
        except UNREADABLE:
            return Dropped.MALFORMED

    def _opened(self, blob: bytes) -> bytes | Dropped:
        if len(blob) > DATAGRAM_BYTES_MAX:
            return Dropped.OVERSIZED
        if len(blob) < _HEAD_BYTES + DATAGRAM_SEAL_BYTES:
            return Dropped.UNAUTHENTICATED
        salt = blob[len(_MARK) : _HEAD_BYTES]
        try:
            return self._cipher(self._key(salt)).decrypt(_NONCE, blob[_HEAD_BYTES:], self._bound)
        except self._invalid:
            return Dropped.UNAUTHENTICATED

    def _key(self, salt: bytes) -> bytes:
        """HKDF-Expand of RFC 5869 for one block, whose extract is `_root`."""
        return hmac.digest(self._root, self._bound + salt + b"\1", "sha256")


class _FirstSeal:
    """The seal of `swim/1`, of payloads."""

    def __init__(self, key: bytes, cluster: bytes) -> None:
        self._mac = hmac.new(hmac.digest(key, _FIRST_PURPOSE, "sha256"), digestmod="sha256")
        self._cluster = cluster

    def seal(self, payload: bytes) -> bytes:
        body = self._cluster + payload
        return body + self._of(body)

    def open(self, blob: bytes) -> bytes | Dropped:
        if len(blob) > DATAGRAM_READ_BYTES_MAX:
            return Dropped.OVERSIZED
        body, mac = blob[:-DATAGRAM_SEAL_BYTES], blob[-DATAGRAM_SEAL_BYTES:]
        if not hmac.compare_digest(self._of(body), mac):
            return Dropped.UNAUTHENTICATED
        if body[:DATAGRAM_CLUSTER_BYTES] != self._cluster:
            return Dropped.OTHER_CLUSTER
        return body[DATAGRAM_CLUSTER_BYTES:]

    def _of(self, body: bytes) -> bytes:
        mac = self._mac.copy()
        mac.update(body)
        return mac.digest()[:DATAGRAM_SEAL_BYTES]
