"""Rows of an answer, and the pages in which they travel."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words.messages import Rows
from leasehold.limits.statements import ROWS_PAGE_CHARACTERS_MAX, ROWS_PAGE_MAX

Row: TypeAlias = tuple[str | int | bool | None, ...]


def rows_of(columns: tuple[str, ...], rows: Iterable[Row], catalog: Catalog) -> Rows:
    """An answer as of this catalog."""
    return Rows(columns=columns, rows=tuple(rows), revision=catalog.revision)


def pages(rows: Rows) -> Iterator[Rows]:
    """Divides an answer into messages that are small enough; each but the last says that more follow."""
    begin = size = 0
    for number, row in enumerate(rows.rows):
        wide = sum(len(cell) for cell in row if isinstance(cell, str))
        if number > begin and (number - begin == ROWS_PAGE_MAX or size + wide > ROWS_PAGE_CHARACTERS_MAX):
            yield msgspec.structs.replace(rows, rows=rows.rows[begin:number], more=True)
            begin, size = number, 0
        size += wide
    yield msgspec.structs.replace(rows, rows=rows.rows[begin:])
