"""Peers whose connections come to nothing."""

from leasehold.limits.http2 import HASTY_CONNECTIONS, HASTY_CONNECTIONS_MAX
from leasehold.wire.hasty_peers import HastyPeers


def test_many_connections_for_nothing_make_a_peer_hasty() -> None:
    peers = HastyPeers()
    said = [peers.came_to_nothing("a") for _ in range(HASTY_CONNECTIONS + 1)]
    assert said == [*[False] * (HASTY_CONNECTIONS - 1), True, False]
    assert "a" in peers
    assert "b" not in peers


def test_who_rests_is_forgiven() -> None:
    peers = HastyPeers()
    for _ in range(2 * HASTY_CONNECTIONS_MAX):
        peers.came_to_nothing("a")
    assert not peers.rested(HASTY_CONNECTIONS_MAX - 1)
    assert "a" in peers
    assert not peers.came_to_nothing("a"), "it is hasty already"
    assert not peers.rested(1)
    assert peers.rested(1)
    assert "a" not in peers
    assert not peers.rested(1)


def test_few_connections_at_a_time_are_forgiven() -> None:
    peers = HastyPeers()
    for _ in range(10):
        assert not any(peers.came_to_nothing("a") for _ in range(HASTY_CONNECTIONS - 1))
        assert not peers.rested(HASTY_CONNECTIONS)


def test_one_that_is_forgotten_begins_anew() -> None:
    peers = HastyPeers()
    for _ in range(HASTY_CONNECTIONS):
        peers.came_to_nothing("a")
    peers.forget("a")
    peers.forget("a")
    assert "a" not in peers
    assert not peers.came_to_nothing("a")
