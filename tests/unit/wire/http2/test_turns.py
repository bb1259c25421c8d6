"""Peers share a server's time."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.limits.http2 import (
    DEBT_NS_MAX,
    KNOWN_WEIGHT,
    NEWCOMER_NS,
    NEWCOMERS_NS,
    SHARERS_REMEMBERED,
    STRANGERS_LATER_NS,
    TURN_NS,
)
from leasehold.wire.http2.turns import FairTurns

ALWAYS_NS = TURN_NS // 100
PEERS = ("a", "b", "c", "d")


def weight_of(known: str) -> Callable[[str], int]:
    return lambda peer: KNOWN_WEIGHT if peer == known else 1


def served(fair: FairTurns[str], cost_ns: dict[str, int], turns_taken: int) -> Counter[str]:
    """How long the server worked for each peer, whose connections come again at once."""
    worked = Counter[str]()
    for _ in range(turns_taken):
        fair.begin(TURN_NS)
        while (peer := fair.next()) is not None:
            fair.spend(peer, cost_ns[peer])
            worked[peer] += cost_ns[peer]
            fair.wait(peer, peer)
    return worked


def newcomer_goes_first(fair: FairTurns[str]) -> None:
    """Until it has used what it has in hand; then it waits."""
    for _ in range(NEWCOMER_NS // TURN_NS):
        fair.begin(TURN_NS)
        fair.wait("newcomer", "newcomer")
        assert fair.next() == "newcomer"
        fair.spend("newcomer", TURN_NS)
    fair.spend("newcomer", 2 * ALWAYS_NS)
    fair.begin(0)
    fair.wait("newcomer", "newcomer")


def test_bytes_are_looked_at_at_once_until_the_turn_is_used_up() -> None:
    fair = FairTurns[str]()
    assert fair.may_go()
    fair.spend("a", TURN_NS)
    assert not fair.may_go()
    fair.begin(TURN_NS)
    assert fair.may_go()


def test_nothing_overtakes_who_waits() -> None:
    fair = FairTurns[str]()
    fair.wait("a", "1")
    assert not fair.may_go()
    assert fair.next() == "1"
    assert fair.may_go()
    assert fair.next() is None


def test_a_turn_ends() -> None:
    fair = FairTurns[str]()
    for number in range(3):
        fair.wait("a", str(number))
    fair.spend("a", TURN_NS)
    assert fair.next() is None
    fair.begin(0)
    assert fair.next() == "0"
    fair.spend("b", TURN_NS)
    assert fair.next() is None


def test_who_has_taken_least_is_next_and_a_peers_own_in_order() -> None:
    fair = FairTurns[str]()
    fair.spend("a", 3 * ALWAYS_NS)
    fair.spend("b", ALWAYS_NS)
    for one in ("a1", "b1", "a2", "b2", "c1"):
        fair.wait(one[0], one)
    order: list[str | None] = []
    for _ in range(5):
        one = fair.next()
        assert one is not None
        order.append(one)
        fair.spend(one[0], 1)
    assert order == ["c1", "b1", "b2", "a1", "a2"]


def test_what_a_peer_spends_while_it_waits_counts() -> None:
    """Its calls go on meanwhile."""
    fair = FairTurns[str]()
    fair.wait("a", "a")
    fair.wait("b", "b")
    fair.spend("a", ALWAYS_NS)
    assert [fair.next(), fair.next()] == ["b", "a"]


def test_a_peer_that_comes_later_has_little_claim_on_what_was_before() -> None:
    fair = FairTurns[str]()
    costs = dict.fromkeys(PEERS, ALWAYS_NS)
    fair.wait("a", "a")
    served(fair, costs, 100)
    fair.wait("b", "b")
    worked = served(fair, costs, 100)
    assert worked["b"] - worked["a"] == pytest.approx(NEWCOMER_NS, abs=3 * ALWAYS_NS)


def test_the_first_requests_of_a_newcomer_do_not_wait_for_a_crowd() -> None:
    crowd = [f"stranger {number}" for number in range(240)]
    fair = FairTurns[str]()
    for peer in crowd:
        fair.wait(peer, peer)
    served(fair, dict.fromkeys(crowd, ALWAYS_NS), 240 * (NEWCOMER_NS // TURN_NS + 1))
    newcomer_goes_first(fair)
    assert fair.next() != "newcomer"


def test_all_newcomers_together_go_before_others_for_half_of_the_time() -> None:
    fair = FairTurns[str]()
    costs = dict.fromkeys(PEERS, ALWAYS_NS)
    for peer in PEERS:
        fair.wait(peer, peer)
    served(fair, costs, 4 * (NEWCOMER_NS // TURN_NS + 1))
    first = later = 0
    for number in range(200):
        fair.begin(TURN_NS)
        peer = f"newcomer {number}"
        for _ in range(3):  # who has no credit has one piece before others
            fair.wait(peer, peer)
            if fair.next() == peer:
                fair.spend(peer, TURN_NS // 3)
                first += 1
            else:
                later += 1
    assert later > 60, "third pieces, once half of the time has been used so"
    assert first > 300


def test_peers_without_end_are_forgotten_but_for_those_that_have_used_most() -> None:
    fair = FairTurns[str]()
    for one in ("a", "b", "c"):
        fair.spend(one, TURN_NS)
    fair.wait("c", "c")  # so time does not settle what they have used
    for number in range(10 * SHARERS_REMEMBERED):
        fair.begin(TURN_NS)
        fair.spend(f"stranger {number}", ALWAYS_NS)
        assert len(fair) <= 2 * SHARERS_REMEMBERED + 1
    for one in ("a", "newcomer", "b"):
        fair.wait(one, one)
    assert fair.next() == "newcomer", "as one that was forgotten"


def test_time_in_which_nobody_waits_settles_debts() -> None:
    fair = FairTurns[str]()
    fair.spend("a", TURN_NS)
    fair.begin(2 * TURN_NS)
    fair.wait("a", "a")
    fair.spend("b", 1)
    fair.wait("b", "b")
    assert fair.next() == "a"


@given(st.fixed_dictionaries({peer: st.integers(TURN_NS // 50, 2 * TURN_NS) for peer in PEERS}))
def test_peers_that_always_want_more_get_as_much_each(cost_ns: dict[str, int]) -> None:
    fair = FairTurns[str]()
    for peer in PEERS:
        fair.wait(peer, peer)
    worked = served(fair, cost_ns, 60)
    assert max(worked.values()) - min(worked.values()) <= 2 * max(cost_ns.values())


@given(st.lists(st.tuples(st.sampled_from(PEERS), st.integers(0, TURN_NS)), max_size=60))
def test_each_that_waits_has_its_turn_once(waits: list[tuple[str, int]]) -> None:
    fair = FairTurns[int]()
    for number, (peer, spent_ns) in enumerate(waits):
        fair.wait(peer, number)
        fair.spend(peer, spent_ns)
    found: list[int] = []
    for _ in waits:
        fair.begin(0)
        while (one := fair.next()) is not None:
            found.append(one)
            fair.spend(waits[one][0], waits[one][1])
    assert sorted(found) == list(range(len(waits)))
    fair.begin(0)
    assert fair.may_go()
    assert not fair._order, "nothing is left of them"
    assert not fair._newcomers


def test_a_peer_that_was_alone_owes_little() -> None:
    fair = FairTurns[str]()
    for _ in range(1_000):
        fair.spend("a", 2 * TURN_NS, is_of_turn=False)
        fair.begin(TURN_NS)
    assert fair.may_go(), "other threads have worked"
    for peer in ("a", "b"):
        fair.wait(peer, peer)
    worked = served(fair, {"a": ALWAYS_NS, "b": ALWAYS_NS}, 2 * DEBT_NS_MAX // TURN_NS)
    assert worked["a"] > 0


def test_all_peers_of_a_user_share_as_one_and_take_turns() -> None:
    fair = FairTurns[str](lambda peer: peer[0])
    costs = dict.fromkeys(("a1", "a2", "a3", "b1"), ALWAYS_NS)
    for peer in costs:
        fair.wait(peer, peer)
    worked = served(fair, costs, 20)
    assert worked["b1"] == pytest.approx(sum(worked.values()) / 2, abs=2 * ALWAYS_NS)
    assert worked["a1"] == pytest.approx(worked["a3"], abs=2 * ALWAYS_NS)


def test_who_becomes_known_while_it_waits_is_found_where_it_waits() -> None:
    sharers = dict[str, str]()
    fair = FairTurns[str](lambda peer: sharers.get(peer, peer))
    for one in ("a1", "a2", "b1"):
        fair.wait(one[0], one)
    sharers["a"] = "user"
    fair.wait("a", "a3")
    fair.forget("a", "a1")
    fair.forget("a", "a1")
    found = [fair.next() for _ in range(4)]
    assert sorted(one for one in found if one is not None) == ["a2", "a3", "b1"]
    assert fair.may_go()


def test_what_was_not_used_is_given_back() -> None:
    fair = FairTurns[str]()
    fair.give_back("c", 1)
    for peer in ("a", "b"):
        fair.spend(peer, NEWCOMER_NS + 2 * ALWAYS_NS, is_of_turn=False)
    fair.give_back("b", ALWAYS_NS)
    for peer in ("a", "b", "c"):
        fair.wait(peer, peer)
    assert [fair.next() for _ in range(3)] == ["c", "b", "a"]


def test_nobody_becomes_a_newcomer_by_what_is_given_back() -> None:
    fair = FairTurns[str](weight=weight_of("known"))
    fair.spend("a", NEWCOMER_NS, is_of_turn=False)
    fair.give_back("a", NEWCOMER_NS)
    fair.wait("a", "a")
    fair.wait("known", "known")
    fair.begin(2 * NEWCOMERS_NS)  # all may go before others
    assert fair.next() == "known"


def test_a_newcomer_that_waits_is_not_overtaken_by_later_ones() -> None:
    """Others have used up what newcomers may use."""
    fair = FairTurns[str](weight=weight_of("known"))
    fair.wait("known", "known")
    fair.wait("first", "first")
    for number in range(NEWCOMERS_NS // NEWCOMER_NS + 1):
        fair.spend(f"other {number}", NEWCOMER_NS, is_of_turn=False)
    assert fair.next() == "known"
    fair.wait("known", "known")
    fair.begin(4 * NEWCOMERS_NS)
    fair.wait("later", "later")
    assert [fair.next() for _ in range(3)] == ["first", "later", "known"]


def test_a_host_that_becomes_known_owes_no_more_than_known_ones_may() -> None:
    known = set[str]()
    fair = FairTurns[str](weight=lambda peer: KNOWN_WEIGHT if peer in known else 1)
    fair.spend("host", NEWCOMER_NS + DEBT_NS_MAX, is_of_turn=False)
    fair.spend("stranger", NEWCOMER_NS + DEBT_NS_MAX // 2, is_of_turn=False)
    known.add("host")
    for one in ("stranger", "host"):
        fair.wait(one, one)
    assert fair.next() == "host"


def test_strangers_leave_known_peers_most_of_the_time() -> None:
    strangers = [f"stranger {number}" for number in range(KNOWN_WEIGHT)]
    fair = FairTurns[str](weight=weight_of("a"))
    costs = dict.fromkeys(("a", *strangers), ALWAYS_NS)
    for peer in costs:
        fair.wait(peer, peer)
    served(fair, costs, 2 * KNOWN_WEIGHT * NEWCOMER_NS // TURN_NS)
    worked = served(fair, costs, 20)
    assert worked["a"] > 0.8 * sum(worked[one] for one in strangers)


def test_newcomers_leave_known_peers_half_of_the_time() -> None:
    strangers = [f"stranger {number}" for number in range(KNOWN_WEIGHT)]
    fair = FairTurns[str](weight=weight_of("a"))
    costs = dict.fromkeys(("a", *strangers), ALWAYS_NS)
    for peer in costs:
        fair.wait(peer, peer)
    worked = served(fair, costs, 10 * NEWCOMERS_NS // TURN_NS)
    assert worked["a"] == pytest.approx(10 * NEWCOMERS_NS / 2 - NEWCOMERS_NS, rel=0.1)


def test_a_newcomer_goes_before_known_peers() -> None:
    fair = FairTurns[str](weight=lambda peer: 1 if peer == "newcomer" else KNOWN_WEIGHT)
    costs = dict.fromkeys(PEERS, ALWAYS_NS)
    for peer in PEERS:
        fair.wait(peer, peer)
    served(fair, costs, 4 * len(PEERS) * NEWCOMER_NS // TURN_NS)
    newcomer_goes_first(fair)
    assert fair.next() in PEERS


def test_a_known_peer_gets_back_what_it_has_not_used() -> None:
    fair = FairTurns[str](weight=weight_of("a"))
    for peer in ("b", "c"):
        fair.spend(peer, NEWCOMER_NS, is_of_turn=False)
    for peer in ("a", "b"):
        fair.spend(peer, STRANGERS_LATER_NS, is_of_turn=False)
    fair.spend("a", 2 * KNOWN_WEIGHT * STRANGERS_LATER_NS, is_of_turn=False)
    fair.give_back("a", 2 * KNOWN_WEIGHT * STRANGERS_LATER_NS)
    for peer in ("b", "a", "c"):
        fair.wait(peer, peer)
    assert [fair.next() for _ in range(3)] == ["a", "c", "b"]


def test_a_known_peer_goes_before_strangers_that_were_quiet_for_longer() -> None:
    fair = FairTurns[str](weight=weight_of("a"))
    fair.spend("a", TURN_NS)
    fair.begin(0)
    for number in range(100):
        fair.spend(f"stranger {number}", NEWCOMER_NS, is_of_turn=False)
        fair.wait(f"stranger {number}", f"stranger {number}")
    fair.wait("a", "a")
    assert fair.next() == "a"


def test_a_known_peer_does_not_starve_strangers() -> None:
    fair = FairTurns[str](weight=weight_of("a"))
    costs = {"a": ALWAYS_NS, "b": ALWAYS_NS}
    for peer in costs:
        fair.wait(peer, peer)
    worked = served(fair, costs, 4 * KNOWN_WEIGHT)
    pieces = worked["b"] // ALWAYS_NS
    assert worked["a"] < (pieces + 1) * KNOWN_WEIGHT * (STRANGERS_LATER_NS + ALWAYS_NS)


def test_a_known_peer_that_was_alone_owes_no_more_than_a_stranger() -> None:
    fair = FairTurns[str](weight=weight_of("a"))
    fair.spend("a", 1_000 * DEBT_NS_MAX, is_of_turn=False)
    for one in ("b1", "b2", "a1"):
        fair.wait(one[0], one)
    assert fair.next() == "b1"
    fair.spend("b", NEWCOMER_NS + TURN_NS // 5, is_of_turn=False)
    assert fair.next() == "a1", "a owes its part of the most"


def test_who_has_gone_waits_no_more() -> None:
    fair = FairTurns[str]()
    for one in ("a1", "a2", "b1"):
        fair.wait(one[0], one)
    fair.forget("a", "a1")
    fair.forget("b", "b1")
    fair.forget("b", "b1")
    fair.forget("c", "c1")
    assert [fair.next(), fair.next()] == ["a2", None]
    assert fair.may_go()
    fair.wait("b", "b2")
    assert fair.next() == "b2"
