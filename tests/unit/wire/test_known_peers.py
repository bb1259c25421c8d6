"""The addresses from which somebody has come who has shown who that is."""

from leasehold.limits.http2 import NAMES_KNOWN_MAX, PEERS_OF_NAME_MAX
from leasehold.wire.known_peers import KnownPeers


def test_a_peer_is_known_once_somebody_has_come_from_it() -> None:
    known = KnownPeers()
    assert "a" not in known
    known.add("a", "user alice")
    known.add("a", "user alice")
    assert "a" in known
    assert "b" not in known


def test_of_each_name_the_newest_peers_are_known() -> None:
    known = KnownPeers()
    peers = [f"peer {number}" for number in range(PEERS_OF_NAME_MAX + 1)]
    known.add(peers[1], "node node-1")
    for peer in peers:
        known.add(peer, "user alice")
    assert [peer in known for peer in peers] == [False, *[True] * PEERS_OF_NAME_MAX]
    known.add("one more", "user alice")
    assert peers[1] in known, "it is known for another name"


def test_the_newest_names_are_kept() -> None:
    known = KnownPeers()
    for number in range(NAMES_KNOWN_MAX + 1):
        known.add("shared", f"user {number}")
        known.add(f"peer {number}", f"user {number}")
    assert "peer 0" not in known
    assert "peer 1" in known
    assert "shared" in known
