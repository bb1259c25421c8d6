"""What the documents say that can be looked up: links, files and names in the code, tables that the code has too."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.core.lease.drift import lasts_ns, outlast_ns
from leasehold.limits.lease import DRIFT_PPM, LEADER_POLL_NS
from leasehold.limits.log import LEADERSHIP_DURATION_NS, LEADERSHIP_MARGIN_NS
from leasehold.limits.units import SECOND_NS
from leasehold.sql import changes
from leasehold.sql.front import GRAMMAR
from leasehold.testing.invariants import INVARIANTS
from tests.documents import PAGES, ROOT, rows, section

SOURCE = ROOT / "src/leasehold"
LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
FILE = re.compile(r"`((?:[\w.-]+/)+\w+\.py|(?:core|coordinator|node|tests)(?:/[a-z_]+)+/?)`")
NAMES = re.compile(r"\]\(([^)]+\.py)\): (`[\w.]+`(?:,\s`[\w.]+`)*)")
CODE_LINK = re.compile(r"\[`([^`]+\.py)`\]\(([^)]+\.py)\)")
DESIGN = re.compile(r'docs/design\.md, "([^"]+)"')
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
FAULT = re.compile(r'\(\s*\d[\d.]*,\s+"([a-z ]+)"')
SQL_PAGE = "docs/sql.md"
DECIDING = [
    *("catalog/catalog.py", "catalog/plan.py", "ddl/procedure.py", "ddl/receipts.py", "ddl/settings.py"),
    *("replicas/replication.py", "words/literals.py", "words/types.py"),
]
"""What decides on statements in core/, besides the plans."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for name, anchor in LINK.findall(page.read_text()):
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name} links to {name}"
        headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE) if anchor else []
        anchors = [re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert not anchor or anchor in anchors, f"{page.name} links to {name}#{anchor}"


def code() -> Iterator[Path]:
    """Every Python file of the project."""
    for folder in ("src", "tests", "bench", "examples", "tools"):
        yield from (ROOT / folder).rglob("*.py")


def test_named_files_and_folders_exist() -> None:
    """`core/words/codec.py` is a path below the package, the tests, the checkout or the text's own folder."""
    named = [(text, name) for text in [*PAGES, *code()] for name in FILE.findall(text.read_text())]
    missing = [
        f"{text.relative_to(ROOT)} names {name}"
        for text, name in named
        if not any((top / name).exists() for top in (SOURCE, ROOT / "tests", ROOT, text.parent))
    ]
    assert missing == []
    assert len(named) > 100


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_code_say_which_file_and_name_what_it_has(page: Path) -> None:
    """A file that a link leads to has the path that the link shows, and defines the names that stand behind it."""
    text = page.read_text()
    for shown, name in CODE_LINK.findall(text):
        assert (page.parent / name).resolve() in {(top / shown).resolve() for top in (SOURCE, ROOT)}, shown
    for name, defined in NAMES.findall(text):
        known = definitions(page.parent / name)
        assert set(re.findall(r"[\w.]+", defined)) <= known, f"{page.name} names {defined} in {name}"


def definitions(file: Path) -> set[str]:
    """The functions, classes and methods of a file, methods as `Class.method`."""
    top = [node for node in ast.parse(file.read_text()).body if isinstance(node, DEFINITIONS)]
    inner = [(one, node) for one in top for node in one.body if isinstance(node, DEFINITIONS)]
    return {one.name for one in top} | {f"{one.name}.{node.name}" for one, node in inner}


def test_sections_of_the_design_that_the_code_cites_exist() -> None:
    headings = set(re.findall(r"^## (.*)$", (ROOT / "docs/design.md").read_text(), re.MULTILINE))
    cited = {name for path in code() for name in DESIGN.findall(path.read_text())}
    assert cited <= headings
    assert len(cited) > 5


def test_the_layers_and_the_folders_of_the_core_are_told() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = next(one for one in settings["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    text = section("docs/design.md", "Layers")
    drawn = [re.split("  +", line)[0] for line in text.split("```")[1].strip().splitlines()]
    assert drawn == contract["layers"]
    folders = {row[0].strip("`") for row in rows(text)[1:]}
    assert folders == {f"core/{path.parent.name}/" for path in (SOURCE / "core").glob("*/__init__.py")}


def test_the_states_are_those_of_the_code() -> None:
    parts = re.split(r"^`((?:core|testing)/[\w/]+\.py)`$", section("docs/protocols.md", "States"), flags=re.MULTILINE)[
        1:
    ]
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


def test_the_grammar_of_what_spark_alone_runs_is_told() -> None:
    text = " ".join((ROOT / "docs/spark.md").read_text().split())
    assert [key for key, grammar in changes.GRAMMAR.items() if grammar not in text] == []


def test_the_rights_are_those_of_the_code() -> None:
    head = ast.get_docstring(ast.parse((ROOT / "src/leasehold/core/access/rights.py").read_text()))
    assert head is not None
    assert rows(head) == rows(section(SQL_PAGE, "Users, roles and rights"))


def test_every_code_that_refuses_a_statement_is_told() -> None:
    text, source = (ROOT / SQL_PAGE).read_text(), ROOT / "src/leasehold"
    deciding = [
        *source.glob("sql/*.py"),
        *source.glob("core/ddl/plans/*.py"),
        *(source / "core" / one for one in DECIDING),
    ]
    codes = {code for path in deciding for code in re.findall(r"code=ErrorCode\.([A-Z_]+)", path.read_text())}
    assert len(codes) > 40
    assert {code for code in codes if not re.search(rf"\b{code}\b", text)} == set()
