"""What errors say reads the same everywhere: a text and a hint are clauses in lower case, without a full stop."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.sources import sources

SENTENCE = re.compile(r"^(?!DuckDB|Parquet|Spark|PySpark|ZooKeeper|Ctrl-C)[A-Z][a-z]|[^.]\.$|[a-z]\. [A-Z]")


def written(tree: ast.expr) -> Iterator[str]:
    """What an expression may say, with {} for each value in it."""
    match tree:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
        case ast.IfExp(body=body, orelse=orelse):
            yield from (*written(body), *written(orelse))
        case _:
            pass


def said(tree: ast.Module) -> Iterator[str]:
    """Texts and hints of errors."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(args=args, keywords=keywords):
                given = {keyword.arg: keyword.value for keyword in keywords}
                texts = args[:1] if given.keys() & {"hint", "code"} else []
                texts += [given[name] for name in ("hint", "text") if name in given]
            case ast.Assign(targets=[ast.Name(id="hint" | "text")], value=value):
                texts = [value]
            case _:
                continue
        for text in texts:
            yield from written(text)


def test_texts_and_hints_are_clauses_in_lower_case() -> None:
    found = {
        str(path): wrong
        for path, tree in sources().items()
        if (wrong := [text for text in said(tree) if SENTENCE.search(text)])
    }
    assert found == {}


@pytest.mark.parametrize(
    "line",
    [
        "raise Refused('The table is gone', hint='look again')",
        "raise Refused(f'table {name} was dropped.', code=ErrorCode.TABLE_DROPPED)",
        "raise Refused('the table is gone', hint='Look again' if known else 'ask')",
        "hint = f'{name} is gone. Look again'",
    ],
)
def test_a_sentence_is_found(line: str) -> None:
    assert any(SENTENCE.search(text) for text in said(ast.parse(line)))
