"""The mutants fit the code, cover all that they have to, and are hunted for real: a few of them, here, each time."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from leasehold.testing.invariants import INVARIANTS
from tests.mutants.catalogue import MUTANTS
from tests.mutants.model import FACTS, LEASE_WORLD, Mutant
from tests.mutants.page import names_in
from tests.mutants.patch import Code, Edit
from tests.mutants.runner import ROOT, hunt, snapshot

CODE = Code(ROOT / "src" / "leasehold")
QUICK = ("no floor", "an id given twice")
HUNTERS = [hunter for name in QUICK for one in MUTANTS if one.name == name for hunter in one.hunters]
HARMLESS = Mutant(
    name="harmless",
    invariant="INV-LEASE-1",
    rule="a million is a million in any notation",
    edits=(Edit("core.MILLION", "1_000_000", "10**6"),),
    hunters=("tests/unit/core/lease/test_drift.py", HUNTERS[0]),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_a_mutant_fits_the_code_and_changes_it(mutant: Mutant) -> None:
    assert CODE.patched(mutant.edits)
    for edit in mutant.edits:
        assert ast.dump(ast.parse(edit.before)) != ast.dump(ast.parse(edit.after))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_who_is_to_notice_exists(mutant: Mutant) -> None:
    assert mutant.hunters
    for hunter in mutant.hunters:
        file, _, name = hunter.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert f"def {name.partition('[')[0]}(" in text if name else text


def test_names_are_unique() -> None:
    assert [name for name, count in Counter(one.name for one in MUTANTS).items() if count > 1] == []


def test_every_invariant_and_every_break_that_is_known_has_a_mutant() -> None:
    assert {one.invariant for one in MUTANTS} == {one.id for one in INVARIANTS}
    assert {one.fact for one in MUTANTS if one.fact} == set(FACTS)


def test_the_modules_of_the_lease_world_exist() -> None:
    assert all(CODE.path(name) for name in LEASE_WORLD)


def test_the_page_lists_exactly_these() -> None:
    assert names_in() == [one.name for one in MUTANTS], "make mutants, or `python -m tests.mutants --write-docs`"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return snapshot(tmp_path_factory.mktemp("mutants"))


@pytest.mark.parametrize("name", QUICK)
def test_a_mutant_is_noticed_by_its_scenario_and_by_seeds(base: Path, name: str) -> None:
    mutant = next(one for one in MUTANTS if one.name == name)
    said: list[str] = []
    verdict = hunt(mutant, base, 4, said.append)
    assert verdict.scenario is not None
    assert verdict.scenario.by.startswith(mutant.hunters[0])
    assert verdict.cluster is not None
    assert verdict.cluster.by == mutant.invariant
    if verdict.in_lease_world:
        assert verdict.leases is not None
        assert verdict.leases.by == mutant.invariant
    assert len(said) == 1


def test_what_breaks_nothing_survives_all_that_hunts(base: Path) -> None:
    verdict = hunt(HARMLESS, base, 1, lambda _line: None)
    assert not verdict.caught
