"""The answer of a SELECT: rows as a stream of Arrow, and what else they can become."""

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from leasehold.errors import BadSettings

if TYPE_CHECKING:
    import pandas as pd


class RunningQuery(Protocol):
    """A query under way, whose first rows are there."""

    @property
    def schema(self) -> pa.Schema:
        """Of all batches."""
        ...

    def take(self) -> pa.RecordBatch | None:
        """The next batch, None at the end. Raises what ended the query."""
        ...

    def stop(self) -> None:
        """Ends the query. Idempotent."""
        ...


class QueryResult:
    """The rows of a SELECT: a stream of Arrow batches that is read once, in the one way or the other.

    Anything that takes Arrow streams takes it as it is (`pyarrow.table(result)`, `duckdb.sql("FROM result")`). Ends its
    query when it is closed or forgotten; a context manager.
    """

    def __init__(self, run: RunningQuery) -> None:
        self.schema = run.schema
        self._run = run
        self._ended = False
        self._stop = weakref.finalize(self, run.stop)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches that were not taken yet. Raises what ends the query."""
        while not self._ended:
            try:
                batch = self._run.take()
            except BaseException:
                self.close()
                raise
            if batch is None:
                self.close()
                return
            yield batch

    def read_all(self) -> pa.Table:
        """All rows that were not taken yet."""
        return pa.Table.from_batches(self, self.schema)

    def to_pandas(self) -> "pd.DataFrame":
        """All rows as a pandas DataFrame."""
        return self.read_all().to_pandas()

    def to_polars(self) -> Any:
        """All rows as a polars DataFrame. Raises `BadSettings` where polars is not installed."""
        try:
            import polars  # noqa: PLC0415 # pyright: ignore[reportMissingImports] - only who uses it needs it
        except ImportError as error:
            raise BadSettings("polars is not installed here", hint="pip install polars") from error
        return polars.from_arrow(self.read_all())

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, self).__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Ends the query; rows that were not taken are gone. Idempotent."""
        self._ended = True
        self._stop()

    def __enter__(self) -> "QueryResult":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
