"""The kind of a statement, by its first word. It decides where the statement runs.

No parser is loaded: a command that sends a definition to the coordinator needs none.
"""

import re
from enum import StrEnum
from typing import Final


class StatementKind(StrEnum):
    """Definitions and questions run in the coordinator, UPDATE and MERGE in Spark, the others in the client."""

    DEFINITION = "definition"
    SELECT = "select"
    INSERT = "insert"
    UPDATE = "update"
    MERGE = "merge"


_FIRST: Final = re.compile(r"(?:\s|--[^\n]*+(?:\n|\Z)|/\*.*?\*/)*+(\w+|\()", re.DOTALL | re.ASCII)
"""The first word behind spaces and comments."""
_KINDS: Final = {
    "SELECT": StatementKind.SELECT,
    "WITH": StatementKind.SELECT,
    "(": StatementKind.SELECT,
    "INSERT": StatementKind.INSERT,
    "UPDATE": StatementKind.UPDATE,
    "MERGE": StatementKind.MERGE,
}


def kind_of(text: str) -> StatementKind:
    """The kind of the statement in `text`; a text that is not understood is left to the coordinator to refuse."""
    match = _FIRST.match(text)
    return StatementKind.DEFINITION if match is None else _KINDS.get(match[1].upper(), StatementKind.DEFINITION)
