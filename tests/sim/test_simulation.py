"""A fixed, short campaign of whole simulated clusters, and what the simulator promises of itself."""

import asyncio
import os
import subprocess
import sys
from functools import cache

import pytest

from leasehold.coordinator.nodes.leases import Leasing, RunningBarrier
from leasehold.coordinator.statements.procedures import Procedures
from leasehold.coordinator.statements.run_effects import RunEffects
from leasehold.coordinator.statements.unfinished import LiveStatement
from leasehold.core.data import read_access
from leasehold.core.ddl.effects import Awaited, AwaitTurn
from leasehold.core.ddl.events import RunEvent
from leasehold.core.lease.barrier import Fail, Proceed
from leasehold.core.lease.grantor import Grantor
from leasehold.core.lease.grants import GrantorEffect, GrantorEvent, RenewalReceived
from leasehold.core.words.records import BarrierReceipt
from leasehold.errors import CheckFailed
from leasehold.ids import Revision, Sequence, Term
from leasehold.testing.ambush import StatementPlace
from leasehold.testing.simulation import simulate
from tests.few import few
from tests.sim.broken import refused_wrongly

SEEDS = range(100, 112)
SEEDS_LONG = range(112, 150)
HUNTING = range(100, 156)
"""The seeds of which one notices what is broken."""
HASH_SEEDS = ("1", "2")
DIGEST = "from leasehold.testing.simulation import simulate; print(simulate({seed}).digest)"


simulated = cache(simulate)
"""The outcome of a seed of the campaign; whoever looks at it, it is run once."""


@pytest.mark.parametrize("seed", few(len(SEEDS), [*SEEDS, *SEEDS_LONG]))
def test_every_invariant_holds_in_a_cluster_that_is_broken_at_random(seed: int) -> None:
    outcome = simulated(seed)
    assert outcome.statements > 10
    assert sum(outcome.faults.values()) > 5


@pytest.mark.parametrize("seed", [100])
def test_the_same_seed_gives_the_same_trace_under_any_hash_seed(seed: int) -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-W", "error", "-c", DIGEST.format(seed=seed)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in HASH_SEEDS
    }
    assert len(digests) == 1
    assert digests == {f"{simulated(seed).digest}\n"}


def test_the_campaign_is_not_idle() -> None:
    """What the fixed seeds come to together: every kind of work is done, and most kinds of fault happen."""
    outcomes = [simulated(seed) for seed in SEEDS]
    assert {one.coordinators for one in outcomes} == {1, 2, 3}
    assert sum(one.writes for one in outcomes) > 20
    assert sum(one.scans for one in outcomes) > 100
    assert sum(one.batches for one in outcomes) > 50
    kinds = {kind for one in outcomes for kind in one.faults}
    assert len(kinds) >= 12
    assert len([kind for kind in kinds if kind.startswith("leader killed")]) >= len(StatementPlace) - 2


def noticed(invariant: str, likely: int = HUNTING[0]) -> bool:
    """Whether one of the seeds violates it. The likely one did when its test was written, and is run first."""
    for seed in (likely, *(one for one in HUNTING if one != likely)):
        try:
            simulate(seed)
        except CheckFailed as error:
            if invariant in error.text.splitlines()[0]:
                return True
    return False


def test_the_campaign_notices_a_leader_that_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def proceeds(_self: Leasing, revision: Revision, *, give_up_ns: int | None = None) -> RunningBarrier:
        receipt = BarrierReceipt(revision=revision, term=Term(1), sequence=Sequence(1), settled=())
        verdict: asyncio.Future[Proceed | Fail] = asyncio.get_running_loop().create_future()
        verdict.set_result(Proceed(receipt=receipt))
        return RunningBarrier(revision=revision, give_up_ns=give_up_ns, number=None, verdict=verdict)

    monkeypatch.setattr(Leasing, "ask", proceeds)
    assert noticed("INV-SERVE-1")


def test_the_campaign_notices_nodes_that_check_no_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_access, "check_read", lambda *_: None)
    assert noticed("INV-RIGHT-1", 101)


@pytest.mark.long  # few seeds come to it
def test_the_campaign_notices_nodes_that_check_no_rights_on_views(monkeypatch: pytest.MonkeyPatch) -> None:
    check_read = read_access.check_read
    monkeypatch.setattr(read_access, "check_read", lambda login, table, _, view: check_read(login, table, (), view))
    assert noticed("INV-RIGHT-1", 149)


def test_the_campaign_notices_nodes_that_serve_through_dropped_views(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_access, "check_through", lambda *_: None)
    assert noticed("INV-RIGHT-1", 110)


def test_the_campaign_notices_a_leader_that_resumes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Procedures, "resume", lambda _self: None)
    assert noticed("LIVENESS", 109)


def test_the_campaign_notices_a_leader_that_resumes_late_and_counts_from_then(monkeypatch: pytest.MonkeyPatch) -> None:
    finish = RunEffects.finish

    async def late(self: RunEffects, effect: Awaited, running: LiveStatement) -> RunEvent:
        if isinstance(effect, AwaitTurn) and running.asked is None:
            await asyncio.sleep(40)
        return await finish(self, effect, running)

    monkeypatch.setattr(RunEffects, "finish", late)
    assert noticed("INV-DDL-1", 103)


def test_the_campaign_notices_a_bound_that_nothing_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Leasing.published_bound_ns
    monkeypatch.setattr(Leasing, "published_bound_ns", lambda self: 2 * told(self))
    assert noticed("INV-DDL-1")


def test_the_campaign_notices_a_leader_that_ends_processes_for_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Grantor.step

    def wrongly(self: Grantor, event: GrantorEvent, now_ns: int) -> tuple[GrantorEffect, ...]:
        if isinstance(event, RenewalReceived) and event.renewal.request % 50 == 49:
            return (refused_wrongly(event.renewal, "DIVERGED"),)
        return step(self, event, now_ns)

    monkeypatch.setattr(Grantor, "step", wrongly)
    assert noticed("INV-ID-2")
