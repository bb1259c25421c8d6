"""The addresses from which members and users have come."""

from leasehold.limits.http2 import HASTY_CONNECTIONS, HASTY_FORGIVEN, KNOWN_QUEUES, KNOWN_WEIGHT, MEMBER_PEERS_MAX
from leasehold.limits.people import PEERS_OF_NAME_MAX
from leasehold.wire.known_peers import KnownPeers


def weight(known: KnownPeers, peer: str) -> int:
    return known.weight(known.sharer(peer))


def test_a_stranger_has_one_share_and_a_known_peer_more() -> None:
    known = KnownPeers()
    assert (weight(known, "a"), "a" in known) == (1, False)
    known.add("a", "user alice")
    assert (weight(known, "a"), "a" in known) == (KNOWN_WEIGHT, True)
    known.add_member("b")
    assert (weight(known, "b"), "b" in known) == (KNOWN_WEIGHT, True)


def test_a_user_has_no_more_by_coming_from_several_addresses() -> None:
    known = KnownPeers()
    peers = [f"peer {number}" for number in range(PEERS_OF_NAME_MAX + 1)]
    for peer in peers:
        known.add(peer, "user alice")
    assert [one in known for one in peers] == [False, *[True] * PEERS_OF_NAME_MAX]
    assert [known.sharer(one) for one in peers] == [peers[0], *["user alice"] * PEERS_OF_NAME_MAX]
    known.add(peers[1], "user bob")
    assert known.sharer(peers[1]) == "user bob", "it is as good as the best of its users"
    known.add_member(peers[1])
    assert known.sharer(peers[1]) == peers[1], "a member shares with nobody"


def test_the_newest_hosts_of_members_are_known() -> None:
    known = KnownPeers()
    known.add("host 1", "user alice")
    for number in range(MEMBER_PEERS_MAX):
        known.add_member(f"host {number}")
    known.add_member("host 0")
    for number in range(2):
        known.add_member(f"one more {number}")
    assert "host 0" in known
    assert "host 1" in known, "a user has come from there"
    assert "host 2" not in known


def test_members_and_each_user_have_queues_of_their_own() -> None:
    known = KnownPeers()
    for number in range(3):
        known.add_member(f"member {number}")
        known.add(f"home {number}", "user alice")
        known.add(f"user {number}", f"user {number}")
    known.add("member 2", "user alice")
    queues = known.queues()
    assert [queues[f"member {number}"] for number in range(3)] == [1, 1, 1]
    assert list(queues)[:3] == ["member 2", "member 1", "member 0"], "the newest come first"
    assert len({queues[f"home {number}"] for number in range(3)}) == 1, "a user takes no queue but one"
    assert len({queues[f"user {number}"] for number in range(3)}) > 1
    assert all(1 < queue <= KNOWN_QUEUES for peer, queue in queues.items() if not peer.startswith("member"))


def test_queues_are_sorted_anew_only_after_a_change() -> None:
    known = KnownPeers()
    counts = [known.changes]
    for again in (known.add, known.add):
        again("a", "user alice")
        counts.append(known.changes)
    for one in ("b", "b"):
        known.add_member(one)
        counts.append(known.changes)
    for _ in range(2):
        known.remove_member("b")
        counts.append(known.changes)
    assert counts == [0, 1, 1, 2, 2, 3, 3]


def test_peers_whose_connections_come_to_nothing_wait_with_strangers() -> None:
    known = KnownPeers()
    known.add_member("member")
    known.add("home", "user alice")
    known.add("work", "user alice")
    before = known.changes
    for _ in range(HASTY_CONNECTIONS):
        assert known.queues().keys() == {"member", "home", "work"}
        for one in ("member", "home", "stranger"):
            known.came_to_nothing(one)
    assert known.queues().keys() == {"work"}
    assert known.sharer("home") == known.sharer("work"), "it keeps its share"
    assert known.changes == before + 2
    known.add("home", "user bob")
    known.rested(HASTY_CONNECTIONS // HASTY_FORGIVEN - 1)
    assert known.queues().keys() == {"work"}
    changed = known.changes
    known.rested(1)
    assert known.queues().keys() == {"member", "home", "work"}
    assert known.changes == changed + 1


def test_only_known_peers_are_counted() -> None:
    known = KnownPeers()
    for _ in range(HASTY_CONNECTIONS):
        known.came_to_nothing("home")
    peers = [f"peer {number}" for number in range(PEERS_OF_NAME_MAX + 1)]
    for peer in peers:
        known.add(peer, "user alice")
        for _ in range(HASTY_CONNECTIONS):
            known.came_to_nothing(peer)
    for peer in ("home", peers[0]):
        known.add(peer, "user bob")
        known.remove_member(peer)
    assert known.queues().keys() == {"home", peers[0]}, "it was forgotten while it was not known"
