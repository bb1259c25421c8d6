"""Who has a place where there are not enough for all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.limits.people import PEERS_OF_NAME_MAX
from leasehold.limits.requests import STRANGERS_PART
from leasehold.wire.fair_room import FairRoom
from leasehold.wire.known_peers import KnownPeers


class Guest:
    pass


def users(*peers: str) -> KnownPeers:
    """Each peer is that of a user of this name."""
    known = KnownPeers()
    for peer in peers:
        known.add(peer, f"user {peer}")
    return known


def room(*, per_peer: int = 3, places: int = 4, known: KnownPeers | None = None) -> FairRoom[Guest]:
    return FairRoom(per_peer_max=per_peer, places=places, known=known)


def test_a_peer_has_at_most_so_many_places() -> None:
    here = room()
    first = [Guest() for _ in range(3)]
    assert [here.enter("a", one) for one in first] == [None] * 3
    one_more = Guest()
    assert here.enter("a", one_more) is one_more
    here.leave(one_more)
    assert here.enter("a", one_more) is one_more, "it had no place to leave"
    here.leave(first[1])
    assert here.enter("a", Guest()) is None


def test_who_has_most_gives_way_to_others() -> None:
    here = room()
    first, second, third = (Guest() for _ in range(3))
    for one in (first, second, third):
        assert here.enter("a", one) is None
    assert here.enter("b", Guest()) is None
    assert here.enter("c", Guest()) is first
    further = Guest()
    assert here.enter("c", further) is further, "c would have as many as a"
    assert here.enter("d", Guest()) is second


def test_who_came_first_gives_way_where_all_strangers_have_as_many() -> None:
    here = room()
    first = {peer: Guest() for peer in "abcd"}
    for peer, one in first.items():
        assert here.enter(peer, one) is None
    assert here.enter("e", Guest()) is first["a"]
    assert here.enter("a", Guest()) is first["b"]


def test_strangers_above_their_part_give_way_to_known_peers() -> None:
    here = room(per_peer=8, places=STRANGERS_PART, known=users("k", "l"))
    for _ in range(3):
        assert here.enter("k", Guest()) is None
    strangers = [Guest() for _ in range(STRANGERS_PART - 3)]
    for one in strangers:
        assert here.enter("a", one) is None
    own = Guest()
    assert here.enter("b", own) is strangers[0], "strangers give way to each other"
    assert [here.enter("l", Guest()) for _ in range(3)] == strangers[1:4]
    assert here.enter("k", Guest()) is own
    further = Guest()
    assert here.enter("l", further) is further, "nobody has two more"


def test_known_peers_keep_no_newcomer_out() -> None:
    here = room(per_peer=64, places=2 * STRANGERS_PART, known=users("k", "l"))
    first = [Guest() for _ in range(2 * STRANGERS_PART)]
    for one in first:
        assert here.enter("k", one) is None
    strangers = {peer: Guest() for peer in "ab"}
    assert [here.enter(*one) for one in strangers.items()] == first[:2], "of their part"
    third = Guest()
    assert here.enter("c", third) is strangers["a"], "there is no more of it"
    further = Guest()
    assert here.enter("c", further) is further, "the others have as many"
    assert here.enter("l", Guest()) is first[2], "known peers give way to each other"


def test_a_room_of_known_peers_with_one_place_each_has_one_for_a_stranger() -> None:
    peers = [f"known {number}" for number in range(STRANGERS_PART)]
    here = room(places=STRANGERS_PART, known=users(*peers, "one more"))
    guests = [Guest() for _ in peers]
    for peer, one in zip(peers, guests, strict=True):
        assert here.enter(peer, one) is None
    stranger = Guest()
    assert here.enter("stranger", stranger) is guests[0]
    own = Guest()
    assert here.enter("stranger", own) is own, "it has one"
    assert here.enter("one more", Guest()) is stranger, "strangers keep no known peer out"
    further = Guest()
    assert here.enter(peers[0], further) is further, "all known peers have as many"


def test_all_peers_of_a_user_count_as_one() -> None:
    known = KnownPeers()
    for peer in ("a1", "a2", "a3"):
        known.add(peer, "user a")
    known.add("b", "user b")
    here = room(per_peer=3, places=6, known=known)
    first = [Guest() for _ in range(6)]
    for peer, one in zip(("a1", "a2", "a3", "a1", "a2", "b"), first, strict=True):
        assert here.enter(peer, one) is None
    assert [here.enter("b", Guest()) for _ in range(2)] == first[:2], "the user's oldest ones"
    own = Guest()
    assert here.enter("b", own) is own, "it has as many as the user from all addresses"


def test_a_peer_counts_as_what_it_is_now() -> None:
    known = KnownPeers()
    known.add_member("a")
    here = room(per_peer=5, places=STRANGERS_PART, known=known)
    guests = [(peer, Guest()) for peer in "aaabbbcc"]
    for peer, one in guests:
        assert here.enter(peer, one) is None
    known.add_member("b")
    assert here.enter("b", Guest()) is guests[6][1], "b is a stranger no more"
    known.remove_member("b")
    known.add_member("d")
    assert here.enter("d", Guest()) is guests[3][1], "b is a stranger again"


@pytest.mark.parametrize("newcomer", ["stranger", "user 0"])
def test_those_that_have_become_known_are_no_strangers(newcomer: str) -> None:
    """Though they came in as such."""
    known = users("user 0")
    here = room(places=2 * STRANGERS_PART, known=known)
    peers = [f"peer {number}" for number in range(2 * STRANGERS_PART)]
    for peer in peers:
        assert here.enter(peer, Guest()) is None
    for peer in peers:
        known.add(peer, "user one")
    assert here.enter(newcomer, Guest()) is not None
    assert len(here) == 2 * STRANGERS_PART


def test_who_leaves_makes_room() -> None:
    here = room(per_peer=1, places=1)
    member, client = Guest(), Guest()
    assert here.enter("a", member) is None
    here.leave(member)
    assert here.enter("a", client) is None
    here.leave(member)
    further = Guest()
    assert here.enter("a", further) is further, "the client is still there"


ACTS = st.tuples(st.sampled_from("abklm"), st.sampled_from(["enter", "leave", "know", "forget", "log in"]))


@given(st.lists(ACTS, max_size=80))
def test_nothing_is_there_twice_or_beyond_the_places(acts: list[tuple[str, str]]) -> None:
    known = KnownPeers()
    known.add_member("k")
    here, there = room(per_peer=5, places=8, known=known), dict[Guest, str]()
    for number, (peer, act) in enumerate(acts):
        if act == "know":
            known.add_member(peer)
        elif act == "forget":
            known.remove_member(peer)
        elif act == "log in":
            known.add(peer, f"user {number % (PEERS_OF_NAME_MAX // 8)}")
        elif act == "enter":
            one = Guest()
            is_new, has_most = peer not in there.values(), list(there.values()).count(peer) >= 5
            goes = here.enter(peer, one)
            assert goes is None or goes is one or goes in there
            assert not (is_new and goes is one) or peer in known, "no stranger is kept out"
            assert not has_most or goes is one
            there[one] = peer
            if goes is not None:
                del there[goes]
        elif leaves := next((one for one, whose in there.items() if whose == peer), None):
            del there[leaves]
            here.leave(leaves)
        assert len(here) == len(there) <= 8
        assert all(list(there.values()).count(one) <= 5 for one in "abklm")
