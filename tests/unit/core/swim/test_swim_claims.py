"""Claims in any order, any number of times, and datagrams that stay small."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.swim.codec import PAYLOAD_BYTES_MAX, encoded
from leasehold.core.swim.dissemination import Dissemination, retransmissions
from leasehold.core.swim.events import Started
from leasehold.core.swim.machine import Swim
from leasehold.core.swim.messages import Member, MemberClaim, MemberPage, Ping, Role, State, Sync
from leasehold.core.swim.pages import pages
from leasehold.limits.swim import SWIM_MEMBERS_MAX, SWIM_SYNC_PAGES_MAX
from tests.unit.core.swim_words import By, claim, news, suspected

NAMES = ("a", "b", "c")


@st.composite
def claims(draw):
    state = draw(st.sampled_from(State))
    by = draw(st.sampled_from(NAMES)) if state is State.SUSPECT else ""
    return claim(draw(st.sampled_from(NAMES)), draw(st.integers(2, 5)), state, by)


def seen(by):
    return {(one.member.name, *one.rank) for one in by.swim.seen()[1:]}


@given(said=st.lists(claims(), max_size=12), mix=st.randoms(use_true_random=False))
def test_late_doubled_and_reordered_claims_lead_to_the_same_end(said, mix):
    in_order, mixed = By(knows=NAMES), By(knows=NAMES)
    for one in said:
        in_order.hear(one)
    again = said + said
    mix.shuffle(again)
    for one in again:
        mixed.hear(one)
    assert seen(in_order) == seen(mixed)


@given(said=st.lists(claims(), min_size=1, max_size=30))
def test_what_was_heard_once_changes_nothing_when_it_is_replayed(said):
    by = By(knows=NAMES)
    for one in said:
        by.hear(one)
    before, changes = seen(by), list(by.changes)
    for one in said:
        by.hear(one)
    assert (seen(by), by.changes) == (before, changes)


@given(
    about_me=st.lists(st.tuples(st.integers(1, 9), st.sampled_from(State)), min_size=1, max_size=12),
)
def test_a_member_always_has_the_last_word_about_itself(about_me):
    by = By(knows=NAMES)
    for incarnation, state in about_me:
        by.hear(claim("me", incarnation, state, "a" if state is State.SUSPECT else ""))
        mine = by.swim.seen()[0]
        assert mine.state is State.ALIVE
        told = claim("me", incarnation, state)
        assert mine.rank > told.rank or mine == told


@given(accusers=st.lists(st.sampled_from([f"m{number}" for number in range(50)]), min_size=1))
def test_each_accuser_is_passed_on_once_and_only_so_many(accusers):
    by = By(knows=NAMES)
    by.pass_time(by.now_ns + 5_000_000_000, answer=NAMES)
    by.take()
    passed_on = set[str]()
    for number, accuser in enumerate(accusers):
        by.hear(suspected("a", by=accuser))
        by.get(Ping(sender="b", number=number, target="me"))
        [(_, answer)] = by.take()
        passed_on |= {one.by for one in answer.claims if one.state is State.SUSPECT}
    assert passed_on == set(list(dict.fromkeys(accusers))[:3])


def long_claim(number):
    name = f"{number:04}" + "n" * 59
    host = "h" * 253
    member = Member(name=name, address=f"{host}:65535", role=Role.NODE, service=f"{host}:65535", node=2**63)
    return MemberClaim(member=member, incarnation=2**62, state=State.SUSPECT, by="b" * 63)


@settings(max_examples=20)
@given(count=st.integers(0, 60), short=st.integers(0, 60))
def test_pages_hold_all_claims_in_order_and_fit(count, short):
    told = [long_claim(number) for number in range(count)] + [claim(f"s{number}") for number in range(short)]
    made = pages("n" * 63, told, answer=True)
    assert all(len(encoded(one)) <= PAYLOAD_BYTES_MAX for one in made)
    assert [one for page in made for one in page.claims] == told[: sum(len(page.claims) for page in made)]
    assert [page.answer for page in made] == [True] + [False] * (len(made) - 1)
    assert len(made) == SWIM_SYNC_PAGES_MAX or sum(len(page.claims) for page in made) == len(told)


def test_every_datagram_fits_however_much_there_is_to_tell():
    by = By(seeds=("z:1",))
    for number in range(300):
        by.hear(long_claim(number), sender=f"s{number}")
    by.get(Sync(sender="z", digest=bytes(8)))
    for _ in range(200):
        by.tick()
    sent = by.take()
    assert any(len(one.claims) > 1 for _, one in sent)
    assert max(len(encoded(one)) for _, one in sent) <= PAYLOAD_BYTES_MAX
    assert sum(isinstance(one, MemberPage) for _, one in sent) == SWIM_SYNC_PAGES_MAX


def test_a_claim_goes_out_a_bounded_number_of_times_the_least_sent_and_newest_first():
    news = Dissemination()
    for name in NAMES:
        news.put(claim(name))
    size = len(encoded(claim("a")))
    taken = []
    while news:
        [one] = news.take(size, 200)
        taken.append(one.member.name)
    assert taken[:4] == ["c", "b", "a", "c"]
    assert {name: taken.count(name) for name in NAMES} == dict.fromkeys(NAMES, retransmissions(200))
    assert retransmissions(200) == 10
    assert retransmissions(SWIM_MEMBERS_MAX) == 14


def test_a_newer_claim_takes_the_place_of_an_older_one():
    news = Dissemination()
    news.put(claim("a"))
    news.put(claim("a", 2))
    assert news.take(PAYLOAD_BYTES_MAX, 5) == [claim("a", 2)]
    assert news.take(PAYLOAD_BYTES_MAX, 5, but="a") == []


def at(name, address, service):
    return MemberClaim(
        member=Member(name=name, address=address, role=Role.NODE, service=service, node=0),
        incarnation=1,
        state=State.ALIVE,
    )


ELSEWHERE = (
    at("b", "127.0.0.1:7400", "10.0.0.2:7410"),
    at("b", "[::1]:7400", "10.0.0.2:7410"),
    at("b", "localhost:7400", "10.0.0.2:7410"),
    at("b", "[::ffff:127.0.0.9]:7400", "10.0.0.2:7410"),
    at("b", "10.0.0.2:7400", "127.0.0.1:7410"),
    at("b", "10.0.0.2:7400", "localhost:7410"),
)


@pytest.mark.parametrize("said", ELSEWHERE, ids=lambda one: f"{one.member.address} {one.member.service}")
def test_a_member_that_names_a_loopback_address_is_refused_by_those_that_do_not(said):
    by = By(knows=("a",))
    by.hear(said)
    by.hear(msgspec.structs.replace(said, incarnation=2))
    assert by.sees("b") is None
    by.hear(at("b", "10.0.0.2:7400", "10.0.0.2:7410"), sender="b")
    by.hear(msgspec.structs.replace(said, incarnation=9))
    known = next(one for one in by.swim.seen() if one.member.name == "b")
    assert (known.member.address, known.incarnation) == ("10.0.0.2:7400", 1), "nor does it take the place of another"


@pytest.mark.parametrize("said", ELSEWHERE, ids=lambda one: f"{one.member.address} {one.member.service}")
def test_members_on_loopback_know_each_other(said):
    me = Member(name="me", address="127.0.0.1:7401", role=Role.NODE, service="127.0.0.1:7411", node=0)
    swim = Swim(me=me, seeds=(), draw=lambda _: 0)
    swim.step(Started(), 0)
    swim.step(news(said), 1)
    assert [one.member.name for one in swim.seen()] == ["me", "b"]
