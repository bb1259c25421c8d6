"""Every weak point that is known has a scenario test with its id in its name, or a reason why it can't arise; the page
that says so, docs/weak-points.md, says nothing else than the tests do. Nor does its list of scenarios.
"""

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
IDS = [f"{letter}{number}" for letter, count in (("L", 15), ("I", 20), ("R", 20)) for number in range(1, count + 1)]
ROW = re.compile(r"^\| ([LIR]\d+) \| (.+?) \| (.*?) \| (.*?) \|$", re.MULTILINE)
SCENARIO = re.compile(r"^\| ([^|]+) \| ([^|]*) \| ([^|]*) \|$")
TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
NAME = re.compile(r"^(?:    )?(?:async )?def (test_\w+)\(", re.MULTILINE)


def page() -> list[tuple[str, ...]]:
    return [match.groups() for match in ROW.finditer(parts()[0])]


def parts() -> list[str]:
    """The weak points, and the scenarios."""
    return (ROOT / "docs" / "weak-points.md").read_text(encoding="utf-8").split("\n## Scenarios\n")


def scenarios() -> list[tuple[str, ...]]:
    """Each row of the tables of scenarios: what happens, the tests, the reason."""
    lines = [line for line in parts()[1].splitlines() if line.startswith("|")]
    rows = [match.groups() for match in map(SCENARIO.match, lines) if match]
    assert len(rows) == len(lines), "a line is no row of three cells"
    return [row for row in rows if row[0] not in {"scenario", "---"}]


@cache
def files_by_id() -> dict[str, set[str]]:
    """Which files have tests with an id in their name."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in TESTS.rglob("test_*.py"):
        for name in NAME.findall(file.read_text(encoding="utf-8")):
            for one in re.findall(r"(?<=_)[LIR]\d+(?=_)", name):
                found[one].add(str(file.relative_to(TESTS)))
    return found


def test_every_weak_point_has_one_row_in_order() -> None:
    assert [row[0] for row in page()] == IDS


@pytest.mark.parametrize("row", page(), ids=lambda row: row[0])
def test_a_row_names_every_file_that_has_a_test_of_it(row: tuple[str, ...]) -> None:
    one, what, tested, reason = row
    named = set(re.findall(r"`([^`]+)`", tested))
    assert what.strip()
    assert all((TESTS / file).is_file() for file in named)
    assert files_by_id()[one] <= named
    # Where it can't arise, other tests may show why.
    assert files_by_id()[one] == named or len(reason.split()) >= 5
    assert named or len(reason.split()) >= 5


def test_no_test_has_an_id_that_is_no_weak_point() -> None:
    assert sorted(set(files_by_id()) - set(IDS)) == []


def test_there_are_scenarios_and_each_is_told_once() -> None:
    told = [what for what, *_ in scenarios()]
    assert told
    assert len(set(told)) == len(told)


@pytest.mark.parametrize("row", scenarios(), ids=lambda row: row[0])
def test_a_scenario_names_tests_that_exist_or_a_reason(row: tuple[str, ...]) -> None:
    _, tested, reason = row
    named = TEST.findall(tested)
    assert TEST.sub("", tested).strip(", ") == "", "tests, and nothing else"
    missing = [(file, name) for file, name in named if name not in names_in(file)]
    assert missing == []
    assert named or len(reason.split()) >= 5


def names_in(file: str) -> set[str]:
    """The names of the tests in a file below tests/; none where there is no such file."""
    path = TESTS / file
    return set(NAME.findall(path.read_text(encoding="utf-8"))) if path.is_file() else set()
