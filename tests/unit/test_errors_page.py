"""docs/errors.md explains every error code, and says how a command ends by it."""

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

import leasehold
from leasehold import errors
from leasehold.core.catalog.catalog import Diverged
from leasehold.error_codes import ErrorCode
from leasehold.errors import ExitCode, LeaseholdError, Refused
from leasehold.metastorage.contract import Compacted, FutureRevision, LeadershipLost
from leasehold.metastorage.log.bootstrap import OtherLog, StoreSetBack
from leasehold.metastorage.log.store import StoreDenied, StoreFull, StoreUnsuitable
from leasehold.metastorage.log.unled import StillLed
from leasehold.metastorage.moved import MetaMoved, MetaUnfinished
from leasehold.metastorage.restore_target import MetaStorageExists
from tests.sources import sources

SOURCE = Path(leasehold.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
ROW = re.compile(r"\| `(\w+)` \| ([^|]+) \| (\d(?: or \d)*) \| ([^|]+) \|")
KINDS = {
    one.__name__: one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, LeaseholdError)
}
OWN_CODES = [one for one in KINDS.values() if one is not LeaseholdError]
OWN_CODES += [Compacted, Diverged, FutureRevision, LeadershipLost, MetaStorageExists, OtherLog]
OWN_CODES += [MetaMoved, MetaUnfinished, StillLed, StoreDenied, StoreFull, StoreSetBack, StoreUnsuitable]
KINDS |= {"Reject": Refused, "RenewalRefused": Refused}  # messages that become a `Refused` of the same code


class Entry(NamedTuple):
    code: ErrorCode
    meaning: str
    exits: set[ExitCode]
    remedy: str


def entry(line: str) -> Entry:
    row = ROW.fullmatch(line)
    assert row is not None, line
    return Entry(ErrorCode[row[1]], row[2], {ExitCode(int(one)) for one in row[3].split(" or ")}, row[4])


SECTIONS = {
    section.partition("\n")[0]: [entry(line) for line in section.splitlines() if line.startswith("| `")]
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
}
ENTRIES = [one for entries in SECTIONS.values() for one in entries]


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
    for path, tree in sources().items():
        for call in () if "testing" in path.parts else ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in KINDS:
                for code in named(call):
                    found[code].add(KINDS[call.func.id].exit_code)
    return found


def test_each_code_is_explained_once() -> None:
    assert sorted(one.code for one in ENTRIES) == sorted(ErrorCode)


@pytest.mark.parametrize("title", SECTIONS)
def test_a_section_is_sorted(title: str) -> None:
    codes = [one.code for one in SECTIONS[title]]
    assert codes
    assert codes == sorted(codes)


def test_an_entry_says_how_a_command_ends_by_its_code() -> None:
    found = raised()
    assert found.keys() >= set(ErrorCode) - {ErrorCode.RECOVERING}, "each code is given to an error by its name"
    assert {one.code: one.exits for one in ENTRIES if one.code in found} == found


def test_entries_are_clauses_in_lower_case() -> None:
    for one in ENTRIES:
        for text in (one.meaning, one.remedy):
            assert text.strip() == text, one
            assert text[-1] not in ".;,:", one
        assert one.meaning[0].islower() or one.meaning.split()[0] in {"SQL", "DuckDB", "Spark"}, one
