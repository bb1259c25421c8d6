"""Names, texts and values as SQL spells them: the inverse of `sql/cursor.py`."""

import re
from typing import Final

from sqlglot.dialects.spark import Spark

from leasehold.core.statements import Literal, TableName
from leasehold.sql.front import GRAMMAR

RESERVED: Final = frozenset(word for word in Spark.Tokenizer.KEYWORDS if word.isidentifier()) | frozenset(
    word for grammar in GRAMMAR.values() for word in re.findall(r"\b[A-Z]{2,}\b", grammar)
)
"""Words that may mean something to a parser, and so stand in backquotes where they are names."""


def spell_name(name: str) -> str:
    """A name, in backquotes if it could be taken for something else."""
    return f"`{name}`" if name.upper() in RESERVED else name


def spell_table(table: TableName) -> str:
    """`database.table`."""
    return f"{spell_name(table.database)}.{spell_name(table.table)}"


def spell_text(value: str) -> str:
    """A string in quotes."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def spell_literal(literal: Literal) -> str:
    """A value."""
    match literal.kind:
        case "string":
            return spell_text(literal.text)
        case "number":
            return literal.text
        case "boolean":
            return literal.text.upper()
        case "date" | "timestamp":
            return f"{literal.kind.upper()} {spell_text(literal.text)}"
        case "binary":
            return f"X'{literal.text}'"
        case "null":
            return "NULL"
