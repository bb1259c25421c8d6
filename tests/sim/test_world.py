"""The world lives by its seed, the unbroken protocol survives it, and each broken one is caught by name."""

import os
import subprocess
import sys

import pytest

from leasehold.core.words.records import SettledHow
from leasehold.errors import CheckFailed
from leasehold.testing.invariants import named
from leasehold.testing.leases.world import run
from leasehold.testing.oracle import InvariantViolated
from tests.few import few
from tests.sim.broken import BREAKS, NO_MARGIN, Parts

STEPS = 3_000
CAMPAIGNS = few(1, [range(8), range(8, 120)])
BREAK_SEEDS_MAX = 60

DIGESTS = """
from leasehold.testing.leases.world import run
print([run(seed, 1500).oracle.digest() for seed in (1, 2, 3)])
"""


@pytest.mark.parametrize("seeds", CAMPAIGNS, ids=str)
def test_the_unbroken_world_survives(seeds):
    how, served, terms, incarnations = set(), 0, 0, 0
    for seed in seeds:
        world = run(seed, STEPS)
        how |= {one.how for receipt in world.oracle.receipts for one in receipt.settled}
        served += len(world.oracle.serves)
        terms += world.record.term
        incarnations += sum(one.incarnation for one in world.registered.values())
    # A campaign in which nothing happens proves nothing.
    assert how >= {SettledHow.APPLIED, SettledHow.FENCED, SettledHow.SURRENDERED, SettledHow.ENDED}
    assert served > 50 * len(seeds)
    assert terms > 2 * len(seeds)
    assert incarnations > 4 * len(seeds)


@pytest.mark.parametrize("seeds", few(1, [range(4), range(4, 40)]), ids=str)
@pytest.mark.parametrize("drift_ppm", [0, 10_000])
def test_the_drift_factor_alone_is_enough(drift_ppm, seeds):
    for seed in seeds:
        run(seed, STEPS, parts=Parts(settings=NO_MARGIN, drift_ppm=drift_ppm))


def first_violation(name):
    """What the first seed that notices raises; only the named invariant is looked at."""
    broken = BREAKS[name]
    for seed in range(BREAK_SEEDS_MAX):
        try:
            run(seed, STEPS, parts=broken.parts, invariants=named(broken.invariant))
        except InvariantViolated as violation:
            return violation
    return pytest.fail(f"{name}: not caught in {BREAK_SEEDS_MAX} seeds")


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_world_is_caught(name):
    assert first_violation(name).invariant == BREAKS[name].invariant


def test_a_failure_names_what_repeats_it():
    first, second = first_violation("no floor"), first_violation("no floor")
    assert first.text == second.text
    assert isinstance(first, CheckFailed)
    assert f"seed {first.seed}, step {first.step}" in first.text
    assert f"{first.real_ns / 1e9:.6f} s" in first.text
    assert first.hint == f"leasehold-sim reproduce --world leases --seed {first.seed}"
    # It ends with what led up to it, the last thing last.
    assert first.text.splitlines()[-1].split()[0] == str(first.step)
    # So many steps and not one fewer.
    broken = BREAKS["no floor"]
    again = {"parts": broken.parts, "invariants": named(broken.invariant)}
    run(first.seed, first.step, **again)
    with pytest.raises(InvariantViolated) as caught:
        run(first.seed, first.step + 1, **again)
    assert caught.value.step == first.step


def test_the_same_seed_gives_the_same_trace():
    first, second, other = run(7, STEPS), run(7, STEPS), run(8, STEPS)
    assert list(first.oracle.trace) == list(second.oracle.trace)
    assert first.oracle.digest() == second.oracle.digest() != other.oracle.digest()


def test_the_trace_does_not_depend_on_hash_seeds():
    printed = [
        subprocess.run(
            [sys.executable, "-c", DIGESTS],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert printed[0] == printed[1] != b""


def test_a_command_of_the_caller_is_what_a_failure_tells_to_type():
    broken = BREAKS["no floor"]
    with pytest.raises(InvariantViolated) as caught:
        run(0, STEPS, parts=broken.parts, command="again {seed} {steps}")
    assert caught.value.hint == f"again 0 {STEPS}"
