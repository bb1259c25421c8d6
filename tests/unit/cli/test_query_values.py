"""Rows of a SELECT as `leasehold sql` shows them, also dates and timestamps that Python can't hold."""

import io
import json
from typing import Any

import pyarrow as pa
import pytest

from leasehold.cli import query
from leasehold.cli.output import RowsOutput, RowsReadLine

DAY_10000 = 2_932_897
YEAR_10000_US = 253_402_300_800_000_000
UTC = pa.timestamp("us", "UTC")
FAR_DATES = pa.array([0, DAY_10000, None, 2**31 - 1], pa.int32()).cast(pa.date32())
FAR_TIMES = pa.array([1_500, YEAR_10000_US, None, 2**62], pa.int64()).cast(UTC)
LOCAL_TIMES = FAR_TIMES.cast(pa.timestamp("us"))
NO_DATE = "<value out of range: 2147483647>"
NO_TIME = f"<value out of range: {2**62}>"


class Answer:
    """A query's answer of one batch."""

    def __init__(self, **columns: pa.Array) -> None:
        self._batch = pa.RecordBatch.from_pydict(columns)
        self.schema = self._batch.schema

    def __iter__(self) -> Any:
        return iter([self._batch])


def table_of(monkeypatch: pytest.MonkeyPatch, **columns: pa.Array) -> list[list[str]]:
    shown: list[list[str]] = []
    monkeypatch.setattr(query, "show_table", lambda _names, rows: shown.extend(rows))
    query._show(Answer(**columns), RowsReadLine(is_shown=False))
    return shown


def written(output: RowsOutput, **columns: pa.Array) -> str:
    out = io.BytesIO()
    query._write(Answer(**columns), output, out)
    return out.getvalue().decode()


def test_a_table_shows_dates_and_timestamps_after_the_year_9999(monkeypatch: pytest.MonkeyPatch) -> None:
    assert table_of(monkeypatch, d=FAR_DATES, t=FAR_TIMES, l=LOCAL_TIMES) == [
        ["1970-01-01", "1970-01-01 00:00:00.001500Z", "1970-01-01 00:00:00.001500"],
        ["10000-01-01", "10000-01-01 00:00:00.000000Z", "10000-01-01 00:00:00.000000"],
        ["NULL", "NULL", "NULL"],
        [NO_DATE, NO_TIME, NO_TIME],
    ]


def test_json_has_them_as_text_and_the_others_as_before() -> None:
    assert json.loads(written(RowsOutput.JSON, d=FAR_DATES, t=FAR_TIMES))["rows"] == [
        ["1970-01-01", "1970-01-01T00:00:00.001500Z"],
        ["10000-01-01", "10000-01-01 00:00:00.000000Z"],
        [None, None],
        [NO_DATE, NO_TIME],
    ]


def test_csv_has_the_same_and_no_wrong_date_for_what_arrow_can_not_show() -> None:
    assert written(RowsOutput.CSV, d=FAR_DATES, t=FAR_TIMES, l=LOCAL_TIMES).splitlines() == [
        '"d","t","l"',
        '1970-01-01,"1970-01-01 00:00:00.001500Z",1970-01-01 00:00:00.001500',
        '10000-01-01,"10000-01-01 00:00:00.000000Z",10000-01-01 00:00:00.000000',
        ",,",
        f'{NO_DATE},"{NO_TIME}",{NO_TIME}',
    ]
    infinite = pa.array([2**63 - 1, -(2**63) + 1], pa.int64())
    rows = written(RowsOutput.CSV, t=infinite.cast(UTC)).splitlines()[1:]
    assert rows == [f'"<value out of range: {one.as_py()}>"' for one in infinite]
    others = written(RowsOutput.CSV, t=FAR_TIMES.slice(0, 2)).splitlines()
    assert others == ['"t"', "1970-01-01 00:00:00.001500Z", "10000-01-01 00:00:00.000000Z"], "without quotes"


def test_so_they_are_shown_within_lists_structs_maps_and_unions() -> None:
    dates = FAR_DATES.slice(0, 2)
    columns: dict[str, Any] = {
        "listed": pa.ListArray.from_arrays([0, 2], dates),
        "struct": pa.StructArray.from_arrays([dates.slice(1)], ["x"]),
        "map": pa.MapArray.from_arrays([0, 1], dates.slice(1), pa.array([7])),
        "union": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [dates.slice(1)]),
    }
    rows = json.loads(written(RowsOutput.JSON, **columns))["rows"]
    assert rows == [[["1970-01-01", "10000-01-01"], {"x": "10000-01-01"}, ["('10000-01-01', 7)"], "10000-01-01"]]
    csv = written(RowsOutput.CSV, **columns)
    assert csv.count("10000-01-01") == 4
