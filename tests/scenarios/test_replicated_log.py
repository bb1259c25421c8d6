"""A meta storage over a log whose store loses, delays and repeats requests: what a caller was told is what happened."""

import asyncio

import msgspec
import pytest

from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS
from leasehold.core.log.leadership import first_record
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.operations import Change, Txn
from leasehold.errors import Indefinite, LeaseholdError
from leasehold.ids import FIRST_GENERATION
from leasehold.limits.lease import LEADER_POLL_NS
from leasehold.limits.log import LEADERSHIP_DURATION_NS, LOG_HEAD_POLL_NS, LOG_UPKEEP_NS
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.contract import LeadershipLost
from leasehold.testing.requests import LATE_S, RequestFate, undisturbed
from tests.scenarios.log_words import (
    BEAT,
    ELECTION,
    Ground,
    appends,
    cut_off,
    fare,
    hold,
    simulate,
    until,
    value,
)

LOST = [RequestFate.LOST_BEFORE, RequestFate.LOST_AFTER, RequestFate.LATE]
LARGE = [b"large%d" % number for number in range(6)]
"""Together more than an entry holds."""
UNCERTAIN = [*LOST, RequestFate.DOUBLED]


def by_name(fate: RequestFate) -> str:
    return fate.name


# ---------------------------------------------------------------- appends


@pytest.mark.parametrize("fate", UNCERTAIN, ids=by_name)
@pytest.mark.parametrize("tries", [1, 2])
def test_an_append_without_an_answer_happens_once_and_is_answered_with_its_revision(
    fate: RequestFate, tries: int
) -> None:
    async def scenario(ground: Ground) -> None:
        leader = await (await ground.member("c1")).lead()
        first = await leader.put(b"a")
        sent = fare(leader, appends, *[fate] * tries)
        second = await leader.put(b"b")
        assert (second.succeeded, second.revision) == (True, first.revision + 1)
        assert len(sent) >= 1
        await asyncio.sleep(2 * LATE_S)
        assert ground.logged() == {b"a": 1, b"b": 1}
        assert ground.entries() == 2
        assert leader.leadership.term == 1

    simulate(scenario)


def test_an_append_of_parts_without_answers_happens_once() -> None:
    async def scenario(ground: Ground) -> None:
        leader = await (await ground.member("c1")).lead()
        fates = [*UNCERTAIN, *UNCERTAIN]
        sent = fare(leader, lambda request: appends(request) or request.startswith("swap part/"), *fates)
        told = await leader.put(*LARGE, value=bytes(200_000))
        assert told.revision == 1
        assert len(sent) > len(fates)
        await asyncio.sleep(2 * LATE_S)
        assert ground.entries() == 1
        other = await ground.member("c2")
        assert await value(other, LARGE[-1]) == bytes(200_000)

    simulate(scenario)


def test_a_late_append_changes_nothing_once_another_term_has_begun() -> None:
    """The next leader has appended nothing yet: the head is as it was."""

    async def scenario(ground: Ground) -> None:
        old, new = await (await ground.member("c1")).lead(), await ground.member("c2")
        await old.put(b"a")
        sent = fare(old, appends, RequestFate.LATE)
        asking = asyncio.ensure_future(old.put(b"b"))
        await until(lambda: sent)
        await asyncio.sleep(0.001)
        await old.kill()
        with pytest.raises(Indefinite):
            await asking
        began_ns = ground.loop.now_ns()
        await new.lead()
        assert ground.loop.now_ns() - began_ns < LATE_S * SECOND_NS
        await asyncio.sleep(LATE_S)
        assert ground.logged() == {b"a": 1}
        assert (await new.put(b"c")).revision == 2

    simulate(scenario)


def test_an_append_that_is_declined_ends_the_leadership_and_is_answered_as_not_done() -> None:
    async def scenario(ground: Ground) -> None:
        leader, other = await (await ground.member("c1")).lead(), await ground.member("c2")
        await leader.put(b"a")
        standing = await other.log.leader()
        record = first_record(standing, generation=FIRST_GENERATION, holder="c2", duration_ns=LEADERSHIP_DURATION_NS)
        assert await other.log.elect(standing, record) is not None
        fare(leader, lambda request: request == "get log/term", RequestFate.LOST_BEFORE)
        told = await leader.put(b"b")
        assert not told.succeeded
        assert ground.logged() == {b"a": 1}
        with pytest.raises(LeadershipLost):
            await leader.leadership.hold(lambda _: None)
        assert leader.ends_ns > ground.clock.now_ns(), "it did not have to wait for its end"
        with pytest.raises(LeadershipLost):
            await leader.storage.compact((await leader.storage.status()).minimum, leader.leadership.fence())

    simulate(scenario)


