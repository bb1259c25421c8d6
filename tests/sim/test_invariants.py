"""Every invariant is proven: a history that breaks it, and nothing else, is noticed by exactly that invariant.

Those of the lease are proven by production code that is broken on purpose (`broken.py`), the rest by histories made by
hand (`broken_histories.py`). A sound history, and the production runtimes, are noticed by none.
"""

import asyncio
from collections import Counter
from functools import partial

import msgspec
import pytest

from leasehold.core.lease.grantor import Grantor
from leasehold.core.words.records import Claiming, Outcome, Step
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.cluster import SimulatedCluster
from leasehold.testing.history import Committed
from leasehold.testing.invariants import INVARIANTS, finish, named
from leasehold.testing.invariants.liveness import healed
from leasehold.testing.leases.ground import SETTINGS
from leasehold.testing.loop import run_virtual
from leasehold.testing.news import Granted, LetIn
from leasehold.testing.observe import watched_grantor
from leasehold.testing.oracle import Invariant, InvariantViolated, Oracle
from leasehold.testing.vault import VaultDisk, VaultStep
from tests.sim import broken_catalog, broken_data, broken_log, broken_opens
from tests.sim.broken import BREAKS, FollowsTheBound
from tests.sim.broken_histories import BROKEN, allocated, entered, hidden
from tests.sim.histories import Told
from tests.sim.record_words import (
    PRE_DELETE,
    SECOND_NS,
    counters,
    hex_128,
    node,
    procedure,
    receipt,
    segment,
    statement,
    table,
    transaction,
)

assert broken_data.BROKEN is broken_catalog.BROKEN is broken_log.BROKEN is broken_opens.BROKEN is BROKEN, (
    "they add their own"
)
ALL = [(history, invariants) for histories in BROKEN.values() for history, invariants in histories]


@pytest.mark.parametrize(("history", "invariants"), ALL, ids=[history.__name__ for history, _ in ALL])
def test_a_broken_history_is_noticed_by_its_invariant_and_by_no_other(history, invariants):
    for invariant in invariants:
        with pytest.raises(InvariantViolated) as caught:
            history(Told(named(invariant)))
        assert caught.value.invariant == invariant
    others = tuple(one for one in INVARIANTS if one.id not in invariants)
    told = Told(others)
    history(told)
    finish(told.oracle)


@pytest.mark.parametrize(("history", "invariants"), ALL, ids=[history.__name__ for history, _ in ALL])
def test_an_invariant_that_hears_only_what_it_declares_notices_the_same_at_the_same_step(history, invariants):
    seen = []
    for one in named(invariants[0]):
        for checked in (one, one._replace(hears=None)):
            with pytest.raises(InvariantViolated) as caught:
                history(Told((checked,)))
            seen.append((caught.value.what, caught.value.step))
    assert seen[0] == seen[1]


def test_a_check_can_not_read_what_its_invariant_does_not_declare():
    def check(oracle):
        return f"{len(oracle.of(Committed)) + len(oracle.of(LetIn))} in all"

    for hears in (frozenset({Committed, LetIn}), None):
        with pytest.raises(InvariantViolated, match="1 in all"):
            Told((Invariant("INV-NEW", check, hears),)).commit(node(1))
    told = Told((Invariant("INV-NEW", check, frozenset({Committed})),))
    with pytest.raises(AssertionError, match="LetIn, which it does not declare"):
        told.commit(node(1))


def test_an_invariant_is_checked_when_what_it_declares_is_told_and_one_that_declares_nothing_always():
    checked = []
    told = Told(
        (
            Invariant("commits", lambda _: checked.append("commits"), frozenset({Committed})),
            Invariant("entrances", lambda _: checked.append("entrances"), frozenset({LetIn, Granted})),
            Invariant("always", lambda _: checked.append("always")),
        )
    )
    told.oracle.saw(LetIn(node=1, incarnation=1, required=2))
    told.step()
    assert checked == ["entrances", "always"]
    told.commit(node(1))
    told.step()
    assert checked[2:] == ["commits", "always", "always"]


def test_every_invariant_has_something_that_it_catches():
    assert {one.id for one in INVARIANTS} == {broken.invariant for broken in BREAKS.values()} | set(BROKEN)
    with pytest.raises(KeyError):
        named("INV-NONE")


# ---------------------------------------------------------------- what is sound


def test_a_sound_history_is_noticed_by_none():
    told = Told(INVARIANTS)
    told.elect(1)
    entered(told)
    told.go_on(1)
    told.oracle.saw(LetIn(node=1, incarnation=1, required=2))
    one = told.written()
    process = told.process(revision=told.revision)
    told.publish(process, told.catalog(told.revision))
    told.lease(process, 60)
    told.wrote(a=10)
    told.scan(Counter(a=10))
    told.scan({one.id: one.rows})
    told.scan({}, revision=told.revision - 1)
    at = told.commit(table(state=PRE_DELETE), procedure(), statement())
    told.publish(process, told.catalog(at))
    told.commit(procedure(Step.FINISHED), gone=[table(), one])
    told.answer(receipt(revision=at))
    told.commit(statement(Outcome.COMMITTED, at), gone=[procedure()])
    told.answer(receipt(revision=at))
    for host in ("n1", "n2"):
        told.hold(told.image(told.revision, host), host, directory=int(host[1:]), step=VaultStep.OPENED)
        told.remove(one, host)
    finish(told.oracle)
    assert told.oracle.history.running() == []


