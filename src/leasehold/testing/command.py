"""The command line of the simulator: `leasehold-sim run | reproduce | campaign`.

Exit codes are those of `leasehold`: 0 all invariants held, 1 one did not, 2 usage.
"""

import logging
import time  # noqa: TID251 how fast the simulator is, is no part of what it simulates
from collections import Counter
from enum import StrEnum
from typing import Annotated, Final

import msgspec
import typer

from leasehold.cli.output import Output, note, say, show_json, show_table
from leasehold.errors import LeaseholdError
from leasehold.limits.units import SECOND_NS
from leasehold.testing.invariants import INVARIANTS
from leasehold.testing.leases.world import run as run_leases
from leasehold.testing.oracle import InvariantViolated
from leasehold.testing.run_result import RunResult
from leasehold.testing.simulation import SECONDS, simulate

STEPS: Final = 2_000
PROGRESS_S: Final = 10.0
LEASES_PER_CLUSTER: Final = 4
"""In a campaign, so many lease worlds are run after each cluster. One more has no divisor in common with 2 or 3, since
what a cluster has depends on its seed modulo each of these."""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run Leasehold's own protocols and processes in simulated time, under faults drawn from a seed.",
)


class SimulatedWorld(StrEnum):
    """The kind of world that is simulated."""

    CLUSTER = "cluster"
    LEASES = "leases"


Seed = Annotated[int, typer.Option("--seed", "-s", min=0, help="What everything is drawn from.")]
Seconds = Annotated[int, typer.Option("--seconds", min=1, max=86_400, help="Faults go on for so long, simulated.")]
Steps = Annotated[int, typer.Option("--steps", min=1, max=100_000_000, help="Steps of a lease world.")]
Kind = Annotated[
    SimulatedWorld, typer.Option("--world", "-w", help="A whole cluster, or holders and grantors step by step.")
]
Out = Annotated[Output, typer.Option("--output", "-o", help="A table for people, or JSON for programs.")]


class CampaignTally(msgspec.Struct, kw_only=True):
    """What a campaign has done so far."""

    seeds: int = 0
    worlds: int = 0
    clusters: int = 0
    steps: int = 0
    simulated_ns: int = 0
    statements: int = 0
    batches: int = 0
    scans: int = 0
    writes: int = 0
    undecided: int = 0
    faults: Counter[str] = msgspec.field(default_factory=Counter)
    violations: int = 0
    real_seconds: float = 0.0
    cluster_seconds: float = 0.0
    """Of it, in clusters."""

    def add(self, outcome: RunResult, real_seconds: float) -> None:
        """Adds the result of one more cluster."""
        self.clusters += 1
        self.steps += outcome.steps
        self.simulated_ns += outcome.simulated_ns
        self.statements += outcome.statements
        self.batches += outcome.batches
        self.scans += outcome.scans
        self.writes += outcome.writes
        self.undecided += outcome.undecided
        self.faults.update(outcome.faults)
        self.cluster_seconds += real_seconds

    def line(self) -> str:
        """The progress, for people."""
        return (
            f"{self.seeds} seeds ({self.clusters} clusters, {self.worlds} lease worlds), {self.steps} steps, "
            f"{self.simulated_ns / SECOND_NS:.0f} simulated s at {self.rate():.0f} per s, "
            f"{sum(self.faults.values())} faults, {self.statements} statements, {self.batches} batches checked, "
            f"{self.violations} violations"
        )

    def rate(self) -> float:
        """Simulated seconds of clusters per real second."""
        return self.simulated_ns / SECOND_NS / self.cluster_seconds if self.cluster_seconds else 0.0


def command_for(world: SimulatedWorld, seed: int, *, seconds: int = SECONDS, steps: int = STEPS) -> str:
    """The command that reproduces a run."""
    if world is SimulatedWorld.LEASES:
        return f"leasehold-sim reproduce --world leases --seed {seed}" + (f" --steps {steps}" * (steps != STEPS))
    return f"leasehold-sim reproduce --seed {seed}" + (f" --seconds {seconds}" * (seconds != SECONDS))


@app.command()
def run(
    seed: Seed,
    world: Kind = SimulatedWorld.CLUSTER,
    seconds: Seconds = SECONDS,
    steps: Steps = STEPS,
    output: Out = Output.TABLE,
) -> None:
    """Run one seed and say what it came to."""
    tally = CampaignTally(seeds=1)
    digest, _ = _run(tally, world, seed, seconds, steps)
    _show(tally, output, digest)


