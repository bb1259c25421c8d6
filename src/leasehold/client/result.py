"""The result of a SELECT: a stream of Arrow, which can become a table or a frame."""

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from leasehold.errors import NotInstalled, spark_not_installed

if TYPE_CHECKING:
    import pandas as pd

    from leasehold.client.query import RunningQuery


class QueryResult:
    """The rows of a SELECT: a stream of Arrow batches that can be read once, in any one way.

    Anything that takes Arrow streams takes it as it is (`pyarrow.table(result)`, `duckdb.sql("FROM result")`). It ends
    its query when it is closed or collected as garbage. A context manager.
    """

    def __init__(self, run: "RunningQuery") -> None:
        self.schema = run.schema
        self._run = run
        self._ended = False
        self._stop = weakref.finalize(self, run.stop)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches that were not read yet. Raises the error that ends the query."""
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
        """All rows that were not read yet."""
        return pa.Table.from_batches(self, self.schema)

    def to_pandas(self) -> "pd.DataFrame":
        """All rows as a pandas DataFrame. Raises `NotInstalled` where pandas is not installed."""
        try:
            import pandas  # noqa: PLC0415, F401 - only who uses it needs it
        except ModuleNotFoundError as error:
            raise spark_not_installed("pandas") from error
        return self.read_all().to_pandas()

    def to_polars(self) -> Any:
        """All rows as a polars DataFrame. Raises `NotInstalled` where polars is not installed."""
        try:
            import polars  # noqa: PLC0415 # pyright: ignore[reportMissingImports] - only who uses it needs it
        except ImportError as error:
            raise NotInstalled("polars is not installed here", hint="pip install polars") from error
        return polars.from_arrow(self.read_all())

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, self).__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Ends the query; rows that were not read are gone. Idempotent."""
        self._ended = True
        self._stop()

    def __enter__(self) -> "QueryResult":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
