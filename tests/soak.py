"""`make soak MINUTES=n`: random worlds and whole simulated clusters, seed after seed, for as long as asked.

Stops at the first violation and prints the command that repeats it.
"""

import argparse
import sys
import time

from leasehold.testing.world import run as run_world
from tests.sim.campaign import campaign

WORLDS_PER_CAMPAIGN = 20
STEPS = 2_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1_000, help="the first seed; later ones count up")
    parser.add_argument("--once", choices=["world", "cluster"], help="run only this seed, of this kind")
    arguments = parser.parse_args()
    if arguments.once is not None:
        run_world(arguments.seed, STEPS) if arguments.once == "world" else campaign(arguments.seed)
        return 0
    until = time.monotonic() + arguments.minutes * 60
    seed, worlds, clusters = arguments.seed, 0, 0
    said = 0.0
    while time.monotonic() < until:
        kind = "cluster" if seed % WORLDS_PER_CAMPAIGN == 0 else "world"
        try:
            if kind == "cluster":
                campaign(seed)
                clusters += 1
            else:
                run_world(seed, STEPS)
                worlds += 1
        except BaseException:
            sys.stderr.write(f"seed {seed}: repeat with `python -m tests.soak --once {kind} --seed {seed}`\n")
            raise
        seed += 1
        if time.monotonic() - said > 10:
            said = time.monotonic()
            sys.stderr.write(f"{worlds} worlds, {worlds * STEPS} steps, {clusters} clusters, 0 violations\n")
    sys.stdout.write(f"{worlds} worlds, {worlds * STEPS} steps, {clusters} clusters, 0 violations\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
