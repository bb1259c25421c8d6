"""Overwriting: new rows take the place of all rows of a table, or of those that fulfil conditions, at one revision.

Rows of the same files that do not fulfil the conditions are kept: they are written anew in the same write transaction.
What else may have changed meanwhile is decided by two plans and by the commit (`core/data/replacement.py`).
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from leasehold.client.columns import field_named
from leasehold.client.compaction import CHANGED
from leasehold.client.not_written import aborted_on_error, not_written, writing_nothing
from leasehold.core.data.replacement import (
    Isolation,
    Overwrite,
    begun_by,
    check_unaltered,
    conflict,
    replaced_by,
    still_there,
)
from leasehold.core.words.messages import (
    FieldFilter,
    Filter,
    Follow,
    Replaced,
    ScanPlan,
    StagedSegment,
    StreamBatch,
    TableFacts,
)
from leasehold.core.words.records import Field
from leasehold.core.words.statements import Literal as SqlLiteral
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, Definite, LeaseholdError, NotFound, Refused, Unreachable
from leasehold.ids import Revision, TransactionId
from leasehold.limits.clients import REPLACE_ATTEMPTS, RETRY_PAUSE_NS
from leasehold.limits.segments import SEGMENTS_PER_COMMIT_MAX
from leasehold.limits.statements import REPLACED_VALUES_MAX
from leasehold.limits.upkeep import REWRITE_WAIT_NS
from leasehold.storage.comparisons import all_fulfilled
from leasehold.storage.conformance import conform
from leasehold.wire.clock import sleep_ns

if TYPE_CHECKING:
    from leasehold.client.cluster import Cluster

ISOLATIONS: Final[tuple[Isolation, ...]] = get_args(Isolation)
_TEXTS: Final = frozenset({"STRING", "DATE", "TIMESTAMP"})
"""Types whose values are written as texts."""
_INEXACT: Final = frozenset({"FLOAT", "DOUBLE", "BINARY"})


class Overwritten(msgspec.Struct, frozen=True, kw_only=True):
    """An overwrite that is committed."""

    rows: int
    """How many new rows there are."""
    rows_kept: int
    """How many rows that it does not replace were written anew, since they were in the same files."""
    segments_replaced: int
    segments_short: int
    """How many of its segments are on fewer nodes than the table wants."""
    revision: Revision
    """The first revision that shows the new rows, and the first without the old ones."""


class _Prepared(NamedTuple):
    """All that an overwrite needs for its commit besides the new rows."""

    replaces: tuple[Replaced, ...] = ()
    deletes: int = 0
    covers: tuple[FieldFilter, ...] | None = None
    kept: tuple[StagedSegment, ...] = ()


def overwrite(
    cluster: "Cluster",
    facts: TableFacts,
    batches: Iterable[pa.RecordBatch],
    where: tuple[Filter, ...],
    isolation: Isolation,
    by: str | None = None,
) -> Overwritten:
    """As `client.table.Table.overwrite`."""
    with writing_nothing():
        begun = begin_overwrite(cluster, facts.name, where, isolation, by)
    return replace_rows(cluster, facts, batches, begun)


def replace_rows(
    cluster: "Cluster", facts: TableFacts, batches: Iterable[pa.RecordBatch], begun: Overwrite
) -> Overwritten:
    """Puts rows in the place of those that were pinned. Raises as `client.table.Table.overwrite`."""
    values: set[str] = set()
    with writing_nothing():
        transaction = cluster.new_transaction()
        opened = cluster.open_transaction(facts, transaction)
        with aborted_on_error(cluster, facts, transaction):
            rows = new_rows(batches, facts, begun, values)
            staged = cluster.stage(facts, transaction, rows, opened.revision)
    try:
        return commit_overwrite(cluster, facts, transaction, staged, begun, revision=opened.revision, values=values)
    except Unreachable as error:
        raise not_written(error) from error
    except Definite:
        with suppress(LeaseholdError):
            cluster.try_abort(facts.cluster_id, transaction)
        raise


def begin_overwrite(
    cluster: "Cluster",
    name: str,
    where: tuple[Filter, ...],
    isolation: Isolation = "serializable",
    by: str | None = None,
) -> Overwrite:
    """Pins what is replaced. Raises `NotFound`, `BadSettings`, and `Refused`: UNDER_WAY if statements hide something of
    the table for REWRITE_WAIT_NS, BAD_SCHEMA for a column `by` that has no exact values, TOO_MANY_SEGMENTS."""
    if isolation not in ISOLATIONS:
        raise BadSettings(f"isolation is {isolation!r}", hint=f"write one of {', '.join(ISOLATIONS)}")
    plan = _planned(cluster, name, where)
    field = None if by is None else field_named(by, plan.fields, name)
    if field is not None and field.type in _INEXACT:
        raise Refused(
            f"rows can't be replaced by {field.name}, which is {field.type}",
            code=ErrorCode.BAD_SCHEMA,
            hint="name a column of whole numbers, texts, days or times",
        )
    if field is None:
        _check_few(replaced_by(plan), name)
    return begun_by(plan, where, isolation, field)


def begin_change(
    cluster: "Cluster", facts: TableFacts, where: tuple[Filter, ...], *, moves: bool = True, keeps: bool = True
) -> Overwrite:
    """Pins rows that are read and changed after this, and put in their own place; `moves` and `keeps` are as in
    `Overwrite`. Raises as `begin_overwrite` and `check_unaltered`."""
    with unaltered(cluster, facts, facts.name):
        begun = begin_overwrite(cluster, facts.name, where)
    check_unaltered(begun, facts)
    return msgspec.structs.replace(begun, moves=moves, keeps=keeps)


def _prepare(
    cluster: "Cluster",
    facts: TableFacts,
    transaction: TransactionId,
    begun: Overwrite,
    revision: Revision,
    values: Iterable[str],
) -> _Prepared:
    """Stages the rows that the write keeps."""
    if begun.by is not None:
        listed = sorted(set(values))
        if not listed:
            return _Prepared()  # no new rows, so nothing is replaced
        kind = "boolean" if begun.by.type == "BOOLEAN" else "string" if begun.by.type in _TEXTS else "number"
        chosen = tuple(SqlLiteral(kind, one) for one in listed)
        where = (*begun.where, Filter(column=begun.by.name, operator="IN", values=chosen))
    else:
        where = begun.where
    with conflicts(facts), unaltered(cluster, begun, facts.name):
        plan = still_there(begun, _planned(cluster, facts.name, where, begun.since), facts)
        replaces = replaced_by(plan)
        _check_few(replaces, facts.name)
        rows = _kept(cluster, plan) if begun.keeps else ()
        kept = cluster.stage(plan.facts, transaction, rows, max(revision, plan.facts.revision))
    return _Prepared(
        replaces=replaces,
        deletes=plan.deletes,
        covers=plan.where if begun.isolation == "serializable" else None,
        kept=kept,
    )


def commit_overwrite(
    cluster: "Cluster",
    facts: TableFacts,
    transaction: TransactionId,
    staged: Sequence[StagedSegment],
    begun: Overwrite,
    *,
    revision: Revision,
    values: Iterable[str] = (),
    batch: StreamBatch | None = None,
) -> Overwritten:
    """Commits the `staged` rows of a transaction, opened at `revision`, in place of those that it replaces. `values`
    are those of `begun.by` in them, as `new_rows` gives them. Where a compaction has put the same rows into other
    files, it tries again. Raises `Refused` with code CONFLICT if the replaced rows have changed since it began, and as
    a scan and an append do.
    """
    tries = 1
    while True:
        prepared = _prepare(cluster, facts, transaction, begun, revision, values)
        try:
            return _commit(cluster, facts, transaction, staged, prepared, batch)
        except Refused as error:
            if error.code != ErrorCode.CONFLICT or tries == REPLACE_ATTEMPTS:
                raise
            tries += 1


def _commit(
    cluster: "Cluster",
    facts: TableFacts,
    transaction: TransactionId,
    staged: Sequence[StagedSegment],
    prepared: _Prepared,
    batch: StreamBatch | None,
) -> Overwritten:
    with conflicts(facts):
        committed = cluster.commit(
            facts.cluster_id,
            transaction,
            (*staged, *prepared.kept),
            replaces=prepared.replaces,
            deletes=prepared.deletes,
            covers=prepared.covers,
            kept=len(prepared.kept),
            batch=batch,
        )
    rows_kept = sum(one.rows for one in prepared.kept)
    return Overwritten(
        rows=committed.rows - rows_kept,
        rows_kept=rows_kept,
        segments_replaced=len(prepared.replaces),
        segments_short=committed.segments_short,
        revision=committed.revision,
    )


def replace_all(
    cluster: "Cluster",
    facts: TableFacts,
    transaction: TransactionId,
    staged: Sequence[StagedSegment],
    batch: StreamBatch,
) -> Overwritten:
    """Commits the `staged` rows, which do not depend on rows of the table, in place of all that there are. Rows that
    others add or rewrite meanwhile are replaced as well; raises `Refused` with code CONFLICT if they always do."""
    tries = 1
    while True:
        begun = begin_overwrite(cluster, facts.name, ())
        try:
            return commit_overwrite(cluster, facts, transaction, staged, begun, revision=facts.revision, batch=batch)
        except Refused as error:
            if error.code != ErrorCode.CONFLICT or tries == REPLACE_ATTEMPTS:
                raise
            tries += 1


@contextmanager
def conflicts(facts: TableFacts) -> Generator[None]:
    """Says of what a commit or a scan refuses, because the table has changed, that it is a conflict."""
    try:
        yield
    except Refused as error:
        if error.code not in CHANGED:
            raise
        raise conflict(facts.name, error.text) from error


@contextmanager
def unaltered(cluster: "Cluster", begun: Overwrite | TableFacts, name: str) -> Generator[None]:
    """Says of a column that is not found that the table was altered, if it was since the write began. Raises as
    `check_unaltered`."""
    try:
        yield
    except NotFound as error:
        if error.code != ErrorCode.TABLE_DROPPED:
            check_unaltered(begun, cluster.facts(name))
        raise


def new_rows(
    batches: Iterable[pa.RecordBatch], facts: TableFacts, begun: Overwrite, values: set[str]
) -> Iterator[pa.RecordBatch]:
    """The new rows as the table has them; `values` gets those of `begun.by`, as text.

    Raises `Refused`: OUTSIDE_REPLACED for a row that does not fulfil the conditions, unless rows move, since the
    next run would not replace it, BAD_VALUE for NULL in `begun.by`, TOO_MANY_CONDITIONS for too many values of it.
    """
    for batch in batches:
        rows = conform(batch, facts.fields)
        filters = () if begun.moves else begun.filters
        outside = rows.num_rows - (all_fulfilled(rows, facts.fields, filters).true_count or 0)
        if outside:
            raise Refused(
                f"{outside} of {rows.num_rows} rows do not fulfil the conditions of the rows that they replace",
                code=ErrorCode.OUTSIDE_REPLACED,
                hint="filter the new rows by the same conditions, or replace more",
            )
        if begun.by is not None:
            values |= _values_of(rows, facts, begun.by)
            check_few_values(values, begun.by)
        yield rows


def _values_of(rows: pa.RecordBatch, facts: TableFacts, by: Field) -> frozenset[str]:
    column = rows.column(next(place for place, one in enumerate(facts.fields) if one.id == by.id))
    if column.null_count:
        raise Refused(
            f"column {by.name} of the new rows has NULLs, and rows are replaced by it",
            code=ErrorCode.BAD_VALUE,
            hint="fill them, or leave these rows out",
        )
    found = pc.call_function("unique", [column])
    if pa.types.is_timestamp(found.type):
        # With a time zone, Arrow writes a wrong year for one after 32767: other rows would be replaced.
        found = found.cast(pa.timestamp(found.type.unit))
    return frozenset(found.cast(pa.string()).to_pylist())


def check_few_values(found: Collection[str], by: Field) -> None:
    """Raises `Refused` with code TOO_MANY_CONDITIONS."""
    if len(found) > REPLACED_VALUES_MAX:
        raise Refused(
            f"the new rows have more than {REPLACED_VALUES_MAX} values of {by.name}",
            code=ErrorCode.TOO_MANY_CONDITIONS,
            hint="replace rows by a coarser column, or give conditions",
        )


def _check_few(replaced: Collection[Replaced], name: str) -> None:
    if len(replaced) > SEGMENTS_PER_COMMIT_MAX:
        raise Refused(
            f"the rows to replace are in {len(replaced)} segments, and one commit takes {SEGMENTS_PER_COMMIT_MAX}",
            code=ErrorCode.TOO_MANY_SEGMENTS,
            hint=f"`leasehold compact {name}` joins small segments; or replace fewer rows at a time",
        )


def _planned(cluster: "Cluster", name: str, where: tuple[Filter, ...], since: Follow | None = None) -> ScanPlan:
    """Waits while a statement hides something of the table that may come back."""
    waited_ns = 0
    while True:
        try:
            return cluster.plan(name, where=where, replaces=True, follows=since)
        except Refused as error:
            if error.code != ErrorCode.UNDER_WAY or waited_ns >= REWRITE_WAIT_NS:
                raise
            waited_ns += RETRY_PAUSE_NS
            sleep_ns(RETRY_PAUSE_NS)


def _kept(cluster: "Cluster", plan: ScanPlan) -> Iterator[pa.RecordBatch]:
    """The rows of a plan that do not fulfil its conditions."""
    if not plan.segments:
        return
    for batch in cluster.read(msgspec.structs.replace(plan, where=())):
        yield batch.filter(pc.call_function("invert", [all_fulfilled(batch, plan.fields, plan.where)]))
