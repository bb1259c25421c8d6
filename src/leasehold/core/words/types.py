"""Column types: what a table can hold, as a closed union, with their one canonical spelling.

`BIGINT`, `DECIMAL(10,2)` .. are both what SQL shows and what records store.
"""

import re
from typing import Final, TypeAlias, assert_never

import msgspec

from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.statements import DECIMAL_PRECISION_MAX


class Plain(msgspec.Struct, frozen=True):
    """A type without parameters, one of `PLAIN_NAMES`."""

    name: str


class Decimal(msgspec.Struct, frozen=True):
    """Exact decimal of `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int


ColumnType: TypeAlias = Plain | Decimal

PLAIN_NAMES = frozenset(
    {
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "STRING",
        "BINARY",
        "DATE",
        "TIMESTAMP",
    }
)
_WIDER: Final = {
    "TINYINT": ("SMALLINT", "INT", "BIGINT"),
    "SMALLINT": ("INT", "BIGINT"),
    "INT": ("BIGINT",),
    "FLOAT": ("DOUBLE",),
}
DECIMAL_SPELLING = re.compile(r"DECIMAL\(([1-9][0-9]?),(0|[1-9][0-9]?)\)")


def parse_type(text: str) -> ColumnType:
    """The type spelled `text`; raises `Refused` with code BAD_TYPE for anything else."""
    if text in PLAIN_NAMES:
        return Plain(text)
    match = DECIMAL_SPELLING.fullmatch(text)
    if match is not None:
        precision, scale = int(match[1]), int(match[2])
        if precision <= DECIMAL_PRECISION_MAX and scale <= precision:
            return Decimal(precision, scale)
    raise Refused(
        f"unknown column type {text[:100]!r}",
        code=ErrorCode.BAD_TYPE,
        hint="use one of " + ", ".join(sorted(PLAIN_NAMES)) + ", DECIMAL(precision,scale)",
    )


def render_type(column: ColumnType) -> str:
    """The canonical spelling, the inverse of `parse_type`."""
    match column:
        case Plain(name):
            return name
        case Decimal(precision, scale):
            return f"DECIMAL({precision},{scale})"
        case _:
            assert_never(column)


def widens(now: ColumnType, asked: ColumnType) -> bool:
    """Whether a column may become `asked`: it holds all values of `now`, and files can be read as both."""
    if isinstance(now, Decimal) and isinstance(asked, Decimal):
        return asked.scale == now.scale and asked.precision > now.precision
    return isinstance(now, Plain) and isinstance(asked, Plain) and asked.name in _WIDER.get(now.name, ())


def wider_than(now: ColumnType) -> str:
    """All that a type can become, for people; empty for nothing."""
    if isinstance(now, Plain):
        return ", ".join(_WIDER.get(now.name, ()))
    if now.precision == DECIMAL_PRECISION_MAX:
        return ""
    return f"DECIMAL(p,{now.scale}) with p from {now.precision + 1} to {DECIMAL_PRECISION_MAX}"
