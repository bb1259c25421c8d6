"""From which peers names have come."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.access.peers_of_names import PeersOfNames
from leasehold.limits.people import NAMES_WITH_PEERS_MAX, PEERS_OF_NAME_MAX


def test_of_each_name_the_newest_peers_are_remembered() -> None:
    came = PeersOfNames[str]()
    peers = [f"peer {number}" for number in range(PEERS_OF_NAME_MAX)]
    for peer in peers:
        came.add("alice", peer)
    came.add("alice", peers[0])
    came.add("alice", "one more")
    assert came.has("alice", peers[0]), "alice came from there again"
    assert not came.has("alice", peers[1])
    assert came.has("alice", "one more")
    assert not came.has("bob", "one more")


def test_the_newest_names_are_remembered() -> None:
    came = PeersOfNames[str]()
    for number in range(NAMES_WITH_PEERS_MAX):
        came.add(f"user {number}", "here")
    came.add("user 0", "here")
    came.add("one more", "here")
    assert came.has("user 0", "here"), "it came again"
    assert not came.has("user 1", "here")


def test_what_has_changed_is_told() -> None:
    came = PeersOfNames[str]()
    assert came.name_of("a") is None
    assert came.add("alice", "a") == {"a"}
    assert came.add("alice", "a") == set()
    assert came.add("alice", "b") == {"a", "b"}
    assert (came.name_of("a"), came.name_of("b")) == ("alice", "alice")
    assert came.add("bob", "b") == {"b"}
    assert (came.name_of("a"), came.name_of("b")) == ("alice", "bob")
    for number in range(PEERS_OF_NAME_MAX - 2):
        came.add("alice", f"{number}")
    changed = came.add("alice", "one more")
    assert "a" in changed
    assert came.name_of("a") is None
    assert "alice" in came
    assert "carol" not in came


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("123456"))))
def test_it_holds_what_has_come_as_far_as_there_is_room(coming: list[tuple[str, str]]) -> None:
    came, found = PeersOfNames[str](), defaultdict[str, set[str]](set)
    for name, peer in coming:
        came.add(name, peer)
        found[name].add(peer)
    for peer in "123456":
        theirs = {name: len(peers) for name, peers in found.items() if peer in peers}
        name = came.name_of(peer)
        assert theirs[name] == min(theirs.values()) if name is not None else not theirs
