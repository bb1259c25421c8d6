"""Sealed datagrams: what is opened again, and what is dropped for which reason."""

import hashlib
import hmac
from typing import get_args

import msgspec
import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

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
from leasehold.limits.swim import CLUSTER_KEY_BYTES, DATAGRAM_BYTES_MAX, DATAGRAM_READ_BYTES_MAX

KEY, CLUSTER = b"k" * CLUSTER_KEY_BYTES, "c" * 32
SEAL = Seal(KEY, CLUSTER)
HERE, AWAY = "127.0.0.1:7400", "10.0.0.2:7400"
SALT = bytes(range(16))

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


GOLDEN_SEALED = (
    "7377696d2f32000102030405060708090a0b0c0d0e0f83cd3fab2c36b3ef5f176decfd93f7f9f52b1bc479bd0c5801ffca01a3ee948fa83e23"
)
"""`Nack(sender="c-1", number=5)` as `swim/2`, with KEY, CLUSTER and SALT. Never edited."""


def first(payload, key=KEY, cluster=CLUSTER):
    """`swim/1`, as a process of the version before makes it."""
    body = hashlib.sha256(cluster.encode()).digest()[:8] + payload
    derived = hmac.digest(key, b"leasehold swim/1", "sha256")
    return body + hmac.digest(derived, body, "sha256")[:16]


def second(payload, key=KEY, cluster=CLUSTER, salt=SALT, mark=b"swim/2"):
    """`swim/2`, made by other means."""
    bound = mark + hashlib.sha256(cluster.encode()).digest()
    derived = HKDF(SHA256(), 32, salt=b"leasehold swim/2", info=bound + salt).derive(key)
    return mark + salt + ChaCha20Poly1305(derived).encrypt(bytes(12), payload, bound)


@pytest.mark.parametrize("datagram", list(GOLDEN), ids=lambda one: type(one).__name__)
def test_golden_bytes_are_written_and_read(datagram):
    payload = bytes.fromhex(GOLDEN[datagram])
    for address, blob in ((HERE, first(payload)), (AWAY, second(payload))):
        assert SEAL.seal(datagram, address, SALT) == blob
        assert SEAL.open(blob, address) == datagram


def test_the_bytes_of_the_second_seal_stay():
    assert SEAL.seal(Nack(sender="c-1", number=5), AWAY, SALT).hex() == GOLDEN_SEALED


def test_every_kind_has_golden_bytes():
    assert {type(one) for one in GOLDEN} == set(get_args(Datagram))


NACK = Nack(sender="a", number=1)


@pytest.mark.parametrize("address", [HERE, AWAY])
def test_what_was_not_sealed_with_the_key_is_dropped(address):
    sealed = SEAL.seal(NACK, address, SALT)
    for at in range(len(sealed)):
        forged = bytearray(sealed)
        forged[at] ^= 1
        assert SEAL.open(bytes(forged), address) is Dropped.UNAUTHENTICATED
    for length in range(len(sealed)):
        assert SEAL.open(sealed[:length], address) is Dropped.UNAUTHENTICATED
    assert SEAL.open(sealed + b"\0", address) is Dropped.UNAUTHENTICATED
    assert Seal(b"K" * CLUSTER_KEY_BYTES, CLUSTER).open(sealed, address) is Dropped.UNAUTHENTICATED


def test_another_cluster_with_the_same_key_is_not_heard():
    other = Seal(KEY, "d" * 32)
    assert other.open(SEAL.seal(NACK, HERE, SALT), HERE) is Dropped.OTHER_CLUSTER
    assert other.open(SEAL.seal(NACK, AWAY, SALT), AWAY) is Dropped.UNAUTHENTICATED


@pytest.mark.parametrize("address", [HERE, "[::1]:1", "localhost:1", "[::ffff:127.0.0.1]:1"])
def test_loopback_hears_both_versions_and_is_sent_the_first(address):
    sealed = SEAL.seal(NACK, address, SALT)
    assert sealed == first(msgspec.msgpack.encode(NACK))
    assert SEAL.open(sealed, address) == SEAL.open(SEAL.seal(NACK, AWAY, SALT), address) == NACK


@pytest.mark.parametrize("address", [AWAY, "[2001:db8::1]:1", "db.example:1", "localhost.example:1"])
def test_other_machines_are_sent_and_heard_with_the_second_version_alone(address):
    sealed = SEAL.seal(NACK, address, SALT)
    assert b"swim-nack" not in sealed
    assert SEAL.open(sealed, address) == NACK
    assert SEAL.open(SEAL.seal(NACK, HERE, SALT), address) is Dropped.UNAUTHENTICATED


def test_no_two_datagrams_share_a_key():
    one, other = (SEAL.seal(NACK, AWAY, bytes([number]) * 16)[22:] for number in (1, 2))
    assert one != other


def test_what_is_too_long_is_not_even_looked_at():
    assert SEAL.open(second(b"x" * DATAGRAM_BYTES_MAX), AWAY) is Dropped.OVERSIZED
    assert SEAL.open(first(b"x" * DATAGRAM_READ_BYTES_MAX), HERE) is Dropped.OVERSIZED


def test_the_longest_of_the_version_before_is_read():
    claims = tuple(MemberClaim(member=MEMBER, incarnation=1, state=State.ALIVE) for _ in range(30))
    payload = msgspec.msgpack.encode(News(sender="a", claims=claims))
    assert DATAGRAM_BYTES_MAX < len(first(payload)) <= DATAGRAM_READ_BYTES_MAX
    assert isinstance(SEAL.open(first(payload), HERE), News)


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
    "deep nesting": b"\x91" * 1_100,
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_malformed_is_dropped_though_it_was_sealed(what):
    payload = BAD[what]
    blob = payload if isinstance(payload, bytes) else msgspec.msgpack.encode(payload)
    assert all(SEAL.open(seal(blob), HERE) is Dropped.MALFORMED for seal in (first, second))


def test_the_shape_that_bad_ones_differ_from_is_read():
    good = ["swim-news/1", "a", [[["b", "b:1", 1, "b:2", 0], 2**62, 1, "c"]]]
    assert isinstance(SEAL.open(second(msgspec.msgpack.encode(good)), AWAY), News)


@pytest.mark.parametrize("address", [HERE, AWAY])
def test_while_one_key_takes_the_place_of_another_both_open_and_the_first_seals(address):
    new = Seal(b"K" * CLUSTER_KEY_BYTES, "d" * 32)
    ping = Ping(sender="c-1", number=5, target="node-1")
    old_first, new_first = Seal(KEY, CLUSTER, new), Seal(b"K" * CLUSTER_KEY_BYTES, "d" * 32, SEAL)
    for before, after in ((SEAL, old_first), (old_first, new_first), (new_first, new)):
        for one, other in ((before, after), (after, before)):
            assert other.open(one.seal(ping, address, SALT), address) == ping
    assert SEAL.open(new_first.seal(ping, address, SALT), address) is Dropped.UNAUTHENTICATED
