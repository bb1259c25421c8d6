"""Who has a place where there are not enough for all."""

from collections.abc import Container

from hypothesis import given
from hypothesis import strategies as st

from leasehold.limits.http2 import STRANGERS_PART
from leasehold.wire.http2.fair_room import FairRoom


class Guest:
    pass


def room(*, per_peer: int = 3, places: int = 4, known: Container[str] = ()) -> FairRoom[Guest]:
    return FairRoom(per_peer_max=per_peer, places=places, known=known)


def test_a_peer_has_at_most_so_many_places() -> None:
    here = room()
    first = [Guest() for _ in range(3)]
    assert [here.enter("a", one) for one in first] == [None] * 3
    one_more = Guest()
    assert here.enter("a", one_more) is one_more
    here.leave("a", one_more)
    assert here.enter("a", one_more) is one_more, "it had no place to leave"
    here.leave("a", first[1])
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
    here = room(per_peer=8, places=STRANGERS_PART, known={"k", "l"})
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
    here = room(per_peer=64, places=2 * STRANGERS_PART, known={"k", "l"})
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


def test_strangers_keep_no_known_peer_out() -> None:
    known = {f"known {number}" for number in range(4)}
    here = room(known=known | {"one more"})
    for peer in known:
        assert here.enter(peer, Guest()) is None
    one_more = Guest()
    assert here.enter("one more", one_more) is one_more, "all known peers have as many"
    here = room(known=known | {"one more"})
    for peer in [*known][:3]:
        assert here.enter(peer, Guest()) is None
    stranger = Guest()
    assert here.enter("stranger", stranger) is None
    assert here.enter("one more", one_more) is stranger


def test_a_peer_counts_as_what_it_is_now() -> None:
    known = {"a"}
    here = room(per_peer=5, places=STRANGERS_PART, known=known)
    guests = [(peer, Guest()) for peer in "aaabbbcc"]
    for peer, one in guests:
        assert here.enter(peer, one) is None
    known.add("b")
    assert here.enter("b", Guest()) is guests[6][1], "b is a stranger no more"
    known.discard("b")
    known.add("d")
    assert here.enter("d", Guest()) is guests[0][1], "a has most of those that are known"
    assert here.enter("d", Guest()) is guests[3][1], "b has most of the strangers"


def test_who_leaves_makes_room() -> None:
    here = room(per_peer=1, places=1)
    member, client = Guest(), Guest()
    assert here.enter("a", member) is None
    here.leave("a", member)
    assert here.enter("a", client) is None
    here.leave("a", member)
    further = Guest()
    assert here.enter("a", further) is further, "the client is still there"


ACTS = st.tuples(st.sampled_from("abklm"), st.sampled_from(["enter", "leave", "know", "forget"]))


@given(st.lists(ACTS, max_size=80))
def test_nothing_is_there_twice_or_beyond_the_places(acts: list[tuple[str, str]]) -> None:
    known: set[str] = set("k")
    here, there = room(per_peer=5, places=8, known=known), dict[Guest, str]()
    for peer, act in acts:
        if act == "know":
            known.add(peer)
        elif act == "forget":
            known.discard(peer)
        elif act == "enter":
            one = Guest()
            goes = here.enter(peer, one)
            assert goes is None or goes is one or goes in there
            there[one] = peer
            if goes is not None:
                del there[goes]
        elif leaves := next((one for one, whose in there.items() if whose == peer), None):
            del there[leaves]
            here.leave(peer, leaves)
        assert len(there) <= 8
        assert all(list(there.values()).count(one) <= 5 for one in "abklm")
        assert here.taken == len(there)