def test_a_leader_cut_off_from_the_store_knows_nothing_of_its_transaction_until_its_leadership_ends() -> None:
    async def scenario(ground: Ground) -> None:
        leader = await (await ground.member("c1")).lead()
        await leader.put(b"a")
        cut_off(leader)
        with pytest.raises(Indefinite, match="the leadership ended"):
            await leader.put(b"b")
        assert 0 <= ground.clock.now_ns() - leader.ends_ns < SECOND_NS // 4

    simulate(scenario)


def test_the_parts_of_an_append_stay_whose_leadership_ends_before_it_is_known_to_have_happened() -> None:
    """A round of the upkeep has waited for it, and goes on when the store answers again, before the next election."""

    async def scenario(ground: Ground) -> None:
        leader, is_cut_off = await (await ground.member("c1")).lead(), False

        async def before(request: str) -> RequestFate:
            nonlocal is_cut_off
            if not is_cut_off and appends(request):
                is_cut_off = True
                return RequestFate.LOST_AFTER
            await asyncio.sleep(0.01)
            lost = is_cut_off and request != "size"  # which etcd tells without a majority too
            return RequestFate.LOST_BEFORE if lost else RequestFate.ANSWERED

        await leader.clock.sleep_until(leader.clock.now_ns() + LOG_UPKEEP_NS - SECOND_NS)
        leader.client.before = before
        with pytest.raises(Indefinite, match="the leadership ended"):
            await leader.put(*LARGE, value=bytes(200_000))
        leader.client.before = undisturbed
        await asyncio.sleep(1)
        other = await (await ground.member("c2")).lead()
        assert await value(other, LARGE[-1]) == bytes(200_000)

    simulate(scenario)


def test_a_transaction_of_a_leader_that_resumes_under_a_later_term_is_not_done() -> None:
    """It leads again in the same process; what it was asked for under its first term is not decided under its third."""

    async def scenario(ground: Ground) -> None:
        first = await (await ground.member("c1")).lead()
        of_term_1 = first.leadership.fence()
        await first.leadership.resign()
        second = await (await ground.member("c2")).lead()
        with pytest.raises(LeadershipLost):
            await first.storage.compact((await first.storage.status()).minimum, of_term_1)
        assert not (await first.storage.txn(Txn(compares=of_term_1, then=(Change(b"a", b"1"),)))).succeeded
        await second.leadership.resign()
        await first.lead()
        assert first.leadership.term == 3
        assert not (await first.storage.txn(Txn(compares=of_term_1, then=(Change(b"a", b"1"),)))).succeeded
        assert (await first.put(b"b")).succeeded
        assert ground.logged() == {b"b": 1}

    simulate(scenario)


def test_what_waits_joins_one_append_and_each_transaction_has_its_revision() -> None:
    async def scenario(ground: Ground) -> None:
        leader = await (await ground.member("c1")).lead()
        told = await asyncio.gather(*(leader.put(b"k%d" % number) for number in range(20)))
        assert [one.revision for one in told] == list(range(1, 21))
        assert ground.entries() <= 2

    simulate(scenario)


def test_a_full_store_declines_what_it_is_asked_for_and_goes_on_once_it_has_room() -> None:
    async def scenario(ground: Ground) -> None:
        leader = await (await ground.member("c1")).lead()
        ground.kept.is_full = True
        with pytest.raises(LeaseholdError, match="full"):
            await leader.put(b"a")
        await asyncio.sleep(1)
        ground.kept.is_full = False
        await asyncio.sleep(LEADERSHIP_DURATION_NS / SECOND_NS)
        assert (await leader.put(b"a")).succeeded, "a beat got through in time"
        fare(leader, appends, RequestFate.LOST_BEFORE)
        asking = asyncio.ensure_future(leader.put(b"b"))
        await asyncio.sleep(0.001)
        ground.kept.is_full = True
        with pytest.raises(Indefinite):
            await asking
        assert ground.clock.now_ns() >= leader.ends_ns

    simulate(scenario)


# ---------------------------------------------------------------- leadership


def test_of_two_candidates_one_leads_and_the_other_follows_it() -> None:
    async def scenario(ground: Ground) -> None:
        both = [await ground.member("c1"), await ground.member("c2")]
        asking = {asyncio.ensure_future(one.lead()): one for one in both}
        (won,), _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        leader = asking.pop(won)
        ((waiting, other),) = asking.items()
        assert leader.leadership.term == 1
        await asyncio.sleep(4 * LEADERSHIP_DURATION_NS / SECOND_NS)
        assert not waiting.done()
        await leader.put(b"a")
        cut_off(leader)
        await waiting
        assert ground.clock.now_ns() > leader.ends_ns
        assert other.leadership.term == 2
        assert (await other.put(b"a", value=b"2")).revision == 2

    simulate(scenario)


