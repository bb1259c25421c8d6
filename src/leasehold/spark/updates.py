"""Changes of rows: rows of a table are read, changed, and put in their own place in one commit.

The commit is that of a write that replaces rows (`spark/writes.py`, `core/data/replacement.py`). What it replaces is
pinned before the rows are read, so that a change in between is a conflict. Then all is planned again.
"""

from collections.abc import Callable, Mapping

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leasehold.client.cluster import Cluster
from leasehold.client.columns import field_named
from leasehold.client.overwrite import begin_change
from leasehold.client.table import conditions
from leasehold.core.words.messages import TableFacts
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.clients import REPLACE_ATTEMPTS
from leasehold.spark.options import BEGUN_OPTION
from leasehold.spark.tables import read_table
from leasehold.spark.writes import with_types, write_frame
from leasehold.sql.changes import UpdateRows


def change_rows(
    spark: SparkSession,
    connection: Cluster,
    facts: TableFacts,
    where: str | None,
    login: Mapping[str, str],
    changed: Callable[[DataFrame], DataFrame],
    *,
    moves: bool = False,
) -> None:
    """Puts `changed` of the rows that fulfil `where` in their place; if rows move, they need not fulfil it any more.
    Raises as `write`, with CONFLICT if others change these rows again and again, or alter the table."""
    for attempt in range(1, REPLACE_ATTEMPTS + 1):
        begun = begin_change(connection, facts, conditions(where), moves=moves)
        target = read_table(spark, connection, facts.name, where=where, options=login)
        options = {**login, BEGUN_OPTION: msgspec.json.encode(begun).decode()}
        try:
            write_frame(connection, with_types(changed(target), facts.fields), facts.name, "overwrite", options)
        except (PySparkException, Refused) as error:
            if not _is_conflict(error) or attempt == REPLACE_ATTEMPTS:
                raise
        else:
            return


def _is_conflict(error: PySparkException | Refused) -> bool:
    """Of an error of tasks, Spark has only the text."""
    return error.code == ErrorCode.CONFLICT if isinstance(error, Refused) else f"[{ErrorCode.CONFLICT}]" in str(error)


def update(spark: SparkSession, connection: Cluster, change: UpdateRows, login: Mapping[str, str]) -> None:
    """Runs an UPDATE. Raises `NotFound`, and as `change_rows`."""
    facts = connection.facts(str(change.table))
    values = {field_named(one, facts.fields, facts.name).name: F.expr(how) for one, how in change.changes.items()}

    def changed(target: DataFrame) -> DataFrame:
        columns = [values.get(one.name, F.col(f"`{one.name}`")).alias(one.name) for one in facts.fields]
        return target.alias(change.alias).select(*columns)

    change_rows(spark, connection, facts, change.where, login, changed, moves=True)