@app.command()
def reproduce(
    seed: Seed,
    world: Kind = SimulatedWorld.CLUSTER,
    seconds: Seconds = SECONDS,
    steps: Steps = STEPS,
) -> None:
    """Run one seed again and print its trace: what happened, in which order, until it ended or an invariant broke."""
    try:
        _, trace = _run(CampaignTally(seeds=1), world, seed, seconds, steps)
    except InvariantViolated as violated:
        for line in violated.trace:
            say(line)
        raise
    for line in trace:
        say(line)
    note("every invariant held")


@app.command()
def campaign(
    seeds: Annotated[
        int | None, typer.Option("--seeds", "-n", min=1, help="So many; without it, until time is up.")
    ] = None,
    minutes: Annotated[float | None, typer.Option("--minutes", "-m", min=0.01, help="At most so long.")] = None,
    first: Annotated[int, typer.Option("--first", min=0, help="The first seed; later ones count up.")] = 1,
    seconds: Seconds = SECONDS,
    output: Out = Output.TABLE,
) -> None:
    """Run seed after seed, clusters and lease worlds, until one fails or all is done."""
    if seeds is None and minutes is None:
        raise typer.BadParameter("say how many --seeds, or how many --minutes")
    tally = CampaignTally()
    began = said = time.monotonic()
    seed = first
    while (seeds is None or tally.seeds < seeds) and (minutes is None or time.monotonic() - began < minutes * 60):
        world = SimulatedWorld.CLUSTER if seed % (LEASES_PER_CLUSTER + 1) == 0 else SimulatedWorld.LEASES
        tally.seeds += 1
        try:
            _run(tally, world, seed, seconds, STEPS)
        except Exception as failure:
            if not isinstance(failure, LeaseholdError):  # those name it themselves
                note(f"repeat it with: {command_for(world, seed, seconds=seconds)}")
            tally.violations += 1
            _show(tally, output, None)
            raise
        tally.real_seconds = time.monotonic() - began
        seed += 1
        if time.monotonic() - said > PROGRESS_S:
            said = time.monotonic()
            note(tally.line())
    _show(tally, output, None)


def _run(
    tally: CampaignTally, world: SimulatedWorld, seed: int, seconds: int, steps: int
) -> tuple[str, tuple[str, ...]]:
    """One seed of either world; its digest and its trace. Raises what it violates, with the command that repeats it."""
    command = command_for(world, seed, seconds=seconds, steps=steps)
    began = time.monotonic()
    if world is SimulatedWorld.LEASES:
        ended = run_leases(seed, steps, command=command)
        tally.worlds += 1
        tally.steps += ended.oracle.step
        tally.batches += len(ended.oracle.serves)
        return ended.oracle.digest(), tuple(ended.oracle.trace)
    outcome = simulate(seed, seconds=seconds, invariants=INVARIANTS, command=command)
    tally.add(outcome, time.monotonic() - began)
    return outcome.digest, outcome.trace


def _show(tally: CampaignTally, output: Output, digest: str | None) -> None:
    fields: dict[str, object] = {
        "seeds": tally.seeds,
        "clusters": tally.clusters,
        "lease_worlds": tally.worlds,
        "steps": tally.steps,
        "simulated_seconds": round(tally.simulated_ns / SECOND_NS, 1),
        "simulated_seconds_per_second": round(tally.rate()),
        "faults": dict(sorted(tally.faults.items())),
        "statements": tally.statements,
        "writes": tally.writes,
        "scans": tally.scans,
        "batches_checked": tally.batches,
        "undecided_histories": tally.undecided,
        "violations": tally.violations,
    }
    if digest is not None:
        fields["digest"] = digest
    if output is Output.JSON:
        show_json(fields)
        return
    rows = [(name.replace("_", " "), value) for name, value in fields.items() if name != "faults"]
    rows += [(f"fault: {kind}", count) for kind, count in sorted(tally.faults.items())]
    show_table(("what", "how many"), rows)


def main() -> None:
    """Entry point of `leasehold-sim`."""
    # Faults on purpose cause warnings all the time.
    logging.getLogger("leasehold").setLevel(logging.CRITICAL)
    try:
        app(standalone_mode=True)
    except LeaseholdError as error:
        for line in error.text.splitlines():
            note(line)
        note(f"repeat it with: {error.hint}")
        raise SystemExit(int(error.exit_code)) from None
