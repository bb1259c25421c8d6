"""Hunts by seed: runs in a process of its own on a patched copy, and says which seed noticed, as one line of JSON."""

import json
import sys
from collections.abc import Callable

from leasehold.errors import CheckFailed
from leasehold.testing.invariants import INVARIANTS, named
from leasehold.testing.leases.world import run
from leasehold.testing.oracle import Invariant, InvariantViolated
from leasehold.testing.simulation import simulate
from tests.mutants.imported import check

LEASE_STEPS = 2_000
LEASES_PER_CLUSTER = 5
"""A lease world takes a fraction of a cluster's time: so many seeds of it for each of a cluster."""


def hunt(world: str, seeds: int, invariants: tuple[Invariant, ...]) -> dict[str, object] | None:
    """The first seed of `world` that notices, None if none of so many does."""
    live: Callable[[int], object]
    if world == "leases":
        seeds *= LEASES_PER_CLUSTER

        def live(seed: int) -> object:
            return run(seed, LEASE_STEPS, invariants=invariants)
    else:

        def live(seed: int) -> object:
            return simulate(seed, invariants=invariants)

    for seed in range(1, seeds + 1):
        try:
            live(seed)
        except InvariantViolated as error:
            return _found(seed, error.invariant, error.what, error.step, error.real_ns)
        except (CheckFailed, AssertionError) as error:
            return _found(seed, "the run", f"{type(error).__name__}: {error}", None, None)
    return None


def _found(seed: int, by: str, what: str, step: int | None, real_ns: int | None) -> dict[str, object]:
    return {"seed": seed, "by": by, "what": what.splitlines()[0], "step": step, "real_ns": real_ns}


def main() -> None:
    """`seeds.py WORLD SEEDS [INVARIANT]`: with an invariant it hunts with that alone, then on fewer seeds with all."""
    world, seeds, *alone = sys.argv[1:]
    check()
    found = hunt(world, int(seeds), named(*alone)) if alone else None
    if found is None:
        found = hunt(world, -(-int(seeds) // 4) if alone else int(seeds), INVARIANTS)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
