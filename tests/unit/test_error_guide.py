"""The guide explains every error code, says how a command ends by it, and is what docs/errors.md shows."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest
from tools.errors_page import PAGE, render

import leasehold
from leasehold import errors
from leasehold.core.catalog.catalog import Diverged
from leasehold.error_codes import ErrorCode
from leasehold.error_guide import GUIDE, SECTIONS
from leasehold.errors import ExitCode, LeaseholdError, Refused
from leasehold.metastorage.contract import Compacted, FutureRevision, LeadershipLost

SOURCE = Path(leasehold.__file__).parent
KINDS = {
    one.__name__: one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, LeaseholdError)
}
OWN_CODES = [one for one in KINDS.values() if one is not LeaseholdError]
OWN_CODES += [Compacted, Diverged, FutureRevision, LeadershipLost]
KINDS |= {"Reject": Refused, "RenewalRefused": Refused}  # messages that become a `Refused` of the same code


def named(call: ast.Call) -> list[ErrorCode]:
    """The codes that a call is given by name."""
    values = [keyword.value for keyword in call.keywords if keyword.arg == "code"]
    parts = [part for value in values for part in ast.walk(value) if isinstance(part, ast.Attribute)]
    return [ErrorCode[part.attr] for part in parts if ast.unparse(part.value) == "ErrorCode"]


def raised() -> dict[ErrorCode, set[ExitCode]]:
    """By code: how a command ends by the errors that the code makes with it."""
    found: dict[ErrorCode, set[ExitCode]] = defaultdict(set)
    for kind in OWN_CODES:
        found[kind.default_code].add(kind.exit_code)
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse("" if "testing" in path.parts else path.read_text(encoding="utf-8"))
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in KINDS:
                for code in named(call):
                    found[code].add(KINDS[call.func.id].exit_code)
    return found


def test_each_code_is_explained_once() -> None:
    listed = [code for entries in SECTIONS.values() for code in entries]
    assert sorted(listed) == sorted(ErrorCode)


@pytest.mark.parametrize("title", SECTIONS)
def test_a_section_is_sorted(title: str) -> None:
    assert list(SECTIONS[title]) == sorted(SECTIONS[title])


def test_an_entry_says_how_a_command_ends_by_its_code() -> None:
    found = raised()
    assert found.keys() >= set(ErrorCode) - {ErrorCode.RECOVERING}, "each code is given to an error by its name"
    assert {code: set(GUIDE[code].exits) for code in found} == found


def test_entries_are_clauses_in_lower_case() -> None:
    for code, entry in GUIDE.items():
        for text in (entry.meaning, entry.remedy):
            assert text.strip() == text, code
            assert text[-1] not in ".;,:", code
            assert "|" not in text, code
        assert entry.meaning[0].islower() or entry.meaning.split()[0] in {"SQL", "DuckDB", "Spark"}, code


def test_the_page_is_what_the_guide_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run `python -m tools.errors_page`"
