"""A table with rows of several days, and which rows it must have after a write whose outcome is known or not."""

import datetime as dt
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow as pa

from leasehold.client.cluster import Cluster
from leasehold.ids import ObjectId
from tests.e2e.cluster import RunningCluster
from tests.e2e.waiting import files_below, wait_until

Mode = Literal["append", "overwrite", "merge"]
Row = tuple[object, ...]

DAYS = [dt.date(2013, 6, day) for day in (13, 14, 15)]
FIFTEENTH = "day = DATE '2013-06-15'"
OLD_ROWS = 300
NEW_FROM = 1_000
TWIN_FROM = 1_000_000
"""The column `twin` is the id and this, so a value in the wrong column is seen."""
FRAME = ("id", "DATE '2013-06-15' AS day", f"id + {TWIN_FROM} AS twin")
"""Of a range of ids: rows that the day may get."""


class Told(NamedTuple):
    """What the writer was told."""

    outcome: Literal["acknowledged", "refused", "unknown"]
    text: str = ""


class ReplacedDay:
    """A table with old rows in three files per bucket, which stands for all that a write may add, replace or merge."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self.name = name
        cluster.sql(f"CREATE TABLE {name} (id BIGINT, day DATE, twin BIGINT) CLUSTERED BY (id) INTO 2 BUCKETS")
        for begin in range(0, OLD_ROWS, 100):
            cluster.table(name).append(rows(range(begin, begin + 100)))
        facts = cluster.facts(name)
        self.table = facts.table
        self._columns = {field.id: field.name for field in facts.fields}
        self.before = self.found()
        self._segments = self._planned()

    def after(self, mode: Mode, new: range) -> list[Row]:
        """What the table has once the write is there; an overwrite is of the fifteenth, a merge goes by id."""
        stays = {
            "append": lambda row: True,
            "overwrite": lambda row: row[1] != DAYS[2],
            "merge": lambda row: row[0] not in new,
        }[mode]
        kept = [row for row in self.before if stays(row)]
        return sorted([*kept, *((one, DAYS[2], one + TWIN_FROM) for one in new)], key=repr)

    def found(self) -> list[Row]:
        """The rows of the table in the order of the columns as they were at first; None for a column that is gone."""
        facts = self._cluster.facts(self.name)
        assert facts.table == getattr(self, "table", facts.table), "it is another table"
        now = {field.id: field.name for field in facts.fields}
        read = self._cluster.table(self.name).scan().read_all()
        columns = getattr(self, "_columns", now)
        nulls = [None] * read.num_rows
        values = [read[now[one]].to_pylist() if one in now else nulls for one in columns]
        return sorted(zip(*values, strict=True), key=repr)

    def check(self, told: Told, mode: Mode, new: range, gone: frozenset[str] = frozenset()) -> bool:
        """Whether the rows are there. Fails unless the table has all of them once or none, as the writer was told; the
        columns that are `gone` are left out."""
        places = [place for place, name in enumerate(self._columns.values()) if name not in gone]
        found, before, after = (
            sorted((tuple(row[place] for place in places) for row in all_rows), key=repr)
            for all_rows in (self.found(), self.before, self.after(mode, new))
        )
        allowed = {"acknowledged": [after], "refused": [before], "unknown": [before, after]}[told.outcome]
        assert found in allowed, f"{told}: {len(found)} rows, {len(before)} before, {len(after)} if written"
        return found == after

    def check_files(self, running: RunningCluster) -> None:
        """Waits until the nodes have no file of the table that is in no manifest, nor a half one."""
        known = self._segments | self._planned()

        def are_known() -> bool:
            return all(files(running.directory, name, self.table) <= known for name in running.names())

        wait_until(are_known)

    def _planned(self) -> set[str]:
        return {str(one.id) for one in self._cluster.plan(self.name).segments}


def files(directory: Path, node: str, table: ObjectId) -> set[str]:
    """The names of the files of a table, without their ending; of half ones with the table's number before it."""
    staged = (one for one in files_below(directory / node / "staging") if one.name.startswith(f"{table}-"))
    return {one.stem for one in (*files_below(directory / node / "segments" / str(table)), *staged)}


def rows(ids: range, day: dt.date | None = None) -> pa.Table:
    days = [day or DAYS[one % 3] for one in ids]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "day": pa.array(days, pa.date32()),
            "twin": pa.array([one + TWIN_FROM for one in ids], pa.int64()),
        }
    )