def test_a_term_lasts_as_long_as_the_settings_said_at_its_election() -> None:
    """Also for a candidate that had begun to wait before."""
    settings = msgspec.structs.replace(DEFAULT_SETTINGS, leadership_duration_ns=10 * SECOND_NS)

    async def scenario(ground: Ground) -> None:
        leader, other = await (await ground.member("c1")).lead(), await ground.member("c2")
        waiting = asyncio.ensure_future(other.lead())
        await asyncio.sleep(1)
        await leader.put(keys.SETTINGS, value=encode(settings))
        await asyncio.sleep(2)
        assert leader.ends_ns - ground.clock.now_ns() <= LEADERSHIP_DURATION_NS, "its own term goes on as it began"
        await leader.leadership.resign()
        await waiting
        assert ground.clock.now_ns() + 9 * SECOND_NS < other.ends_ns <= ground.clock.now_ns() + 10 * SECOND_NS
        cut_off(other)
        await leader.lead()
        assert ground.clock.now_ns() > other.ends_ns, "the next candidate waits for the longer term"

    simulate(scenario)


@pytest.mark.parametrize("fate", UNCERTAIN, ids=by_name)
def test_an_election_without_an_answer_is_won_once_and_counts_from_its_first_sending(fate: RequestFate) -> None:
    async def scenario(ground: Ground) -> None:
        candidate = await ground.member("c1")
        sent = fare(candidate, lambda request: request == ELECTION, fate)
        leadership = await candidate.storage.campaign("c1")
        assert leadership.term == 1
        assert leadership.deadline_ns() == sent[0] + LEADERSHIP_DURATION_NS
        holding = asyncio.ensure_future(hold(leadership, lambda _: None))
        await asyncio.sleep(2 * LATE_S)
        assert not holding.done(), "a late try changes nothing"
        holding.cancel()

    simulate(scenario)


@pytest.mark.parametrize("fate", UNCERTAIN, ids=by_name)
def test_a_beat_without_an_answer_counts_from_its_first_sending(fate: RequestFate) -> None:
    async def scenario(ground: Ground) -> None:
        leader = await ground.member("c1")
        told: list[int | None] = []
        leadership = await leader.storage.campaign("c1")
        sent = fare(leader, lambda request: request == BEAT, fate, fate)
        holding = asyncio.ensure_future(hold(leadership, told.append))
        await until(lambda: told)
        assert told == [sent[0] + LEADERSHIP_DURATION_NS]
        await asyncio.sleep(2 * LATE_S)
        assert leadership.term == 1
        assert not holding.done()
        holding.cancel()

    simulate(scenario)


def test_a_candidate_counts_on_while_answers_are_lost() -> None:
    """Every second one is lost: it is no later than a poll after the others would have been."""

    async def scenario(ground: Ground) -> None:
        leader, other = await (await ground.member("c1")).lead(), await ground.member("c2")
        reads = 0

        async def before(request: str) -> RequestFate:
            nonlocal reads
            await asyncio.sleep(0)
            reads += request == "get log/leader"
            return RequestFate.LOST_AFTER if request == "get log/leader" and reads % 2 else RequestFate.ANSWERED

        other.client.before = before
        asking = asyncio.ensure_future(other.lead())
        await asyncio.sleep(2)
        await leader.kill()
        gone_ns = ground.clock.now_ns()
        await asking
        assert ground.clock.now_ns() - gone_ns < 3_600_000_000 + 2 * LEADER_POLL_NS

    simulate(scenario)


def test_a_follower_that_misses_every_wake_reads_the_head_all_the_same() -> None:
    async def scenario(ground: Ground) -> None:
        leader, other = await (await ground.member("c1")).lead(), await ground.member("c2")
        fare(other, lambda request: request == "watch log/head", *[RequestFate.LOST_BEFORE] * 99)
        await leader.put(b"a")
        await asyncio.sleep(1.5 * LOG_HEAD_POLL_NS / SECOND_NS)
        assert (await other.storage.get(b"a")) is not None

    simulate(scenario)


def test_a_candidate_takes_what_was_given_up_as_soon_as_the_store_tells_it() -> None:
    async def scenario(ground: Ground) -> None:
        leader, other = await (await ground.member("c1")).lead(), await ground.member("c2")
        waiting = asyncio.ensure_future(other.lead())
        await asyncio.sleep(1.25 * LEADER_POLL_NS / SECOND_NS)
        began_ns = ground.clock.now_ns()
        await leader.leadership.resign()
        await waiting
        assert ground.clock.now_ns() - began_ns < LEADER_POLL_NS // 10

    simulate(scenario)


def test_a_candidate_that_misses_every_wake_takes_it_after_a_poll() -> None:
    async def scenario(ground: Ground) -> None:
        leader, other = await (await ground.member("c1")).lead(), await ground.member("c2")
        fare(other, lambda request: request == "watch log/leader", *[RequestFate.LOST_BEFORE] * 99)
        waiting = asyncio.ensure_future(other.lead())
        await asyncio.sleep(1.25 * LEADER_POLL_NS / SECOND_NS)
        began_ns = ground.clock.now_ns()
        await leader.leadership.resign()
        await waiting
        assert ground.clock.now_ns() - began_ns <= LEADER_POLL_NS

    simulate(scenario)
