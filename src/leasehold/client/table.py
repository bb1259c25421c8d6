"""A table: its rows are read, added and replaced, and its changes are read."""

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, cast

import pyarrow as pa

from leasehold.client.append import Appended, append_rows
from leasehold.client.not_written import writing_nothing
from leasehold.client.overwrite import Overwritten, overwrite
from leasehold.client.past import AsOf
from leasehold.client.result import QueryResult
from leasehold.client.scan import read_again
from leasehold.core.data.replacement import Isolation
from leasehold.core.words.messages import Filter, TableFacts
from leasehold.core.words.records import Field
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotFound
from leasehold.ids import TransactionId
from leasehold.limits.clients import APPEND_ATTEMPTS
from leasehold.storage.schema import arrow_schema

if TYPE_CHECKING:
    from leasehold.client.cluster import Cluster
    from leasehold.client.merge import Matched, Merged, NotMatched


class ArrowStream(Protocol):
    """A source of an Arrow stream: a table or reader of pyarrow, a frame of polars, a relation of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class Table:
    """A table as it was when it was looked up. Each scan and append looks it up again.

    They raise `NotFound` with code TABLE_DROPPED once this table is dropped, even if another table has its name.
    """

    def __init__(self, cluster: "Cluster", facts: TableFacts) -> None:
        self._cluster = cluster
        self.name = facts.name
        self.fields: tuple[Field, ...] = facts.fields
        self._id = facts.table
        self.schema: pa.Schema = arrow_schema(facts.fields)

    def scan(
        self,
        columns: Iterable[str] | None = None,
        *,
        where: str | None = None,
        as_of: AsOf | None = None,
        timeout: float | None = None,
    ) -> pa.RecordBatchReader:
        """All rows visible now, as a stream of Arrow batches; `columns` by name, default all.

        `where` chooses rows by conditions on columns as they are written in SQL, such as
        `day >= DATE '2013-06-15' AND origin IN ('JFK', 'LGA')`: files and parts of files that have no such row are not
        read, and only these rows travel. `as_of` is an earlier revision: its columns and rows are read, without what
        was deleted or has expired since. A `datetime` with a time zone stands for the newest revision that was
        committed by then. `timeout` is as in `connect`, for this scan.

        Raises `Refused` with code TOO_OLD for a revision that can't be read any more, FUTURE_REVISION for one that does
        not exist yet, and for a time in the future.
        """
        cluster, chosen = self._cluster.within(timeout), None if columns is None else tuple(columns)
        filters = conditions(where)

        def read() -> pa.RecordBatchReader:
            plan = cluster.plan(self.name, chosen, where=filters, as_of=as_of)
            self._check(plan.facts)
            return cluster.read(plan)

        return read_again(read)

    def changes(
        self,
        since: AsOf,
        until: AsOf | None = None,
        *,
        columns: Iterable[str] | None = None,
        ignore_deletes: bool = False,
        timeout: float | None = None,
    ) -> pa.RecordBatchReader:
        """The rows that came and went after the revision `since`, up to `until` or now, in the order of their commits.

        `_change` says `insert` or `delete`, `_revision` of which commit, `_committed_at` when. A row that was updated
        went, and came with its new values. A `datetime` is as in `scan`. Raises `Refused`: TOO_OLD if what was there
        then is not kept any more (`change_retention` of the table), ROWS_TAKEN_AWAY for a DELETE in between, whose rows
        nobody can read, unless `ignore_deletes`.
        """
        from leasehold.client.changes import asked_for, read_changes  # noqa: PLC0415 - few need it

        cluster = self._cluster.within(timeout)
        chosen = None if columns is None else tuple(columns)
        request = asked_for(cluster, self.name, since, until, chosen, ignores_deletes=ignore_deletes)
        return read_changes(cluster, request, self._check)

    def append(
        self,
        rows: ArrowStream,
        *,
        transaction: TransactionId | None = None,
        timeout: float | None = None,
        text_sha256: bytes = b"",
    ) -> Appended:
        """Adds rows, all or none; returns how many, and on how many nodes they are. Columns are matched by name.

        `rows` is a table or stream of Arrow, or a source of one, such as a polars DataFrame or the result of
        `Cluster.query`. Rows that the write transaction with the id `transaction` has committed are not added again.
        Without such an id an error before the commit is definite: nothing was written. `timeout` is as in `connect`,
        for this append. `text_sha256` is the hash of the INSERT that has the rows, so that its id is used for no other.
        """
        cluster = self._cluster.within(timeout)
        with writing_nothing() if transaction is None else contextlib.nullcontext():
            facts = cluster.facts(self.name)
            self._check(facts)
        attempts = APPEND_ATTEMPTS if isinstance(rows, pa.Table) else 1  # all else can be read only once
        return append_rows(
            cluster, facts, lambda: _batches(rows), attempts, transaction=transaction, text_sha256=text_sha256
        )

    def overwrite(
        self,
        rows: ArrowStream,
        where: str | None = None,
        *,
        by: str | None = None,
        isolation: Isolation = "serializable",
        timeout: float | None = None,
    ) -> Overwritten:
        """Puts rows in the place of all rows of the table or, with conditions as in `scan`, of those that fulfil
        `where`. With a column `by` only those go whose value of it occurs in the new rows. All readers see the old ones
        or the new ones.

        `isolation` is as in `core.data.replacement.Overwrite`, the rest as in `append`. Raises as `append`, and
        `Refused`: CONFLICT if the replaced rows have changed meanwhile, OUTSIDE_REPLACED for a new row that does not
        fulfil `where`.
        """
        cluster = self._cluster.within(timeout)
        with writing_nothing():
            facts = cluster.facts(self.name)
            self._check(facts)
        return overwrite(cluster, facts, _batches(rows), conditions(where), isolation, by)

    def merge(
        self,
        rows: ArrowStream,
        on: Iterable[str],
        *,
        when_matched: "Matched" = "update",
        when_not_matched: "NotMatched" = "insert",
        timeout: float | None = None,
    ) -> "Merged":
        """Changes rows of the table by their keys, the columns `on`, all or none; run again, it changes nothing more.

        A row with the keys of one of `rows` gets the values of all columns that `rows` has; with "delete" it goes, with
        "ignore" it stays. One of `rows` whose keys no row has is added, unless `when_not_matched` is "ignore"; columns
        that it lacks get their default. `rows` is as in `append`, and is held in memory. `timeout` is as in `append`.
        Raises as `overwrite`, with CONFLICT if others change these rows again and again, and `Refused`: AMBIGUOUS for
        two of `rows` with the same keys, BAD_VALUE for a key that is NULL, BAD_SCHEMA for one of FLOAT or DOUBLE.
        """
        from leasehold.client.merge import merge_rows  # noqa: PLC0415 - few need it

        cluster, chosen = self._cluster.within(timeout), [on] if isinstance(on, str) else list(on)
        with writing_nothing():
            facts = cluster.facts(self.name)
            self._check(facts)
        return merge_rows(cluster, facts, _whole(rows), chosen, when_matched, when_not_matched)

    def _check(self, facts: TableFacts) -> None:
        if facts.table != self._id:
            raise NotFound(
                f"table {self.name} was dropped, and another table has its name now",
                code=ErrorCode.TABLE_DROPPED,
                hint=f'look the new one up: cluster.table("{self.name}")',
            )


def conditions(where: str | None) -> tuple[Filter, ...]:
    """What a person wrote to choose rows. Raises as `sql.where.read_where`."""
    if where is None:
        return ()
    from leasehold.sql.where import read_where  # noqa: PLC0415 - few need it, and the parser takes long to load

    return read_where(where)


def _whole(rows: ArrowStream) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else pa.RecordBatchReader.from_stream(rows).read_all()


def _batches(rows: ArrowStream) -> Iterable[pa.RecordBatch]:
    # Our own readers are used as they are: the C interface would turn their errors into text.
    if isinstance(rows, pa.RecordBatchReader | QueryResult):
        return cast("Iterable[pa.RecordBatch]", rows)
    return pa.RecordBatchReader.from_stream(rows)
