"""The simulator's pace: simulated seconds of a whole cluster, every invariant checked, per second of one core."""

import gc
import logging
import time

from bench.figures import Figure, Table, median, quantile
from leasehold.limits.units import SECOND_NS
from leasehold.testing.run_result import RunResult
from leasehold.testing.simulation import simulate

SEEDS, ROUNDS = 30, 3
SMALLEST = 1, 1
"""How many seeds, and how often each is run; the fastest counts, since what else the machine does only adds."""
FIRST_SEED = 1
AIM = 200


def timed(seed: int) -> tuple[RunResult, float, float]:
    """One run, with its CPU seconds and its real ones."""
    gc.collect()
    began, used = time.perf_counter(), time.process_time()
    outcome = simulate(seed)
    return outcome, time.process_time() - used, time.perf_counter() - began


def run(smallest: bool) -> list[Table]:
    count, rounds_each = SMALLEST if smallest else (SEEDS, ROUNDS)
    logging.disable(logging.CRITICAL)  # what simulated nodes have to say
    try:
        timed(FIRST_SEED)  # warms up
        seeds = range(FIRST_SEED, FIRST_SEED + count)
        rounds = [[timed(seed) for seed in seeds] for _ in range(rounds_each)]
    finally:
        logging.disable(logging.NOTSET)
    runs = [min(same, key=lambda one: one[1]) for same in zip(*rounds, strict=True)]
    simulated = [outcome.simulated_ns / SECOND_NS for outcome, _, _ in runs]
    cpu = [cpu_s for _, cpu_s, _ in runs]
    real = [real_s for _, _, real_s in runs]
    steps = sum(outcome.steps for outcome, _, _ in runs)
    by_cpu = [one / used for one, used in zip(simulated, cpu, strict=True)]
    by_clock = [one / took for one, took in zip(simulated, real, strict=True)]
    figures = [
        Figure(
            what=f"simulated s per CPU s, median of {count} seeds, each the best of {rounds_each} runs",
            value=f"{median(by_cpu):.0f} ({min(by_cpu):.0f} to {max(by_cpu):.0f})",
            peer="1 CPU s",
            ratio=f"{median(by_cpu):.0f}",
            aim=f"at least {AIM}",
            holds=median(by_cpu) >= AIM,
        ),
        Figure(
            what="simulated s per real s, median",
            value=f"{median(by_clock):.0f} ({quantile(by_clock, 0.05):.0f} to {quantile(by_clock, 0.95):.0f})",
            peer="1 s",
            ratio=f"{median(by_clock):.0f}",
            aim="report",
        ),
        Figure(
            what="all seeds together",
            value=f"{sum(simulated):.0f} simulated s in {sum(cpu):.1f} CPU s",
            peer="1 CPU s",
            ratio=f"{sum(simulated) / sum(cpu):.0f}",
            aim="report",
        ),
        Figure(what="steps with every invariant checked", value=f"{steps / sum(cpu):,.0f} per CPU s", aim="report"),
    ]
    return [Table(title="Simulation: whole clusters under faults, on one core", figures=figures)]
