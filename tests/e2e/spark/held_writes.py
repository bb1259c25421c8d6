"""Writes that leave a file at each place that they pass, and wait at one of them until a fault has happened.

Rows that go by way of files pass the places from `opened` on in the driver, and so do those that it merges alone.

| place      | it is passed                                                                  |
| ---------- | ----------------------------------------------------------------------------- |
| begun      | before the write, in the driver                                               |
| rows       | in each task that makes rows; before `opened` if they go by way of files      |
| opened     | with the id of the transaction in the file                                    |
| staging    | in each task, when its rows are on their way to the nodes                     |
| staged     | in each task, when all of its rows are on the nodes                           |
| committing | before the commit                                                             |
| committed  | after it, before Spark knows                                                  |
| ended      | after the write, in the driver                                                |
"""

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from leasehold.client.cluster import Cluster
from leasehold.core.words.messages import TableFacts
from leasehold.core.words.records import TransactionState
from leasehold.errors import Definite, LeaseholdError
from leasehold.ids import TransactionId
from leasehold.spark import merge, merges, write, writes
from leasehold.spark.sink import LeaseholdSink, StagedByTask
from leasehold.spark.source import LeaseholdSource
from leasehold.wire.clock import sleep_ns
from tests.e2e.spark.holding import HELD_SECONDS
from tests.e2e.spark.replaced_days import FIFTEENTH, FRAME, Mode, Told

GO = "go"
"""The file for which they wait."""
FIRST = "0-0"
"""The first attempt of the first task."""
ACKNOWLEDGED = Told("acknowledged")
POLLS = HELD_SECONDS * 50


