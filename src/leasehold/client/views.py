"""Reading a view in this process: DuckDB runs its SELECT over scans of the tables.

Each table is pinned by one plan, however often the SELECT names it, and read anew each time. The nodes hold every batch
against the views that it is read through, so a view that is dropped ends its readers as a table does.

The SELECT is somebody else's text: DuckDB runs it without files, network, extensions, or the variables of this process.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import duckdb
import pyarrow as pa

from leasehold.core.messages import ScanPlan, ViewFacts
from leasehold.errors import LeaseholdError, Refused
from leasehold.limits import BATCH_ROWS, REASON_CHARACTERS_MAX
from leasehold.sql.views import words, written
from leasehold.storage.schema import arrow_schema
from leasehold.wire.entropy import SystemEntropy

Open = Callable[[ScanPlan], pa.RecordBatchReader]
"""Reads a plan from its first row."""

_HUGE: Final = frozenset({"HUGEINT", "UHUGEINT"})
"""What DuckDB makes of a sum of integers; nobody else has such a type."""


def read_view(facts: ViewFacts, plans: Mapping[str, ScanPlan], open_plan: Open) -> pa.RecordBatchReader:
    """The rows of the last of the views, as a stream; `plans` are those of `facts.tables`, by name.

    Types are DuckDB's, integers of at most 64 bits. Raises `Refused` with code NOT_ON_THIS_ENGINE, or VIEW_FAILED with
    what DuckDB says; what ends a scan is raised as it is. So does the stream.
    """
    scans = _Scans(open_plan)
    connection = duckdb.connect(
        ":memory:", config={"enable_external_access": False, "python_enable_replacements": False}
    )
    try:
        with scans.failing():
            reader = _query(connection, facts, plans, scans)
    except BaseException:
        connection.close()
        raise
    return pa.RecordBatchReader.from_batches(reader.schema, _rows(reader, connection, scans))


def _query(
    connection: duckdb.DuckDBPyConnection, facts: ViewFacts, plans: Mapping[str, ScanPlan], scans: "_Scans"
) -> pa.RecordBatchReader:
    called = words((one.name for one in (*facts.tables, *facts.views)), SystemEntropy().hex_128())
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET lock_configuration = true")
    for table in facts.tables:
        connection.register(called[table.name], scans.of(plans[table.name]))
    for view in facts.views:
        names = ", ".join(f'"{column.name}"' for column in view.columns)
        connection.execute(
            f'CREATE TEMP VIEW "{called[view.name]}" ({names}) AS {written(view.body, called, "duckdb")}'
        )
    whole = connection.table(called[facts.views[-1].name])
    kinds = zip(whole.columns, map(str, whole.types), strict=True)
    shown = (f'CAST("{name}" AS BIGINT) AS "{name}"' if kind in _HUGE else f'"{name}"' for name, kind in kinds)
    return whole.project(", ".join(shown)).to_arrow_reader(BATCH_ROWS)


def _rows(
    reader: pa.RecordBatchReader, connection: duckdb.DuckDBPyConnection, scans: "_Scans"
) -> Iterator[pa.RecordBatch]:
    try:
        with scans.failing():
            yield from reader
    finally:
        reader.close()
        connection.close()


class _Scans:
    """What DuckDB scans, and the error that ended a scan: through DuckDB only its text would come."""

    def __init__(self, open_plan: Open) -> None:
        self._open = open_plan
        self._ended_by: BaseException | None = None

    def of(self, plan: ScanPlan) -> "_Scan":
        """The rows of a plan, as often as they are asked for."""
        return _Scan(plan, self._batches)

    def _batches(self, plan: ScanPlan) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._open(plan)
        except GeneratorExit:
            raise
        except BaseException as error:
            self._ended_by = error
            raise

    @contextmanager
    def failing(self) -> Generator[None]:
        """Raises what ended a scan, else what DuckDB says, as one of our errors."""
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            if isinstance(self._ended_by, LeaseholdError):
                raise self._ended_by from error
            raise Refused(
                f"the view can't be read: {str(error)[:REASON_CHARACTERS_MAX]}",
                code="VIEW_FAILED",
                hint="DuckDB runs views here; leasehold.spark.view reads them with Spark",
            ) from error


class _Scan:
    """One table, as the Arrow PyCapsule interface has it."""

    def __init__(self, plan: ScanPlan, batches: Callable[[ScanPlan], Iterator[pa.RecordBatch]]) -> None:
        self._plan = plan
        self._batches = batches
        self._schema = arrow_schema(plan.fields)

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self._schema, self._batches(self._plan))
        return reader.__arrow_c_stream__(requested_schema)
