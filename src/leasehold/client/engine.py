"""DuckDB runs a SELECT over scans of tables, on a thread of its own.

The SELECT is untrusted text: DuckDB runs it without files, network, extensions, or the variables of this process,
within a bound of memory, and can't change these settings. The thread lets Ctrl-C end a query at any time, since DuckDB
returns to Python only when it has rows. An error that ends a scan ends the query.
"""

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import duckdb
import pyarrow as pa

from leasehold.core.words.messages import ScanPlan, ViewBody
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, Refused
from leasehold.limits.clients import REASON_CHARACTERS_MAX, SCAN_PAUSE_NS
from leasehold.limits.processes import END_POLL_NS
from leasehold.limits.queries import QUERY_BATCHES_AHEAD, QUERY_STOP_NS, QUERY_THREADS_MAX
from leasehold.limits.segments import BATCH_ROWS
from leasehold.limits.units import SECOND_NS
from leasehold.storage.schema import arrow_schema

Open = Callable[[ScanPlan], pa.RecordBatchReader]
"""Reads a plan from its first row."""

_HUGE: Final = frozenset({"HUGEINT", "UHUGEINT"})
"""The types of DuckDB's sums of integers; other engines don't have them."""
_NO_WORDS: Final = (duckdb.CatalogException, duckdb.NotImplementedException, duckdb.ParserException)
"""What DuckDB raises for functions and clauses that it lacks."""

_OUT_OF_MEMORY: Final = "Out of Memory Error"


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A SELECT ready to run: `text` in DuckDB's words, in which each table and view is called as `called` says.

    `views` has each view after those that it reads, with its SELECT in DuckDB's words. `names` are the names of the
    result's columns, `elsewhere` is the line that runs the SELECT in Spark.
    """

    text: str
    names: tuple[str, ...]
    called: Mapping[str, str]
    plans: Mapping[str, ScanPlan]
    views: tuple[tuple[ViewBody, str], ...]
    elsewhere: str
    memory_bytes: int


class Run:
    """One run of a SELECT, on a thread of its own, which `start` begins and `stop` ends."""

    def __init__(
        self, prepared: Prepared, open_plan: Open, on_read: Callable[[int, int], None] = lambda *_: None
    ) -> None:
        self._prepared = prepared
        self._open = open_plan
        self._on_read = on_read
        self._rows = sum(segment.rows for plan in prepared.plans.values() for segment in plan.segments)
        self._rows_read = 0
        self._ended_by: BaseException | None = None
        self._stopped = threading.Event()
        self._queue: queue.Queue[pa.RecordBatch | pa.Schema | BaseException | None] = queue.Queue(QUERY_BATCHES_AHEAD)
        self._connection = duckdb.connect(":memory:", config=engine_config(prepared.memory_bytes))
        # A daemon: a process that ends does not wait for a query that nobody reads.
        self._thread = threading.Thread(target=self._run, name="query", daemon=True)

    def start(self) -> None:
        """An interrupt may end this call after the thread has begun, so whoever calls it must call `stop` then."""
        self._thread.start()

    def take(self) -> pa.RecordBatch | pa.Schema | None:
        """The schema, then one batch after the other, then None. Raises what ended the query."""
        while True:
            # A wait without a timeout can't be interrupted if a library, such as polars, restarts interrupted calls.
            with contextlib.suppress(queue.Empty):
                item = self._queue.get(timeout=SCAN_PAUSE_NS / SECOND_NS)
                if isinstance(item, BaseException):
                    raise item
                return item

    def stop(self) -> None:
        """Ends the query, and waits for its thread for QUERY_STOP_NS at most. Idempotent."""
        self._stopped.set()
        for _ in range(QUERY_STOP_NS // END_POLL_NS):
            if not self._thread.is_alive():
                return
            # An interrupt that comes before a step of the query has begun does nothing.
            with contextlib.suppress(duckdb.ConnectionException):  # closed meanwhile
                self._connection.interrupt()
            self._thread.join(END_POLL_NS / SECOND_NS)

    # ------------------------------------------------------------ on the thread

    def _run(self) -> None:
        last: BaseException | None = None
        try:
            try:
                if not self._stopped.is_set():  # else `stop` saw no thread yet
                    with self._failing():
                        self._answer()
            finally:
                self._connection.close()
        except BaseException as error:  # noqa: BLE001 it is raised where the batches are taken
            last = error
        self._put(last)

    def _answer(self) -> None:
        connection, prepared = self._connection, self._prepared
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET lock_configuration = true")
        for name, plan in prepared.plans.items():
            connection.register(prepared.called[name], _Scan(plan, self._batches))
        for view, text in prepared.views:
            names = ", ".join(f'"{column.name}"' for column in view.columns)
            connection.execute(f'CREATE TEMP VIEW "{prepared.called[view.name]}" ({names}) AS {text}')
        relation = connection.sql(prepared.text)
        huge = [str(kind) in _HUGE for kind in relation.types]
        reader = relation.to_arrow_reader(BATCH_ROWS)
        try:
            schema = _schema(reader.schema, prepared.names, huge)
            wanted = self._put(schema)
            while wanted and (batch := next(reader, None)) is not None:
                wanted = self._put(_fitted(batch, schema))
        finally:
            reader.close()

    def _put(self, item: pa.RecordBatch | pa.Schema | BaseException | None) -> bool:
        """False if the query was stopped."""
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=SCAN_PAUSE_NS / SECOND_NS)
            except queue.Full:
                continue
            return True
        return False

    def _batches(self, plan: ScanPlan) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._open(plan):
                if self._stopped.is_set():
                    return
                self._rows_read += batch.num_rows
                self._on_read(self._rows_read, self._rows)
                yield batch
        except GeneratorExit:
            raise
        except BaseException as error:
            self._ended_by = error
            raise

    @contextlib.contextmanager
    def _failing(self) -> Generator[None]:
        """Raises the error that ended a scan, else DuckDB's error as one of ours."""
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            if isinstance(self._ended_by, LeaseholdError):
                raise self._ended_by from error
            raise _refused(error, self._prepared) from error


