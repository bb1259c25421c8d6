"""Peers of a server, and the names of their connections."""

import pytest

from leasehold.wire.peers import calling_peer, connection_name, peer_of


@pytest.mark.parametrize(
    ("said", "peer"),
    [
        ("ipv4:192.0.2.1:50051", "192.0.2.1"),
        ("ipv6:%5B2001:db8::1%5D:50051", "2001:db8::/64"),
        ("ipv6:[::ffff:192.0.2.1]:50051", "192.0.2.1"),
        ("ipv6:%5Bfe80::1%25eth0%5D:50051", "fe80::/64"),
        ("unknown", ""),
    ],
)
def test_the_peer_of_a_call_is_its_address(said: str, peer: str) -> None:
    assert calling_peer(said) == peer


@pytest.mark.parametrize(
    ("host", "peer", "name"),
    [
        ("10.1.2.3", "10.1.2.3", "ipv4:10.1.2.3:7"),
        ("::ffff:10.1.2.3", "10.1.2.3", "ipv4:10.1.2.3:7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", "ipv6:%5B2001:db8:1:2:3:4:5:6%5D:7"),
        ("fe80::1%lo", "fe80::/64", "ipv6:%5Bfe80::1%5D:7"),
    ],
)
def test_a_peer_is_an_address_or_half_of_one(host: str, peer: str, name: str) -> None:
    assert peer_of(host) == peer
    assert connection_name(host, 7) == name
    assert calling_peer(name) == peer
