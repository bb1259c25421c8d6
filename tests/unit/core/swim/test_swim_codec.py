"""Sealed datagrams: what is opened again, and what is dropped for which reason."""

import hashlib
import hmac
from typing import get_args

import msgspec
import pytest

from leasehold.core.swim.codec import Dropped, Seal
from leasehold.core.swim.messages import (
    Ack,
    Datagram,
    Member,
    MemberClaim,
    MemberPage,
    Nack,
    News,
    Ping,
    PingRequest,
    Role,
    State,
    Sync,
)
from leasehold.limits.swim import CLUSTER_KEY_BYTES, DATAGRAM_BYTES_MAX

KEY, CLUSTER = b"k" * CLUSTER_KEY_BYTES, "c" * 32
SEAL = Seal(KEY, CLUSTER)

MEMBER = Member(name="node-1", address="127.0.0.1:7401", role=Role.NODE, service="127.0.0.1:7402", node=3)
COORDINATOR = Member(name="c-1", address="[::1]:7403", role=Role.COORDINATOR, service="localhost:7400", node=0)
CLAIMS = (
    MemberClaim(member=MEMBER, incarnation=70_000, state=State.SUSPECT, by="c-1"),
    MemberClaim(member=COORDINATOR, incarnation=1, state=State.LEFT),
)

GOLDEN = {
    Ping(sender="c-1", number=5, target="node-1"): "95ab7377696d2d70696e672f31a3632d319005a66e6f64652d31",
    Ack(sender="c-1", number=5, target="node-1"): "95aa7377696d2d61636b2f31a3632d319005a66e6f64652d31",
    PingRequest(sender="c-1", number=5, target="node-1", address="127.0.0.1:7401"): (
        "96b37377696d2d70696e672d726571756573742f31a3632d319005a66e6f64652d31ae3132372e302e302e313a37343031"
    ),
    Nack(sender="c-1", number=5): "94ab7377696d2d6e61636b2f31a3632d319005",
    News(sender="c-1", claims=CLAIMS): (
        "93ab7377696d2d6e6577732f31a3632d31929495a66e6f64652d31ae3132372e302e302e313a3734303102ae3132372e302e302e31"
        "3a3734303203ce0001117001a3632d319495a3632d31aa5b3a3a315d3a3734303301ae6c6f63616c686f73743a37343030000103a0"
    ),
    Sync(sender="c-1", digest=b"12345678"): "94ab7377696d2d73796e632f31a3632d3190c4083132333435363738",
    MemberPage(sender="c-1", answer=True): "94ab7377696d2d706167652f31a3632d3190c3",
}
"""MessagePack of each kind, as it was first sent. Never edited: another shape needs another tag."""


@pytest.mark.parametrize("datagram", list(GOLDEN), ids=lambda one: type(one).__name__)
def test_golden_bytes_are_written_and_read(datagram):
    sealed = SEAL.seal(datagram)
    assert sealed[8:-16].hex() == GOLDEN[datagram]
    assert SEAL.open(sealed) == datagram


def test_every_kind_has_golden_bytes():
    assert {type(one) for one in GOLDEN} == set(get_args(Datagram))


def sealed_bytes(payload, key=KEY, cluster=CLUSTER):
    """Bytes that somebody who has the key made by other means."""
    body = hashlib.sha256(cluster.encode()).digest()[:8] + payload
    derived = hmac.digest(key, b"leasehold swim/1", "sha256")
    return body + hmac.digest(derived, body, "sha256")[:16]


def test_what_was_not_sealed_with_the_key_is_dropped():
    sealed = SEAL.seal(Nack(sender="a", number=1))
    for at in range(len(sealed)):
        forged = bytearray(sealed)
        forged[at] ^= 1
        assert SEAL.open(bytes(forged)) is Dropped.UNAUTHENTICATED
    for length in range(len(sealed)):
        assert SEAL.open(sealed[:length]) is Dropped.UNAUTHENTICATED
    assert SEAL.open(sealed + b"\0") is Dropped.UNAUTHENTICATED
    assert Seal(b"K" * CLUSTER_KEY_BYTES, CLUSTER).open(sealed) is Dropped.UNAUTHENTICATED


def test_another_cluster_with_the_same_key_is_not_heard():
    assert Seal(KEY, "d" * 32).open(SEAL.seal(Nack(sender="a", number=1))) is Dropped.OTHER_CLUSTER


def test_what_is_too_long_is_not_even_looked_at():
    assert SEAL.open(sealed_bytes(b"x" * DATAGRAM_BYTES_MAX)) is Dropped.OVERSIZED


BAD = {
    "nothing": b"",
    "no MessagePack": b"\xc1",
    "another version": ["swim-nack/2", "a", [], 1],
    "a field too many": ["swim-nack/1", "a", [], 1, 2],
    "a field too few": ["swim-nack/1", "a", []],
    "an empty name": ["swim-nack/1", "", [], 1],
    "a name with a line break": ["swim-nack/1", "a\n", [], 1],
    "a long name": ["swim-nack/1", "a" * 64, [], 1],
    "a number below zero": ["swim-nack/1", "a", [], -1],
    "an address without a port": ["swim-ping-request/1", "a", [], 1, "b", "host"],
    "an address with a path": ["swim-ping-request/1", "a", [], 1, "b", "host:1/x"],
    "a short digest": ["swim-sync/1", "a", [], b"1234567"],
    "an unknown state": ["swim-news/1", "a", [[["b", "b:1", 1, "b:2", 0], 1, 4, ""]]],
    "an unknown role": ["swim-news/1", "a", [[["b", "b:1", 3, "b:2", 0], 1, 0, ""]]],
    "incarnation 0": ["swim-news/1", "a", [[["b", "b:1", 1, "b:2", 0], 0, 0, ""]]],
    "an incarnation that leaves no room": ["swim-news/1", "a", [[["b", "b:1", 1, "b:2", 0], 2**62 + 1, 0, ""]]],
    "a negative node": ["swim-news/1", "a", [[["b", "b:1", 1, "b:2", -1], 1, 0, ""]]],
    "deep nesting": b"\x91" * 1_200,
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_malformed_is_dropped_though_it_was_sealed(what):
    payload = BAD[what]
    blob = payload if isinstance(payload, bytes) else msgspec.msgpack.encode(payload)
    assert SEAL.open(sealed_bytes(blob)) is Dropped.MALFORMED


def test_the_shape_that_bad_ones_differ_from_is_read():
    good = ["swim-news/1", "a", [[["b", "b:1", 1, "b:2", 0], 2**62, 1, "c"]]]
    assert isinstance(SEAL.open(sealed_bytes(msgspec.msgpack.encode(good))), News)
