"""Probes of the physical topology, and how a member finds that it is itself that is slow."""

from leasehold.core.swim.messages import Ack, Nack, Ping, PingRequest, State, Sync
from leasehold.core.swim.suspicion import shortest_ns
from leasehold.core.words.time_passed import TimePassed
from leasehold.limits.swim import SWIM_HEALTH_MAX, SWIM_NACK_NS, SWIM_PERIOD_NS, SWIM_PING_TIMEOUT_NS, SWIM_RELAYS_MAX
from tests.unit.core.swim_words import By, S, claim, suspected, to_ping

# ---------------------------------------------------------------- probes


def test_a_round_of_probes_visits_everybody_once():
    names = ("a", "b", "c", "d", "e")
    by = By(knows=names)
    for _ in range(3):
        visited = []
        for _ in names:
            address, ping = to_ping(by)
            visited.append(ping.target)
            assert address == f"{ping.target}:1"
            by.get(Ack(sender=ping.target, number=ping.number, target=ping.target))
        assert sorted(visited) == list(names)
    assert by.swim.health == 0


def test_a_ping_is_answered_and_one_meant_for_another_is_not():
    by = By(knows=("a",))
    by.take()
    by.get(Ping(sender="a", number=7, target="me"))
    [(address, ack)] = by.take()
    assert (address, ack.number, ack.target) == ("a:1", 7, "me")
    assert by.get(Ping(sender="a", number=8, target="other")) == ()


def test_a_member_that_nobody_knows_is_asked_who_it_is():
    by = By(knows=("a",))
    by.get(Ping(sender="stranger", number=7, target="me"))
    assert [one for one, _ in by.kinds(Sync)] == ["stranger:1"]


def test_without_an_answer_others_are_asked_and_one_answer_is_enough():
    by = By(knows=("a", "b", "c", "d", "e"))
    _, ping = to_ping(by)
    sent_ns = by.now_ns
    by.take()
    while not (requests := by.kinds(PingRequest)):
        by.tick()
    assert by.now_ns == sent_ns + SWIM_PING_TIMEOUT_NS
    assert len({one for one, _ in requests}) == 3
    assert all(one.target == ping.target != address[0] for address, one in requests)
    helper = requests[0][0][0]
    by.get(Ack(sender=helper, number=ping.number, target=ping.target))
    by.pass_time(sent_ns + SWIM_PERIOD_NS)
    assert by.sees(ping.target) is State.ALIVE


def test_a_probe_that_fails_makes_suspect_and_only_then_dead():
    by = By(knows=("a", "b", "c", "d"))
    by.until(lambda: by.sees("a") is State.SUSPECT, answer=("b", "c", "d"))
    began_ns = by.now_ns
    by.hear(suspected("a", by="b"))
    by.hear(suspected("a", by="c"))
    by.until(lambda: by.sees("a") is State.DEAD, answer=("b", "c", "d"))
    assert by.now_ns == began_ns + shortest_ns(5)
    assert [state for name, state in by.changes if name == "a"] == [State.ALIVE, State.SUSPECT, State.DEAD]


def test_an_answer_counts_for_the_open_ping_alone():
    by = By(knows=("a",))
    _, ping = to_ping(by)
    sent_ns = by.now_ns
    for ack in (
        Ack(sender="a", number=ping.number - 1, target="a"),
        Ack(sender="a", number=ping.number, target="b"),
        Ack(sender="b", number=ping.number, target="a"),
    ):
        by.get(ack)
    by.pass_time(sent_ns + SWIM_PERIOD_NS)
    assert by.sees("a") is State.SUSPECT


def test_a_helper_passes_an_answer_on_or_says_that_there_was_none():
    by = By(knows=("a", "b"))
    by.take()
    by.get(PingRequest(sender="a", number=5, target="b", address="b:1"))
    [(address, ping)] = by.take()
    assert (address, ping.target) == ("b:1", "b")
    by.get(Ack(sender="b", number=ping.number, target="b"))
    [(address, ack)] = by.take()
    assert (address, ack.number, ack.target) == ("a:1", 5, "b")

    asked_ns = by.now_ns
    by.get(PingRequest(sender="a", number=6, target="b", address="b:1"))
    by.take()
    while not (nacks := by.kinds(Nack)):
        by.tick()
    assert by.now_ns == asked_ns + SWIM_NACK_NS
    assert [(one, nack.number) for one, nack in nacks] == [("a:1", 6)]


def test_a_helper_makes_so_many_pings_at_once():
    by = By(knows=("a", "b"))
    by.take()
    for number in range(SWIM_RELAYS_MAX + 5):
        by.get(PingRequest(sender="a", number=number, target="b", address="b:1"))
    assert len(by.kinds(Ping)) == SWIM_RELAYS_MAX


# ---------------------------------------------------------------- local health


def test_silent_helpers_speak_against_oneself_and_those_that_say_no_do_not():
    def fail(*, nacks):
        by = By(knows=("a", "b", "c", "d"))
        _, ping = to_ping(by)
        by.take()
        while not (requests := by.kinds(PingRequest)):
            by.tick()
        for address, request in requests[:nacks]:
            by.get(Nack(sender=address[0], number=request.number))
        by.until(lambda: by.sees(ping.target) is State.SUSPECT, at_most_s=1)
        return by.swim.health

    assert [fail(nacks=count) for count in range(4)] == [3, 2, 1, 0]


def test_who_thinks_itself_slow_waits_longer_and_gets_well_by_answers():
    by = By(knows=("a",))
    for _ in range(40):
        by.tick()
    assert 0 < by.swim.health <= SWIM_HEALTH_MAX
    health = by.swim.health
    by.hear(claim("a", 9))
    to_ping(by)
    sent_ns = by.now_ns
    by.until(lambda: by.sees("a") is State.SUSPECT)
    assert by.now_ns == sent_ns + SWIM_PERIOD_NS * (health + 1)
    by.hear(claim("a", 10))
    by.until(lambda: by.swim.health == 0, answer=("a",))
    assert by.sees("a") is State.ALIVE


def test_who_was_asleep_judges_nobody_by_that_time():
    by = By(knows=("a", "b", "c"))
    _, ping = to_ping(by)
    suspect_name = next(one for one in ("a", "b", "c") if one != ping.target)
    by.hear(suspected(suspect_name), sender=ping.target)
    by.now_ns += 60 * S
    by.step(TimePassed())
    assert by.sees(ping.target) is State.ALIVE
    assert by.sees(suspect_name) is State.SUSPECT
    assert by.swim.health == 1
    by.get(Ack(sender=ping.target, number=ping.number, target=ping.target))
    by.hear(claim(suspect_name, 2), sender=ping.target)
    others = ("a", "b", "c")
    by.pass_time(by.now_ns + 60 * S, answer=others)
    assert all(by.sees(one) is State.ALIVE for one in others)


def test_a_sleep_is_counted_once_whatever_is_looked_at_first():
    by = By(knows=("a", "b", "c"))
    by.hear(suspected("a", by="b"))
    awake = By(knows=("a", "b", "c"))
    awake.hear(suspected("a", by="b"))
    assert awake.now_ns == by.now_ns
    late_ns = by.now_ns + 60 * S - by.swim.next_deadline_ns()
    by.now_ns += 60 * S
    for _ in range(5):
        by.hear(claim("b"))
        by.step(TimePassed())
    assert by.swim.health == 1
    for one in (by, awake):
        one.until(lambda one=one: one.sees("a") is State.DEAD, answer=("b", "c"))
    assert by.now_ns == awake.now_ns + late_ns
