"""The code of the package, parsed once for all tests that look at it."""

import ast
from functools import cache
from pathlib import Path

import leasehold

SOURCE = Path(leasehold.__file__).parent


@cache
def sources() -> dict[Path, ast.Module]:
    """By path below the package."""
    return {
        path.relative_to(SOURCE): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))
    }