def test_a_rolled_back_drop_crosses_nothing():
    told = Told(INVARIANTS)
    hidden(told)
    told.process(revision=1, leased_s=9)
    told.commit(table(), statement(Outcome.ROLLED_BACK), gone=[procedure()])
    finish(told.oracle)


SOUND = [broken_catalog.a_sound_cascade, broken_catalog.a_sound_delete, broken_data.a_sound_overwrite]


@pytest.mark.parametrize("history", SOUND)
def test_what_a_statement_or_a_write_may_do_is_noticed_by_none(history):
    told = Told(INVARIANTS)
    history(told)
    finish(told.oracle)


def test_a_rollback_told_once_it_is_durable_is_no_violation():
    told = Told(INVARIANTS)
    hidden(told)
    told.commit(table(), statement(Outcome.ROLLED_BACK), gone=[procedure()])
    told.answer(receipt(Outcome.ROLLED_BACK, revision=None))
    finish(told.oracle)


def test_a_directory_put_in_the_place_of_another_may_have_another_id():
    told = Told(INVARIANTS)
    entered(told)
    told.identity(None, directory=2)
    told.identity(Claiming(token=hex_128(2)), directory=2)
    told.commit(node(2))
    told.identity(allocated(0, number=2, token=2), directory=2)


@pytest.mark.parametrize("lost", ["disk", "damage"])
def test_what_is_lost_on_purpose_need_not_stay(lost):
    told = Told(INVARIANTS)
    one = told.written(hosts=("n1",))
    if lost == "disk":
        told.disks["n1"].files.clear()
        told.oracle.disk_lost("n1")
        told.step()
    else:
        told.oracle.damaged("n1", one.id)
        told.remove(one)


def test_a_process_that_was_superseded_may_end_and_a_report_of_the_newest_incarnation_counts():
    told = Told(named("INV-ID-2"))
    told.commit(counters(), node(2, incarnation=2, session=b"s"))
    told.ended(1, b"r", number=2)
    told.ended(2, b"r", number=2)
    one = told.written(segment(holders=(1,)))
    told.report(one, number=2, incarnation=2)
    # Decided before the join, and in one transaction with it.
    told.commit(node(2, incarnation=3, session=b"t"), msgspec.structs.replace(one, holders=(1, 2)))


def test_a_commit_is_held_against_the_settings_of_its_own_revision():
    told = Told(named("INV-REP-1"))
    one = told.written(hosts=("n1",))
    told.commit(msgspec.structs.replace(SETTINGS, min_in_sync=2))
    told.oracle.machine_crashed("n2")
    told.step()
    late_one = segment(8)
    told.keep(late_one, "n1")
    with pytest.raises(InvariantViolated, match=r"INV-REP-1 .* 1 durable copies, 2 are promised"):
        told.commit(transaction(number=8), late_one)
    assert one.id != late_one.id


def test_a_file_may_be_damaged_before_its_commit():
    told = Told(named("INV-REP-1"))
    told.written(hosts=("n1", "n2"), settings=msgspec.structs.replace(SETTINGS, min_in_sync=2))
    late_one = segment(8)
    told.keep(late_one, "n1")
    told.oracle.damaged("n2", late_one.id)
    told.commit(transaction(number=8), late_one)


# ---------------------------------------------------------------- clocks


@pytest.mark.parametrize("drift_ppm", [-10_000, -1, 0, 3, 10_000])
def test_an_observer_knows_the_first_instant_of_a_reading(drift_ppm):
    async def main(random):
        loop = asyncio.get_running_loop()
        clock = SimulatedClock(loop, drift_ppm=drift_ppm, offset_ns=random.randrange(SECOND_NS))

        async def reaches(local_ns):
            real_ns = clock.real_ns(local_ns)
            await asyncio.sleep((real_ns - 1 - loop.now_ns()) / SECOND_NS)
            assert loop.now_ns() == real_ns - 1
            assert clock.now_ns() < local_ns
            await asyncio.sleep(1 / SECOND_NS)
            assert clock.now_ns() >= local_ns
            assert clock.real_ns(clock.now_ns()) <= loop.now_ns()

        for _ in range(20):
            await reaches(clock.now_ns() + random.randrange(1_000, 3 * SECOND_NS))
            clock.jump(random.randrange(SECOND_NS))
            assert clock.real_ns(clock.now_ns()) <= loop.now_ns()
            await reaches(clock.now_ns() + random.randrange(1_000, 3 * SECOND_NS))
            clock.set_drift(random.randrange(-10_000, 10_000))

    run_virtual(main, 1)


