"""Hunts: a patched copy of the code, what is run on it, and who noticed first.

Each mutant lives in a copy of src and tests of its own. Everything that hunts it is a process whose PYTHONPATH begins
with that copy, and which checks that this is what it imported. A scenario has noticed if a test of it fails; whatever
else goes wrong there (nothing collected, a process that dies) is a mistake of ours and ends the run.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from tests.few import ALL
from tests.mutants.model import LEASE_WORLD, PACKAGE, Mutant
from tests.mutants.patch import Code

ROOT = Path(__file__).parents[2]
SCENARIO_LIMIT_S = 120
TEST_LIMIT_S = 60
"""A test that goes round in circles on a broken copy has noticed; one of sound code takes seconds on a busy machine."""
CONTROL_LIMIT_S = 1_800
SEEDS_LIMIT_S = 600
FAILED = re.compile(r"^FAILED (.+?)(?: - (.*))?$", re.MULTILINE)
NAMED = re.compile(r"INV-[A-Z]+-\d")


class Catch(NamedTuple):
    """Who noticed: a test, or the invariant of a seed."""

    by: str
    seed: int | None = None
    real_ns: int | None = None
    what: str = ""


class Verdict(NamedTuple):
    """What became of one mutant; a world that was not asked, or did not notice, says None."""

    mutant: Mutant
    in_lease_world: bool
    """Whether the lease world runs any of the modules that it breaks."""
    scenario: Catch | None
    leases: Catch | None
    cluster: Catch | None
    seconds: float

    @property
    def caught(self) -> bool:
        """Whether anybody noticed."""
        return any((self.scenario, self.leases, self.cluster))


class Broken(Exception):
    """The hunt itself went wrong: nothing is proven by it."""


def snapshot(directory: Path) -> Path:
    """A copy of all that hunts need, so that the working tree may change meanwhile."""
    base = directory / "base"
    _copy(ROOT, base)
    return base


def _copy(source: Path, target: Path) -> None:
    for folder in ("src", "tests"):
        shutil.copytree(source / folder, target / folder, ignore=shutil.ignore_patterns("*.egg-info", "e2e", "netns"))
    shutil.copy(source / "pyproject.toml", target)


def _process(where: Path, arguments: Iterable[str], limit_s: int) -> "subprocess.CompletedProcess[str] | None":
    """None if it did not end in time."""
    package = where / "src" / "leasehold"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(where / "src"), str(where))),
        "PYTHONHASHSEED": "0",
        PACKAGE: str(package),
    }
    try:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=where,
            env=environment,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None


def by_tests(where: Path, hunters: Iterable[str], limit_s: int = SCENARIO_LIMIT_S) -> Catch | None:
    """The first of these tests that fails. Raises `Broken` if they could not be run."""
    options = (
        "-x",
        "-q",
        "--tb=line",
        "-rf",
        "--timeout",
        str(TEST_LIMIT_S),
        "-p",
        "no:cacheprovider",
        "--hypothesis-profile",
        ALL,
        "-p",
        "tests.mutants.imported",
    )
    done = _process(where, ("-m", "pytest", *options, *hunters), limit_s)
    if done is None:
        return Catch(by=f"{' '.join(hunters)} does not end", what=f"not within {limit_s} s")
    if done.returncode == 0:
        return None
    failed = FAILED.search(done.stdout)
    if done.returncode != 1 or failed is None:
        raise Broken(f"pytest ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    said = NAMED.search(done.stdout)
    return Catch(by=failed[1], what=said[0] if said else (failed[2] or done.stdout[-1000:]))


def by_seeds(where: Path, world: str, seeds: int, invariant: str | None) -> Catch | None:
    """The first seed of a world that notices. Raises `Broken` if it could not be run."""
    alone = () if invariant is None else (invariant,)
    done = _process(where, ("-m", "tests.mutants.seeds", world, str(seeds), *alone), SEEDS_LIMIT_S)
    if done is None:
        raise Broken(f"{seeds} seeds of {world} take longer than {SEEDS_LIMIT_S} s in {where.name}")
    if done.returncode != 0:
        raise Broken(f"{world} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return None if found is None else Catch(found["by"], found["seed"], found["real_ns"], found["what"])


def control(base: Path, mutants: Iterable[Mutant], seeds: int) -> str | None:
    """Whether the sound code passes all that hunts; what it did not pass."""
    hunters = sorted({one for mutant in mutants for one in mutant.hunters})
    caught = by_tests(base, hunters, CONTROL_LIMIT_S) or by_seeds(base, "leases", seeds, None)
    caught = caught or by_seeds(base, "cluster", seeds, None)
    return None if caught is None else f"{caught.by} (seed {caught.seed}): {caught.what}"


def hunt(mutant: Mutant, base: Path, seeds: int, say: Callable[[str], None]) -> Verdict:
    """Breaks a copy and lets everybody look. Raises `Stale` and `Broken`."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=base.parent, prefix="mutant-") as name:
        where = Path(name) / "copy"
        _copy(base, where)
        code = Code(where / "src" / "leasehold")
        changed = code.apply(mutant.edits)
        in_lease_world = any(code.path(name) in changed for name in LEASE_WORLD)
        scenario = next((found for one in mutant.hunters if (found := by_tests(where, (one,)))), None)
        leases = by_seeds(where, "leases", seeds, mutant.invariant) if in_lease_world else None
        cluster = None if mutant.unseen else by_seeds(where, "cluster", seeds, mutant.invariant)
    verdict = Verdict(mutant, in_lease_world, scenario, leases, cluster, time.monotonic() - began)
    say(f"{mutant.name}: {summary(verdict)} ({verdict.seconds:.0f} s)")
    return verdict


def summary(verdict: Verdict) -> str:
    """One line for people."""
    if not verdict.caught:
        return "NOBODY NOTICED"
    scenario = "-" if verdict.scenario is None else verdict.scenario.by.rpartition("::")[2]
    return f"{scenario}; leases {brief(verdict.leases)}; cluster {brief(verdict.cluster)}"


def brief(catch: Catch | None) -> str:
    """Which invariant, at which seed and simulated time."""
    if catch is None:
        return "-"
    at = "" if catch.real_ns is None else f", {catch.real_ns / 1e9:.1f} s"
    return f"{catch.by} (seed {catch.seed}{at})"
