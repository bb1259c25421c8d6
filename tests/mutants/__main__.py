"""`python -m tests.mutants`: applies each mutant to a copy of the code and says who noticed. `make mutants` runs it.

Exit codes: 0 every mutant was noticed, 1 one was not, 2 usage, 3 the hunt went wrong: the sound code did not pass, or a
mutant does not fit it.
"""

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.catalogue import MUTANTS
from tests.mutants.model import Mutant
from tests.mutants.page import PAGE, render
from tests.mutants.patch import Stale
from tests.mutants.runner import Broken, Verdict, control, hunt, snapshot, summary

SURVIVED, WENT_WRONG = 1, 3


def say(line: str) -> None:
    """Progress goes to stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def hunted(chosen: list[Mutant], seeds: int, jobs: int, *, sound: bool) -> list[Verdict]:
    """Raises `Stale` and `Broken`."""
    with tempfile.TemporaryDirectory(prefix="leasehold-mutants-") as name:
        base = snapshot(Path(name))
        if sound:
            began = time.monotonic()
            wrong = control(base, chosen, seeds)
            if wrong is not None:
                raise Broken(f"the sound code does not pass: {wrong}")
            say(f"the sound code passes ({time.monotonic() - began:.0f} s)")
        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(lambda one: hunt(one, base, seeds, say), chosen))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", metavar="NAME", action="append", help="mutants whose name contains this")
    parser.add_argument("--jobs", type=int, default=2, help="how many mutants at once")
    parser.add_argument("--seeds", type=int, default=20, help="seeds of a cluster; five times as many of a lease world")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    parser.add_argument("--write-docs", action="store_true", help=f"writes {PAGE.name} (all mutants only)")
    parser.add_argument("--no-control", action="store_true", help="does not run the sound code first")
    given = parser.parse_args()
    if given.jobs < 1 or given.seeds < 1:
        parser.error("--jobs and --seeds are at least 1")
    chosen = [one for one in MUTANTS if given.only is None or any(part in one.name for part in given.only)]
    if not chosen:
        parser.error("no mutant has that name")
    if given.write_docs and len(chosen) != len(MUTANTS):
        parser.error("the page lists all mutants: leave out --only")
    began = time.monotonic()
    try:
        verdicts = hunted(chosen, given.seeds, given.jobs, sound=not given.no_control)
    except (Stale, Broken) as error:
        say(str(error))
        return WENT_WRONG
    if given.output == "json":
        sys.stdout.write(json.dumps([_plain(one) for one in verdicts], indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{one.mutant.name}: {summary(one)}\n" for one in verdicts)
    if given.write_docs:
        PAGE.write_text(render(verdicts), encoding="utf-8")
    survived = [one.mutant.name for one in verdicts if not one.caught]
    say(f"{len(verdicts)} mutants, {len(survived)} survived, {time.monotonic() - began:.0f} s")
    return SURVIVED if survived else 0


def _plain(verdict: Verdict) -> dict[str, object]:
    catches = {"scenario": verdict.scenario, "leases": verdict.leases, "cluster": verdict.cluster}
    return {
        "name": verdict.mutant.name,
        "invariant": verdict.mutant.invariant,
        "caught": verdict.caught,
        **{where: None if catch is None else catch._asdict() for where, catch in catches.items()},
    }


if __name__ == "__main__":
    sys.exit(main())
