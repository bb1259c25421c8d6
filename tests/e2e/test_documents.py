"""Every command, statement and Python block in the documents runs, in the order in which a reader meets them.

The commands of README.md start from nothing. Those of longer pages are forked: a start is nearly all of what most cost.
"""

import re
from pathlib import Path
from typing import get_args

import pytest

from leasehold.core.words.statements import AnyStatement
from leasehold.local.etcd import PROGRAM_VARIABLE
from tests.documents import PAGES, ROOT, rows, section
from tests.e2e.pages import Reader, blocks
from tests.etcd_cluster import etcd_program
from tests.few import few

README = "README.md"
SIMULATOR = "docs/simulator.md"
"""In `make test` its commands are run by `test_sim_command.py` alone."""
DOCUMENTS = [README, "docs/operations.md", "docs/coordinators.md", "docs/query.md", "docs/recovery.md"]
DOCUMENTS += ["docs/certificates.md", SIMULATOR]
SQL_PAGE = "docs/sql.md"
SPARK_PAGE = "docs/spark.md"
"""`tests/e2e/spark/test_page.py` runs it."""
IN_NAMESPACES = "docs/five-machines.md"
"""`tests/netns/test_five_machines.py` runs it."""
SENSORS = "examples/sensors/README.md"
"""`tests/e2e/spark/test_sensors.py` runs it."""

pytestmark = pytest.mark.processes


def test_every_document_with_commands_is_run() -> None:
    found = [str(path.relative_to(ROOT)) for path in PAGES]
    assert [name for name in found if blocks(name)] == sorted(
        [*DOCUMENTS, SQL_PAGE, SPARK_PAGE, IN_NAMESPACES, SENSORS], key=found.index
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("document", few(DOCUMENTS.index(SIMULATOR), DOCUMENTS))
def test_what_a_document_says_works(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "--coordinators" in "".join(text for _, text in blocks(document)):
        monkeypatch.setenv(PROGRAM_VARIABLE, etcd_program())
    with Reader(document, tmp_path, forked=document != README) as reader:
        reader.read()


@pytest.mark.timeout(900)
def test_every_statement_answers_as_its_page_says(tmp_path: Path) -> None:
    with Reader(SQL_PAGE, tmp_path, forked=True) as reader:
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
