"""Every command, statement and Python block in the documents runs, in the order in which a reader meets them."""

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

from leasehold.core.drift import lasts_ns, outlast_ns
from leasehold.core.statements import AnyStatement
from leasehold.limits.lease import DRIFT_PPM, LEADER_POLL_NS, LEADERSHIP_DURATION_NS, LEADERSHIP_MARGIN_NS
from leasehold.limits.units import SECOND_NS
from leasehold.sql.front import GRAMMAR
from leasehold.testing.invariants import INVARIANTS
from tests.e2e.pages import ROOT, Reader, blocks

LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
FAULT = re.compile(r'\(\d[\d.]*, "([a-z ]+)"')
DOCUMENTS = ["README.md", "docs/operations.md", "docs/query.md", "docs/simulator.md"]
SQL_PAGE = "docs/sql.md"
DECIDING = [
    *("catalog.py", "ddl/procedure.py", "ddl/receipts.py", "literals.py", "plan.py", "replication.py", "settings.py"),
    "types.py",
]
"""What decides on statements in core/, besides the plans."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

pytestmark = pytest.mark.processes


def test_every_document_with_commands_is_run() -> None:
    found = [str(path.relative_to(ROOT)) for path in PAGES]
    assert [name for name in found if blocks(name)] == sorted([*DOCUMENTS, SQL_PAGE], key=found.index)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_a_document_says_works(document: str, tmp_path: Path) -> None:
    with Reader(document, tmp_path) as reader:
        reader.read()


@pytest.mark.timeout(300)
def test_every_statement_answers_as_its_page_says(tmp_path: Path) -> None:
    with Reader(SQL_PAGE, tmp_path) as reader:
        reader.read()
    assert {type(one) for one in reader.statements} == set(get_args(AnyStatement))
    told = [
        (pattern, kind)
        for cell, kind in rows(section(SQL_PAGE, "How a statement runs"))[1:]
        for pattern in starts(cell)
    ]
    for statement, kind in reader.kinds:
        kinds = [one for pattern, one in told if pattern.match(statement)]
        assert kinds, f"{statement} has no kind"
        assert all(kind in one for one in kinds), f"{statement} is {kind}"


def starts(cell: str) -> list[re.Pattern[str]]:
    """The beginnings of statements in a cell: `A, B`, or `A .. B, C` for `A .. B` and `A .. C`."""
    first, dots, rest = cell.rpartition(" .. ")
    return [re.compile(re.escape(first + dots + one).replace(r"\.\.", r"(IF EXISTS )?\S+")) for one in rest.split(", ")]


# ---------------------------------------------------------------- what can be looked up


def rows(text: str) -> list[tuple[str, ...]]:
    """The rows of all tables in a text, without what draws them."""
    lines = (line.strip() for line in text.splitlines())
    found = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines if line.startswith("|")]
    return [row for row in found if set("".join(row)) - set("- ")]


def section(page: str, heading: str) -> str:
    return (ROOT / page).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for name, anchor in LINK.findall(page.read_text()):
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name} links to {name}"
        headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE) if anchor else []
        anchors = [re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert not anchor or anchor in anchors, f"{page.name} links to {name}#{anchor}"


def test_the_states_are_those_of_the_code() -> None:
    parts = re.split(r"^`(core/[\w/]+\.py)`$", section("docs/protocols.md", "States"), flags=re.MULTILINE)[1:]
    told = dict(zip(parts[::2], map(rows, parts[1::2]), strict=True))
    for name, table in told.items():
        head = ast.get_docstring(ast.parse((ROOT / "src/leasehold" / name).read_text()))
        assert head is not None
        assert rows(head) == table, name
    assert len(told) > 5


def test_every_invariant_is_told_with_its_file() -> None:
    ids = [one.id for one in INVARIANTS]
    kept = [row[0] for row in rows(section("docs/protocols.md", "Invariants"))][1:]
    checked = {row[0]: row[1].strip("`") for row in rows(section("docs/simulator.md", "Invariants"))[1:]}
    assert kept == list(checked) == ids
    assert [checked[one.id] for one in INVARIANTS] == [Path(one.check.__code__.co_filename).name for one in INVARIANTS]


def test_every_fault_of_the_nemesis_is_told() -> None:
    kinds = set(FAULT.findall((ROOT / "src/leasehold/testing/nemesis.py").read_text())) - {"all healed"}
    told = {kind for row in rows(section("docs/simulator.md", "Faults"))[1:] for kind in row[0].split(", ")}
    assert told == kinds


def test_how_long_a_challenger_waits() -> None:
    wait_ns = outlast_ns(LEADERSHIP_DURATION_NS, DRIFT_PPM) + LEADERSHIP_MARGIN_NS
    text = section("docs/protocols.md", "Leadership").replace("\n  ", " ")
    real = f"{lasts_ns(wait_ns, DRIFT_PPM) / SECOND_NS:.2f} s in real time"
    assert f"{wait_ns / SECOND_NS:.2f} s on its clock, at most {real}" in text
    assert f"about {lasts_ns(wait_ns + LEADER_POLL_NS, DRIFT_PPM) / SECOND_NS:.1f} s after its last beat" in text


def test_the_grammar_of_every_statement_is_told() -> None:
    text = " ".join((ROOT / SQL_PAGE).read_text().split())
    assert [key for key, grammar in GRAMMAR.items() if grammar not in text] == []


def test_the_rights_are_those_of_the_code() -> None:
    head = ast.get_docstring(ast.parse((ROOT / "src/leasehold/core/rights.py").read_text()))
    assert head is not None
    assert rows(head) == rows(section(SQL_PAGE, "Users, roles and rights"))


def test_every_code_that_refuses_a_statement_is_told() -> None:
    text, source = (ROOT / SQL_PAGE).read_text(), ROOT / "src/leasehold"
    deciding = [*source.glob("sql/*.py"), *source.glob("core/plans/*.py"), *(source / "core" / one for one in DECIDING)]
    codes = {code for path in deciding for code in re.findall(r'code="([A-Z_]+)"', path.read_text())}
    assert len(codes) > 40
    assert {code for code in codes if not re.search(rf"\b{code}\b", text)} == set()
