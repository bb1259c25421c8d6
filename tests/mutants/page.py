"""The page about the mutants, written from what a hunt has found."""

from collections.abc import Iterable
from pathlib import Path

from tests.mutants.catalogue import MUTANTS
from tests.mutants.model import Mutant
from tests.mutants.runner import ROOT, Verdict, brief

PAGE = ROOT / "docs" / "mutants.md"
INTRODUCTION = """# Mutants

A checker that never fires proves nothing. So the code is broken on purpose, one rule at a time, and each break has to
be noticed: by a scenario, and by seeds of the two simulated worlds, which know nothing of it. One that nobody notices
is a hole in the checker.

`make mutants` copies the code, applies each break to a copy as a patch, proves that the copy is what runs, and lets
everybody look: first the scenario that was written for the rule, then random seeds. The unbroken copy has to pass all
of it before. It ends with 1 if a mutant survives. `python -m tests.mutants --only 'no floor'` hunts one,
`--seeds N` says how many seeds of a cluster are tried (and five times as many of the lease world), `--jobs N` how many
mutants are hunted at once, `--output json` is for programs, `--write-docs` writes this page. The mutants themselves are
in `tests/mutants`. Each names its code by qualified name and syntax tree, so another file or layout does not matter; a
mutant whose code is gone is an error, in `make test` too.

The lease world takes the readings and messages of holders and grantors apart, one step at a time; the cluster runs
whole coordinators and nodes. Each hunts with the named invariant alone first. A seed is repeated on a copy with
`leasehold-sim reproduce --seed S`, of the lease world with `--world leases`. "the run" is an assertion of the code
itself, or an answer that could not be right; LIVENESS is a world that was healed and did not recover.
"""
HEAD = """
| break | rule | invariant | scenario | lease world | cluster |
| --- | --- | --- | --- | --- | --- |
"""


def _row(verdict: Verdict) -> str:
    mutant = verdict.mutant
    scenario = "-" if verdict.scenario is None else f"`{verdict.scenario.by.rpartition('::')[2]}`"
    leases = brief(verdict.leases) if verdict.in_lease_world else ""
    cells = (mutant.name, mutant.rule, mutant.invariant, scenario, leases, brief(verdict.cluster))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def render(verdicts: Iterable[Verdict]) -> str:
    """The whole page."""
    found = list(verdicts)
    page = [INTRODUCTION, HEAD, *(_row(one) for one in found)]
    unseen = [one for one in found if one.cluster is None]
    if unseen:
        page.append("\n## What a random cluster does not show\n| break | why |\n| --- | --- |\n")
        page.extend(
            f"| {one.mutant.name} | {one.mutant.unseen or 'no seed of those tried came to it'} |\n" for one in unseen
        )
    return "".join(page)


def names_in(page: Path = PAGE) -> list[str]:
    """The mutants that a page lists, in its order."""
    rows = page.read_text(encoding="utf-8").partition(HEAD)[2].partition("\n\n")[0].splitlines()
    return [row.split(" | ")[0].removeprefix("| ") for row in rows if row.startswith("| ")]


def listed() -> list[Mutant]:
    """All mutants, in the order of the page."""
    return list(MUTANTS)
