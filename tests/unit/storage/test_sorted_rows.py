"""Rows that are sorted a bounded number of bytes at a time."""

import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.storage import sorted_rows
from leasehold.storage.sorted_rows import SortedRows
from tests.unit.storage.rows import batch_of, field

FIELDS = [field(1, "v", "BIGINT"), field(2, "at", "TIMESTAMP")]
LAST = datetime.datetime.max.replace(tzinfo=datetime.UTC)
TIMES = st.lists(st.none() | st.integers(-5, 5))


def by_time(row: list[Any]) -> tuple[object, ...]:
    return row[1] is None, row[1] or LAST, row[0]


def in_parts(held: SortedRows, batches: list[pa.RecordBatch]) -> list[list[list[Any]]]:
    """What comes back after each batch, and at the end, as lists of rows."""
    found = [list(held.add(one)) for one in batches]
    found.append(list(held.rest()))
    return [[[row["v"], row["at"]] for part in parts for row in part.to_pylist()] for parts in found]


def numbered(several: list[list[int | None]]) -> list[pa.RecordBatch]:
    numbers = iter(range(sum(map(len, several))))
    return [batch_of(FIELDS, [[next(numbers) for _ in times], list(times)]) for times in several]


@given(several=st.lists(TIMES, max_size=6), group_rows=st.integers(1, 7))
def test_all_rows_come_back_by_time_and_equal_ones_as_they_came(
    several: list[list[int | None]], group_rows: int
) -> None:
    batches = numbered(several)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_rows, "ROW_GROUP_ROWS", group_rows)
        *before, last = in_parts(SortedRows(1), batches)
    assert not any(before)
    rows = [[row["v"], row["at"]] for batch in batches for row in batch.to_pylist()]
    assert last == sorted(rows, key=by_time)


@given(several=st.lists(TIMES, max_size=6), bytes_max=st.integers(1, 10_000))
def test_it_gives_back_what_it_holds_as_soon_as_that_is_much(several: list[list[int | None]], bytes_max: int) -> None:
    batches = numbered(several)
    found = in_parts(SortedRows(1, bytes_max), batches)
    for part in found:
        assert part == sorted(part, key=by_time)
    assert sorted(row[0] for part in found for row in part) == list(range(sum(map(len, several))))
    if bytes_max == 1:
        assert [len(one) for one in found] == [*map(len, several), 0], "each batch is much"
