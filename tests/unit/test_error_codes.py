"""Error codes are members of one enum: no place in the code spells one as a string."""

import ast
from collections.abc import Iterator

import pytest

from leasehold.error_codes import ErrorCode
from tests.sources import sources

OTHER_WORDS = frozenset(
    {"ABORTED", "CLOSED", "FENCED", "RECOVERING", "REFUSED", "ROLLED_BACK", "RUNNING", "SILENT", "UNKNOWN"}
)
"""Codes that are also states of a statement, a transaction, a node or a session."""
CODES = frozenset(ErrorCode) - OTHER_WORDS


def strings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def is_code(tree: ast.AST) -> bool:
    return isinstance(tree, ast.Attribute) and tree.attr in {"code", "default_code"}


def spelled(tree: ast.Module) -> set[str]:
    """Strings that stand where a code belongs, and strings that are the name of a code and of nothing else."""
    found = {one for one in strings(tree) if one in CODES}
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="code", value=value) | ast.Assign(targets=[ast.Name(id="default_code")], value=value):
                found.update(strings(value))
            case ast.Compare() if any(map(is_code, (node.left, *node.comparators))):
                found.update(strings(node))
            case ast.Call(func=ast.Name(id="ErrorCode")):
                found.update(strings(node))
            case _:
                pass
    return found


def test_no_code_is_spelled_as_a_string() -> None:
    found = {
        str(path): one for path, tree in sources().items() if path.name != "error_codes.py" and (one := spelled(tree))
    }
    assert found == {"testing/oracle.py": {"INVARIANT_VIOLATED"}}, "a code is a member; that of a simulator is none"


@pytest.mark.parametrize(
    "line",
    [
        "raise Refused('no', code='NO_SUCH_CODE')",
        "raise Refused('no', code=ErrorCode('NO_SUCH_CODE'))",
        "x = error.code == 'NO_SUCH_CODE'",
        "x = error.code not in {'NO_SUCH_CODE', 'BUSY'}",
        "class A(Refused):\n    default_code = 'NO_SUCH_CODE'",
        "FINAL = frozenset({'TABLE_DROPPED'})",
    ],
)
def test_a_string_in_the_place_of_a_code_is_found(line: str) -> None:
    assert spelled(ast.parse(line))


def test_each_code_is_used_by_more_than_a_simulator() -> None:
    used = {
        node.attr
        for path, tree in sources().items()
        if path.parts[0] != "testing"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ErrorCode"
    }
    assert used == {code.name for code in ErrorCode}


def test_a_code_is_its_name() -> None:
    assert [code.value for code in ErrorCode] == sorted(code.name for code in ErrorCode)


def test_a_code_of_a_newer_version_is_read_and_is_no_member() -> None:
    code = ErrorCode("FROM_A_NEWER_VERSION")
    assert f"{code}" == code.name == code.value == "FROM_A_NEWER_VERSION"
    assert code == ErrorCode("FROM_A_NEWER_VERSION")
    assert code not in set(ErrorCode)
    assert ErrorCode("BUSY") is ErrorCode.BUSY


def test_a_code_is_text() -> None:
    with pytest.raises(ValueError, match="7 is not a valid ErrorCode"):
        ErrorCode(7)
