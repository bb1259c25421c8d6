"""The physical topology, member by member: joining, suspicion, refutation, leaving, comparing."""

import pytest

from leasehold.core.swim.events import LeaveRequested, Started
from leasehold.core.swim.messages import Ack, MemberPage, News, Ping, State, Sync
from leasehold.core.swim.suspicion import shortest_ns, suspect
from leasehold.core.words.time_passed import TimePassed
from leasehold.limits.swim import (
    SWIM_DEAD_KEPT_NS,
    SWIM_MEMBERS_MAX,
    SWIM_PERIOD_NS,
    SWIM_SEED_RETRY_NS,
    SWIM_SUSPICION_STRETCH,
    SWIM_SYNC_ANSWERS_MAX,
    SWIM_SYNC_NS,
)
from tests.unit.core.swim_words import MS, By, S, claim, dead, member, news, suspected, to_ping

# ---------------------------------------------------------------- joining


def test_seeds_are_asked_until_one_answers():
    by = By(seeds=("a:1", "b:1", "me:1"))
    by.tick()
    asked = by.take()
    assert [address for address, _ in asked] == ["a:1", "b:1"]
    assert all(isinstance(one, Sync) and one.claims[0] == claim("me") for _, one in asked)
    began_ns = by.now_ns
    while not (again := by.kinds(Sync)):
        by.tick()
    assert by.now_ns == began_ns + SWIM_SEED_RETRY_NS
    assert len(again) == 2
    by.get(MemberPage(sender="a", answer=False, claims=(claim("a"),)))
    by.pass_time(by.now_ns + 3 * S, answer=("a",))
    assert by.kinds(Sync) == []


def test_a_member_without_seeds_waits_to_be_found():
    by = By()
    by.pass_time(by.now_ns + 30 * S)
    assert by.take() == []
    by.hear(claim("a"), sender="a")
    assert by.changes == [("a", State.ALIVE)]


def test_a_newcomer_does_not_repeat_what_it_was_told_on_joining():
    by = By(seeds=("a:1",))
    by.tick()
    by.take()
    by.get(MemberPage(sender="a", answer=False, claims=(claim("a"), claim("b"))))
    _, ping = to_ping(by)
    assert all(one.member.name == "me" for one in ping.claims)


def test_nothing_is_heard_before_the_start_nor_of_itself():
    by = By(start=False)
    assert by.hear(claim("a")) == ()
    by.step(Started())
    assert by.hear(claim("a"), sender="me") == ()
    with pytest.raises(AssertionError, match="once"):
        by.step(Started())


def test_more_members_than_fit_are_not_taken_in():
    by = By()
    for number in range(SWIM_MEMBERS_MAX + 3):
        by.hear(claim(f"n{number}"))
    assert len(by.swim.seen()) == 1 + SWIM_MEMBERS_MAX


# ---------------------------------------------------------------- suspicion, refutation


def test_a_suspicion_is_the_shorter_the_more_confirm_it_on_their_own():
    one = suspect("a", 200, 0)
    lone_ns = one.deadline_ns
    assert lone_ns == SWIM_SUSPICION_STRETCH * shortest_ns(200)
    assert not one.confirm("a")
    assert one.confirm("b")
    assert shortest_ns(200) < one.deadline_ns < lone_ns
    assert one.confirm("c")
    assert one.deadline_ns == shortest_ns(200)
    assert not one.confirm("d")
    assert suspect("a", 2, 0).deadline_ns == shortest_ns(2) == shortest_ns(10) < shortest_ns(11)


def test_a_suspect_refutes_at_once_by_a_higher_incarnation():
    by = By(knows=("a", "b"))
    by.take()
    by.hear(suspected("me", 1, by="b"), sender="a")
    [(address, said)] = by.take()
    assert (address, said) == ("a:1", News(sender="me", claims=(claim("me", 2),)))
    assert by.swim.health == 1
    by.hear(dead("me", 7), sender="a")
    assert by.swim.seen()[0] == claim("me", 8)
    assert by.swim.health == 1


@pytest.mark.parametrize("state", [State.SUSPECT, State.DEAD, State.LEFT])
def test_a_refutation_that_did_not_arrive_is_repeated_to_whoever_lacks_it(state):
    by = By(knows=("a", "b"))
    by.hear(suspected("me", 1, by="b"), sender="b")
    by.pass_time(by.now_ns + 60 * S, answer=("a", "b"))
    by.take()
    by.hear(claim("me", 1, state), sender="a")
    assert by.take() == [("a:1", News(sender="me", claims=(claim("me", 2),)))]
    assert by.swim.health == 0, "it has blamed itself already"
    by.hear(claim("me", 1), sender="a")
    assert by.take() == [], "no suspicion waits for it"


def test_a_refutation_ends_a_suspicion():
    by = By(knows=("a", "b", "c"))
    by.hear(suspected("a", by="b"))
    by.hear(claim("a", 2))
    by.pass_time(by.now_ns + 60 * S, answer=("a", "b", "c"))
    assert ("a", State.DEAD) not in by.changes
    assert by.sees("a") is State.ALIVE