class Places:
    """The places of one write, in a folder of its own."""

    def __init__(self, folder: Path, holds: str = "", only: str = "") -> None:
        """It waits at `holds`; in tasks, if `only` names one attempt, in this one alone."""
        self.folder = folder
        self.holds = holds
        self.only = only
        folder.mkdir(exist_ok=True)

    def passed(self, place: str) -> bool:
        return (self.folder / place).exists()

    def go(self) -> None:
        (self.folder / GO).touch()

    def transaction(self) -> TransactionId | None:
        """None if it was not opened."""
        return TransactionId((self.folder / "opened").read_text()) if self.passed("opened") else None

    def passing(self) -> Callable[..., None]:
        """What a process calls at a place. It travels whole: Spark's processes can't import the tests."""
        folder, holds, only, polls = str(self.folder), self.holds, self.only, POLLS

        def passes(place: str, text: str = "") -> None:
            task = TaskContext.get()
            attempt = "" if task is None else f"{task.partitionId()}-{task.attemptNumber()}"
            for name in {place, f"{place}-{attempt}".rstrip("-")}:
                half = Path(folder, f".{name}-{attempt}")
                half.write_text(text)
                half.rename(Path(folder, name))
            for _ in range(polls if place == holds and only in {"", attempt} else 0):
                if Path(folder, "go").exists():
                    return
                sleep_ns(20_000_000)

        return passes

    def source(self) -> type[LeaseholdSource]:
        """A source whose writes pass the places."""
        passes = self.passing()

        class HeldSink(LeaseholdSink):
            def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedByTask:
                def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                    for batch in batches:
                        yield batch
                        passes("staging")

                made = super().write(held(iterator))
                passes("staged")
                return made

            def commit(self, messages: list[WriterCommitMessage | None]) -> None:
                passes("committing")
                super().commit(messages)
                passes("committed")

        class HeldSource(LeaseholdSource):
            @classmethod
            def name(cls) -> str:
                return "held"

            def writer(self, schema: StructType, overwrite: bool) -> LeaseholdSink:
                made = super().writer(schema, overwrite)
                passes("opened", made.transaction)
                made.__class__ = HeldSink
                return made

        return HeldSource

    def frame(self, spark: SparkSession, new: range, tasks: int) -> DataFrame:
        """New rows of the fifteenth, with these ids."""
        passes = self.passing()

        def held(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch
                passes("rows")

        made = spark.range(new.start, new.stop, 1, tasks).mapInArrow(held, "id bigint")
        return made.selectExpr(*FRAME)


def held_write(
    spark: SparkSession,
    cluster: Path,
    places: Places,
    name: str,
    mode: Mode,
    new: range,
    *,
    files: bool,
    tasks: int = 2,
) -> Told:
    """Writes new rows of the fifteenth, puts them in place of those that there are, or merges them by id: by way of
    `files` or not, a merge by the driver alone or not."""
    spark.dataSource.register(places.source())
    with pytest.MonkeyPatch.context() as patch:
        passes = places.passing()
        if files:
            hold_driver(patch, passes)
        patch.setattr(writes, "FORMAT", "held")
        if not files:
            patch.setattr(writes, "bytes_here", lambda _: None)
            patch.setattr(merges, "MERGE_ALONE_BYTES_MAX", -1)
        passes("begun")
        told = written(places.frame(spark, new, tasks), name, mode, cluster)
        passes("ended", told.outcome)
        return told


def hold_driver(patch: pytest.MonkeyPatch, passes: Callable[..., None]) -> None:
    """Has what this thread writes pass the places."""
    thread, (opening, staging, committing) = (
        threading.get_ident(),
        (Cluster.open_transaction, Cluster.stage, Cluster.commit),
    )

    def open_transaction(
        cluster: Cluster, facts: TableFacts, transaction: TransactionId, *given: Any, **more: Any
    ) -> Any:
        opened = opening(cluster, facts, transaction, *given, **more)
        if threading.get_ident() == thread:
            passes("opened", transaction)
        return opened

    def stage(cluster: Cluster, facts: TableFacts, transaction: TransactionId, rows: Any, *given: Any) -> Any:
        if threading.get_ident() != thread:
            return staging(cluster, facts, transaction, rows, *given)

        def held() -> Iterator[pa.RecordBatch]:
            for batch in rows:
                yield batch
                passes("staging")

        staged = staging(cluster, facts, transaction, held(), *given)
        passes("staged")
        return staged

    def commit(cluster: Cluster, *given: Any, **more: Any) -> Any:
        if threading.get_ident() != thread:
            return committing(cluster, *given, **more)
        passes("committing")
        done = committing(cluster, *given, **more)
        passes("committed")
        return done

    patch.setattr(Cluster, "open_transaction", open_transaction)
    patch.setattr(Cluster, "stage", stage)
    patch.setattr(Cluster, "commit", commit)


def written(frame: DataFrame, name: str, mode: Mode, cluster: Path | None = None) -> Told:
    """What `write` or `merge` says to a frame for the fifteenth."""
    try:
        if mode == "merge":
            merge(frame, name, on=["id"], cluster=cluster)
        else:
            write(frame, name, mode, where=FIFTEENTH if mode == "overwrite" else None, cluster=cluster)
    except LeaseholdError as error:
        kind = "refused" if isinstance(error, Definite) else "unknown"
        return Told(kind, f"leasehold.errors.{type(error).__name__}: {error.text} [{error.code}]")
    except (PySparkException, Py4JError) as error:
        text = str(error)
        kinds = set(re.findall(r"leasehold\.errors\.(Definite|Indefinite): ", text))
        return Told("refused" if kinds == {"Definite"} else "unknown", text)
    return ACKNOWLEDGED


def code(told: Told) -> str:
    """The code of what was refused, in brackets as people see it."""
    found = re.search(r"\[([A-Z_]+)\]", "\n".join(one for one in told.text.splitlines() if "leasehold.errors." in one))
    assert found is not None, told.text
    return found[1]


def end(cluster: Cluster, name: str, places: Places) -> TransactionState | None:
    """Ends the transaction of a write whose driver is gone, and says how it ended; None if it was not opened."""
    transaction = places.transaction()
    if transaction is None:
        return None
    return cluster.abort(cluster.facts(name).cluster_id, transaction).state