def engine_config(
    memory_bytes: int, *, threads: int = QUERY_THREADS_MAX, folder: str = ""
) -> dict[str, str | bool | int | float | list[str]]:
    """DuckDB without files, network and extensions; what its memory can't hold lies in `folder`, if one is given."""
    return {
        "enable_external_access": False,
        "python_enable_replacements": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "memory_limit": f"{memory_bytes}B",
        "temp_directory": folder,
        "threads": min(threads, os.cpu_count() or 1),
    }


def _schema(answered: pa.Schema, names: tuple[str, ...], huge: list[bool]) -> pa.Schema:
    """The schema with the names as written, and integers of at most 64 bits."""
    kinds = (pa.int64() if is_huge else field.type for field, is_huge in zip(answered, huge, strict=True))
    return pa.schema([pa.field(name, kind) for name, kind in zip(names, kinds, strict=True)])


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        column if column.type.equals(kind) else column.cast(kind)
        for column, kind in zip(batch.columns, schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _refused(error: Exception, prepared: Prepared) -> Refused:
    """DuckDB's error with the names as written."""
    said = str(error).split("\nLINE ", maxsplit=1)[0].split("\nDatabase is launched", maxsplit=1)[0].strip()
    for name, word in prepared.called.items():
        said = said.replace(word, name)
    text = f"this SELECT can't run: {' '.join(said.split())[:REASON_CHARACTERS_MAX]}"
    # While rows are read, Arrow raises DuckDB's errors as its own, with their text.
    if isinstance(error, duckdb.OutOfMemoryException) or _OUT_OF_MEMORY in said:
        more = f"cluster.query(.., memory_bytes=..) allows more than {prepared.memory_bytes} bytes"
        return Refused(text, code=ErrorCode.QUERY_TOO_LARGE, hint=f"{more}; or {prepared.elsewhere}")
    if isinstance(error, _NO_WORDS):
        return Refused(text, code=ErrorCode.NOT_ON_THIS_ENGINE, hint=prepared.elsewhere)
    return Refused(text, code=ErrorCode.QUERY_FAILED, hint="DuckDB runs a SELECT here: CAST values where types differ")


class _Scan:
    """One table, in the Arrow PyCapsule interface; each stream reads it from its first row."""

    def __init__(self, plan: ScanPlan, batches: Callable[[ScanPlan], Iterator[pa.RecordBatch]]) -> None:
        self._plan = plan
        self._batches = batches
        self._schema = arrow_schema(plan.fields)

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self._schema, self._batches(self._plan))
        return reader.__arrow_c_stream__(requested_schema)