def test_whoever_is_not_seen_alive_hears_of_it_first():
    by = By(knows=("a", "b"))
    by.hear(dead("a"), sender="b")
    by.pass_time(by.now_ns + 5 * S, answer=("b",))
    by.take()
    by.get(Ping(sender="a", number=3, target="me"))
    [(_, ack)] = by.kinds(Ack)
    assert ack.claims == (dead("a"),)


def test_the_same_name_at_another_address_is_the_same_member():
    by = By(knows=("a",))
    by.hear(claim("a", 2, port=5))
    assert by.changes == [("a", State.ALIVE), ("a", State.ALIVE)]
    assert len(by.swim.seen()) == 2
    address, _ = to_ping(by)
    assert address == "a:5"


def test_a_process_started_anew_takes_the_incarnation_above_its_former_ones():
    by = By(seeds=("a:1",))
    by.tick()
    by.get(MemberPage(sender="a", answer=True, claims=(claim("me", 5, State.LEFT, port=3), claim("a"))))
    assert by.swim.seen()[0] == claim("me", 6)
    assert by.swim.health == 0


def test_an_older_claim_says_nothing_new():
    by = By(knows=("a",))
    for later, older in (
        (claim("a", 3), dead("a", 2)),
        (suspected("a", 3), claim("a", 3)),
        (dead("a", 4), claim("a", 4)),
    ):
        by.hear(later)
        changes = list(by.changes)
        by.hear(older)
        assert by.changes == changes


# ---------------------------------------------------------------- leaving, forgetting


def test_who_leaves_says_so_and_does_nothing_after():
    by = By(knows=("a", "b", "c"))
    by.take()
    by.step(LeaveRequested())
    said = by.take()
    assert {address for address, _ in said} == {"a:1", "b:1", "c:1"}
    assert all(one.claims[0] == claim("me", 1, State.LEFT) for _, one in said)
    assert by.hear(suspected("me")) == ()
    by.leave()
    assert by.step(LeaveRequested()) == ()
    assert by.step(TimePassed()) == ()


def test_who_left_is_not_suspected():
    by = By(knows=("a", "b"))
    by.hear(claim("a", 1, State.LEFT))
    by.pass_time(by.now_ns + 20 * S, answer=("b",))
    assert [state for name, state in by.changes if name == "a"] == [State.ALIVE, State.LEFT]


def test_the_dead_are_remembered_for_a_while_and_not_revived_by_what_was_said_before():
    by = By(knows=("a", "b"))
    by.hear(dead("a"))
    by.pass_time(by.now_ns + SWIM_DEAD_KEPT_NS - SWIM_SYNC_NS, answer=("b",))
    by.hear(claim("a"))
    assert by.sees("a") is State.DEAD
    by.pass_time(by.now_ns + 3 * SWIM_SYNC_NS, answer=("b",))
    assert by.sees("a") is None
    by.hear(dead("a"))
    assert by.sees("a") is None


# ---------------------------------------------------------------- comparing


def test_members_that_know_the_same_say_no_more_than_that():
    one, other = By(), By()
    one.swim = one.swim.__class__(me=member("one"), seeds=(), draw=lambda _below: 0)
    other.swim = other.swim.__class__(me=member("other"), seeds=("one:1",), draw=lambda _below: 0)
    one.step(Started())
    other.step(Started())
    one.hear(claim("other"), claim("z"), sender="other")
    other.hear(claim("one"), claim("z"), sender="one")
    one.take()
    other.take()
    sent = other.pass_time(other.now_ns + SWIM_SYNC_NS, answer=("one", "z"))
    question = next(datagram for _, datagram in sent if isinstance(datagram, Sync))
    one.get(question)
    assert one.kinds(MemberPage) == []
    one.hear(claim("z", 2), sender="z")
    one.get(question)
    [(address, page)] = one.kinds(MemberPage)
    assert address == "other:1"
    assert page.answer
    other.get(page)
    assert other.sees("z") is State.ALIVE
    [(_, back)] = other.kinds(MemberPage)
    assert not back.answer


def test_a_death_that_a_page_tells_of_only_makes_suspect():
    by = By(knows=("a", "b", "c"))
    by.get(MemberPage(sender="b", answer=False, claims=(dead("a"),)))
    assert by.sees("a") is State.SUSPECT


def test_the_gone_are_asked_now_and_then_so_that_halves_meet_again():
    by = By(knows=("a", "b"))
    by.hear(dead("a"))
    by.take()
    asked = set()
    began_ns = by.now_ns
    while by.now_ns < began_ns + 3 * SWIM_SYNC_NS:
        by.tick()
        asked |= {address for address, one in by.take() if isinstance(one, Sync)}
    assert "a:1" in asked


def test_only_so_many_full_answers_are_given_in_a_period():
    by = By(knows=("a",))
    by.take()
    for _ in range(SWIM_SYNC_ANSWERS_MAX + 9):
        by.get(Sync(sender="z", digest=b"different"[:8]))
    assert len(by.kinds(MemberPage)) == SWIM_SYNC_ANSWERS_MAX
    by.pass_time(by.now_ns + SWIM_PERIOD_NS + MS)
    by.take()
    by.step(news())
    by.get(Sync(sender="z", digest=b"different"[:8]))
    assert len(by.kinds(MemberPage)) == 1
