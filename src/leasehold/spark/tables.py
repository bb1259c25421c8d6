"""Tables and views of a cluster as DataFrames, and as views of Spark."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from leasehold.client.changes import asked_for
from leasehold.client.cluster import Cluster
from leasehold.client.past import AsOf
from leasehold.client.table import conditions
from leasehold.core.words.literals import render
from leasehold.core.words.messages import Rows, ScanPlan, TableNeeded, ViewFacts
from leasehold.core.words.records import Field
from leasehold.core.words.statements import fold
from leasehold.error_codes import ErrorCode
from leasehold.errors import AlreadyExists, Refused
from leasehold.ids import ObjectId
from leasehold.spark.change_reader import with_labels
from leasehold.spark.local_tables import Local, read_locally
from leasehold.spark.options import (
    CHANGES_SINCE_OPTION,
    CHANGES_UNTIL_OPTION,
    CLUSTER_OPTION,
    IGNORE_DELETES_OPTION,
    SHARES_OPTION,
    TABLE_OPTION,
    THROUGH_OPTION,
    WHERE_OPTION,
    as_of_options,
    plan_options,
)
from leasehold.spark.reader import Asked, fields_of
from leasehold.spark.session_kinds import cores, select_over
from leasehold.spark.settings import connected, credentials
from leasehold.spark.source import FORMAT
from leasehold.spark.types import select_fields, spark_schema
from leasehold.wire.entropy import SystemEntropy

SHARES_PER_CORE: Final = 2
"""In how many shares a query over an attached view reads a table, for each core of Spark."""


def table(
    spark: SparkSession,
    name: str,
    columns: Iterable[str] | None = None,
    *,
    where: str | None = None,
    as_of: AsOf | None = None,
    local: Local = "auto",
    cluster: str | Path | None = None,
    user: str | None = None,
    password: str | None = None,
) -> DataFrame:
    """The table `database.table` as a DataFrame; with `columns` only those are read, in that order.

    `where` chooses rows as in `client.table.Table.scan`: what has no such row is not read, and other rows do not
    travel. The frame keeps the revision at which it was made or, over Flight, first read, or the revision or time
    `as_of`; ask for the table again to see rows that were added since. `local` says whether Spark reads files on its
    machine itself (`spark/local_tables.py`): with `False` all comes over Flight, with `True` nothing does. If the
    cluster has users, `user` and `password` log in; default $LEASEHOLD_USER and $LEASEHOLD_PASSWORD. Raises `NotFound`
    for a table or column that is not there, `BadStatement` for a `where` that can't be read, `BadSettings` for a time
    without a zone, `Refused` with code BAD_SCHEMA, BAD_VALUE, TOO_OLD, FUTURE_REVISION or NOT_LOCAL, `Unauthenticated`,
    `Unreachable`.
    """
    names = None if columns is None or isinstance(columns, str) else tuple(columns)
    if columns is not None and not names:
        raise Refused(
            f"columns is {columns!r}, not a list of names", code=ErrorCode.BAD_SCHEMA, hint='write columns=["origin"]'
        )
    with connected(spark, cluster, user, password) as connection:
        login = credentials(spark, connection.target, user, password)
        return read_table(spark, connection, name, names, where=where, as_of=as_of, local=local, options=login)


def changes(
    spark: SparkSession,
    name: str,
    since: AsOf,
    until: AsOf | None = None,
    *,
    columns: Iterable[str] | None = None,
    ignore_deletes: bool = False,
    cluster: str | Path | None = None,
    user: str | None = None,
    password: str | None = None,
) -> DataFrame:
    """The rows of the table `database.table` that came and went after the revision or time `since`, up to `until` or
    now, with `_change`, `_revision` and `_committed_at` as in `client.table.Table.changes`, in no order.

    The rest is as in `table`. Raises as `Table.changes`.
    """
    chosen = None if columns is None else tuple(columns)
    with connected(spark, cluster, user, password) as connection:
        request = asked_for(connection, name, since, until, chosen, ignores_deletes=ignore_deletes)
        plan = connection.plan_changes(request)
        end = plan.plan.facts.revision if request.until is None else request.until
        options = {
            **credentials(spark, connection.target, user, password),
            TABLE_OPTION: name,
            CLUSTER_OPTION: connection.target,
            CHANGES_SINCE_OPTION: str(request.since),
            CHANGES_UNTIL_OPTION: str(end),
            IGNORE_DELETES_OPTION: str(ignore_deletes).lower(),
        }
        return spark.read.format(FORMAT).schema(with_labels(plan.plan.fields)).options(**options).load()


def read_table(
    spark: SparkSession,
    connection: Cluster,
    name: str,
    columns: tuple[str, ...] | None = None,
    *,
    where: str | None = None,
    as_of: AsOf | None = None,
    local: Local = "auto",
    through: tuple[ObjectId, ...] = (),
    options: Mapping[str, str],
) -> DataFrame:
    """A table as `table` gives it, read through views; `options` log in. Raises as `table`."""
    asked = Asked(table=name, columns=columns, where=conditions(where), as_of=as_of, through=through)
    options = {THROUGH_OPTION: ",".join(map(str, through)), **options} if through else options

    def over_flight(plan: ScanPlan) -> DataFrame:
        return _frame(spark, connection, name, plan.fields, {**options, **plan_options(plan)})

    frame = read_locally(spark, connection, asked, local, over_flight)
    if frame is not None:
        return frame
    # What is wrong is refused here, rather than in a query.
    fields = fields_of(connection, asked)
    chosen = {WHERE_OPTION: where} if where is not None else {}
    return _frame(spark, connection, name, fields, {**options, **chosen, **as_of_options(as_of)})


def view(
    spark: SparkSession,
    name: str,
    *,
    as_of: AsOf | None = None,
    local: Local = "auto",
    cluster: str | Path | None = None,
    user: str | None = None,
    password: str | None = None,
) -> DataFrame:
    """The view `database.view` as a DataFrame: Spark runs its SELECT over the tables that it reads.

    Each table keeps its revision as the frame of `table` does, and is read in the same ways, by `as_of` and `local`;
    ask for the view again to see rows that were added since. `user` and `password` are as in `table`. Raises as
    `table`, and `NotFound` for an unknown view.
    """
    with connected(spark, cluster, user, password) as connection:
        login = credentials(spark, connection.target, user, password)
        return read_view(spark, connection, connection.view_facts(name), as_of=as_of, local=local, options=login)


def read_view(
    spark: SparkSession,
    connection: Cluster,
    facts: ViewFacts,
    *,
    as_of: AsOf | None,
    local: Local,
    options: Mapping[str, str],
) -> DataFrame:
    """A view as `view` gives it; `options` log in. Raises as `view`."""
    from leasehold.sql.binder import words  # noqa: PLC0415 - every worker imports this package
    from leasehold.sql.views import written  # noqa: PLC0415 - every worker imports this package

    called = words((one.name for one in (*facts.tables, *facts.views)), SystemEntropy().hex_128())
    through = tuple(one.view for one in facts.views)
    frames: dict[str, DataFrame] = {}
    for one in facts.tables:
        columns = _columns_of(connection, one, through, as_of)
        frames[called[one.name]] = read_table(
            spark, connection, one.name, columns, as_of=as_of, local=local, through=through, options=options
        )
    for body in facts.views:
        frame = select_over(spark, written(body.body, called, "spark"), frames)
        frames[called[body.name]] = frame.toDF(*(column.name for column in body.columns))
    return frames[called[facts.views[-1].name]]


def _columns_of(
    connection: Cluster, needed: TableNeeded, through: tuple[ObjectId, ...], as_of: AsOf | None
) -> tuple[str, ...]:
    """The columns that views read of a table, as it spells them. Raises `Refused` (BAD_SCHEMA) if they had other names:
    the SELECT of a view names the columns of today."""
    fields = select_fields(needed.columns, connection.facts(needed.name).fields, table=needed.name)
    columns = tuple(one.name for one in fields)
    if as_of is not None:
        asked = Asked(table=needed.name, columns=columns, as_of=as_of, through=through)
        for now, then in zip(fields, fields_of(connection, asked), strict=True):
            if now.id != then.id:
                raise Refused(
                    f"column {now.name} of {needed.name} had another name then",
                    code=ErrorCode.BAD_SCHEMA,
                    hint="read the tables of the view, by the names of that revision",
                )
    return columns


def attach(
    spark: SparkSession,
    cluster: str | Path | None = None,
    *,
    as_of: AsOf | None = None,
    user: str | None = None,
    password: str | None = None,
) -> list[str]:
    """Makes a temporary view `database_table` of every table, for SQL, and returns the names of the views.

    Each query over such a view reads the present, so also what the session has just written; with `as_of` each reads
    that revision or time. A view keeps its columns: attach again to see columns that were added. `INSERT INTO` works on
    views of the present. `user` and `password` are as in `table`. Raises `AlreadyExists`, and makes no view, if two
    tables would share one (`a.b_c` and `a_b.c`).
    """
    with connected(spark, cluster, user, password) as connection:
        listed = connection.sql("SHOW TABLES")
        assert isinstance(listed, Rows), "SHOW answers rows"
        views: dict[str, str] = {}
        for database, name, *_ in listed.rows:
            qualified, view = f"{database}.{name}", f"{database}_{name}"
            other = views.setdefault(fold(view), qualified)
            if other != qualified:
                raise AlreadyExists(
                    f"{other} and {qualified} would both be the view {view}",
                    hint=f'take one of them with leasehold.spark.table(spark, "{qualified}")',
                )
        names = [qualified.replace(".", "_") for qualified in views.values()]
        shared = {CLUSTER_OPTION: connection.target, **credentials(spark, connection.target, user, password)}
        present = {SHARES_OPTION: str(SHARES_PER_CORE * cores(spark))}
        shared |= as_of_options(as_of) if as_of is not None else present
        for view, qualified in zip(names, views.values(), strict=True):
            options = ", ".join(
                f"{key} {render(one, 'STRING')}" for key, one in {TABLE_OPTION: qualified, **shared}.items()
            )
            spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW `{view}` USING {FORMAT} OPTIONS ({options})")
        return names


def _frame(
    spark: SparkSession, connection: Cluster, name: str, fields: Iterable[Field], options: Mapping[str, str]
) -> DataFrame:
    reader = spark.read.format(FORMAT).schema(spark_schema(fields)).options(**options)
    return reader.options(**{TABLE_OPTION: name, CLUSTER_OPTION: connection.target}).load()
