"""Every command and every Python block in the documents runs, in the order in which a reader meets them."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.core.drift import lasts_ns, outlast_ns
from leasehold.limits import DRIFT_PPM, LEADER_POLL_NS, LEADERSHIP_DURATION_NS, LEADERSHIP_MARGIN_NS, SECOND_NS
from leasehold.testing.invariants import INVARIANTS

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
FAULT = re.compile(r'\(\d[\d.]*, "([a-z ]+)"')
DOCUMENTS = ["README.md", "docs/operations.md", "docs/simulator.md"]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

pytestmark = pytest.mark.processes


def blocks(document: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / document).read_text())


def test_every_document_with_commands_is_run() -> None:
    found = [str(path.relative_to(ROOT)) for path in PAGES]
    assert [name for name in found if blocks(name)] == DOCUMENTS


@pytest.mark.timeout(300)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_a_document_says_works(document: str, tmp_path: Path) -> None:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    directory = re.search(r"--dir (\S+)", "\n".join(text for _, text in blocks(document)))
    try:
        for language, text in blocks(document):
            if language == "python":
                _run([sys.executable, "-c", text], tmp_path, environment)
                continue
            for line in text.splitlines():
                assert line.startswith("$ "), f"{document}: a console block shows commands only: {line}"
                if not line.startswith("$ make "):  # those run this very test
                    _run(["sh", "-c", line[2:]], tmp_path, environment)
    finally:
        where = "leasehold-data" if directory is None else directory[1]
        subprocess.run(
            ["leasehold", "down", "--dir", where], cwd=tmp_path, env=environment, capture_output=True, check=False
        )


def _run(command: list[str], directory: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


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
    parts = re.split(r"^`(core/\w+\.py)`$", section("docs/protocols.md", "States"), flags=re.MULTILINE)[1:]
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