# ---------------------------------------------------------------- the production runtimes


class Over(Exception):
    """The scenario has ended: what still runs is cancelled."""


def live(body, seed=1, invariants=INVARIANTS, grantor=Grantor, **options):
    """Runs `body(cluster, group)` on a watched cluster; answers the oracle."""
    oracles = []

    async def main(random):
        loop = asyncio.get_running_loop()
        oracle = Oracle(invariants, now_ns=loop.now_ns, seed=seed, command=f"leasehold-sim reproduce --seed {seed}")
        oracles.append(oracle)
        cluster = SimulatedCluster(random, oracle=oracle, **options)
        cluster.watch.grantor = partial(watched_grantor, oracle, kind=grantor)
        try:
            async with asyncio.TaskGroup() as group:
                await cluster.start(group)
                await body(cluster, group)
                finish(oracle)
                raise Over
        except* Over:
            pass

    run_virtual(main, seed, shuffle=True)
    return oracles[0]


async def change_the_catalog(cluster, group):
    del group
    for text in (
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT, b INT)",
        "ALTER TABLE d.t ADD COLUMN c INT",
        "ALTER TABLE d.t DROP COLUMN c",
        "DROP TABLE d.t",
        "DROP DATABASE d",
    ):
        answer = await cluster.sql(text)
        cluster.watch.oracle.answered(answer.statement_id, answer)


@pytest.mark.parametrize("coordinators", [1, 3])
def test_the_production_runtimes_are_seen_and_sound(coordinators):
    async def body(cluster, group):
        await change_the_catalog(cluster, group)
        for one in cluster.nodes:
            passed = one.guard()
            assert passed is not None
            cluster.watch.oracle.passed(one.published, passed)

    oracle = live(body, coordinators=coordinators)
    assert oracle.proceeded > 0
    assert oracle.returned > 0
    assert len(oracle.serves) == 3
    assert oracle.newest_term == 1
    assert sorted(oracle.nodes.values()) == [1, 2, 3]
    assert all(one.view.revision >= oracle.returned for one in oracle.processes.values())
    trace = "\n".join(oracle.trace)
    for words in ("goes on as node", "is leased by 1.", "shows", "the vault of n1"):
        assert words in trace
    assert oracle.digest() == live(body, coordinators=coordinators).digest()


@pytest.mark.parametrize("invariant", ["INV-BARRIER-1", "INV-SERVE-1"])
def test_a_broken_grantor_in_the_production_runtime_is_caught(invariant):
    async def body(cluster, group):
        cluster.nodes[0].pause()
        await change_the_catalog(cluster, group)

    with pytest.raises(InvariantViolated, match=f"{invariant} violated at seed 1, .*: n1 ") as caught:
        live(body, invariants=named(invariant), grantor=FollowsTheBound)
    assert caught.value.invariant == invariant


def test_liveness_waits_for_the_nodes_and_says_who_is_left():
    async def body(cluster, group):
        del group
        oracle, first = cluster.watch.oracle, cluster.nodes[0]
        first.pause()
        await asyncio.sleep(10)

        def not_serving():
            return [one.name for one in cluster.nodes if one.guard() is None]

        with pytest.raises(InvariantViolated, match="n1 can't serve") as caught:
            await healed(oracle, not_serving=not_serving, limit_ns=5 * SECOND_NS)
        assert caught.value.invariant == "LIVENESS"
        first.resume()
        assert 0 < await healed(oracle, not_serving=not_serving) < 5 * SECOND_NS

    live(body)


def test_a_violation_in_a_cluster_ends_the_run_and_says_how_to_repeat_it():
    async def body(cluster, group):
        await change_the_catalog(cluster, group)
        cluster.watch.oracle.returned += 1_000
        await asyncio.sleep(10)

    with pytest.raises(InvariantViolated) as caught:
        live(body, seed=7)
    violation = caught.value
    assert violation.invariant == "INV-SERVE-1"
    assert violation.hint == "leasehold-sim reproduce --seed 7"
    assert f"INV-SERVE-1 violated at seed 7, step {violation.step}, {violation.real_ns / 1e9:.6f} s: " in violation.text
    assert len(violation.text.splitlines()) > 10


def test_a_directory_is_followed_wherever_it_is_put():
    async def body(cluster, group):
        del group
        first, second = cluster.nodes[:2]
        watch = cluster.watch
        watch.vault(second.name, VaultDisk())
        assert watch.oracle.vaults[second.name].durable.identity is None
        watch.vault(second.name, second.disk)
        assert watch.oracle.vaults[second.name].durable.identity.node == watch.oracle.nodes[second.name]
        assert watch.oracle.vaults[first.name].durable.applied <= watch.oracle.vaults[first.name].image.applied

    live(body)
