"""A fixed, short campaign of whole simulated clusters, and what the simulator promises of itself."""

import os
import subprocess
import sys

import pytest

from leasehold.coordinator.leasing import Leasing
from leasehold.coordinator.procedures import Procedures
from leasehold.core.records import BarrierReceipt
from leasehold.errors import CheckFailed
from leasehold.ids import Sequence, Term
from leasehold.testing.simulation import simulate

SEEDS = range(100, 160)
HASH_SEEDS = ("1", "2")
DIGEST = "from leasehold.testing.simulation import simulate; print(simulate({seed}).digest)"


@pytest.mark.parametrize("seed", SEEDS)
def test_every_invariant_holds_in_a_cluster_that_is_broken_at_random(seed: int) -> None:
    outcome = simulate(seed)
    assert outcome.statements > 10
    assert sum(outcome.faults.values()) > 5


@pytest.mark.parametrize("seed", [100, 101])
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
    assert digests == {f"{simulate(seed).digest}\n"}


def test_the_campaign_is_not_idle() -> None:
    """What the fixed seeds come to together: every kind of work is done, and most kinds of fault happen."""
    outcomes = [simulate(seed) for seed in SEEDS[:12]]
    assert {one.coordinators for one in outcomes} == {1, 2, 3}
    assert sum(one.writes for one in outcomes) > 20
    assert sum(one.scans for one in outcomes) > 100
    assert sum(one.batches for one in outcomes) > 50
    assert len({kind for one in outcomes for kind in one.faults}) >= 12


def violations() -> str:
    """What goes wrong in the fixed seeds, all in one text."""
    found: list[str] = []
    for seed in SEEDS[:20]:
        try:
            simulate(seed)
        except CheckFailed as error:
            found.append(error.text.splitlines()[0])
    return "\n".join(found)


def test_the_campaign_notices_a_leader_that_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def proceeds(_self: Leasing, revision: int, _on_number: object = None) -> BarrierReceipt:
        return BarrierReceipt(revision=revision, term=Term(1), sequence=Sequence(1), settled=())

    monkeypatch.setattr(Leasing, "barrier", proceeds)
    assert "INV-SERVE-1" in violations()


def test_the_campaign_notices_a_leader_that_resumes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Procedures, "resume", lambda _self: None)
    assert "LIVENESS" in violations()
