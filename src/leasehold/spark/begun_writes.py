"""Writes as they begin: the table, its columns and what is replaced are pinned before a row is made."""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql.types import StructType

from leasehold.client.cluster import Cluster
from leasehold.core.data.replacement import Overwrite, check_unaltered
from leasehold.core.words.messages import TableFacts
from leasehold.spark.evolution import fitting
from leasehold.spark.options import OverwriteOptions, overwriting


class BegunWrite(NamedTuple):
    """A write whose rows are not made yet."""

    facts: TableFacts
    """The table, with the columns that the rows go to."""
    replaced: Overwrite | None
    """None if rows are added."""


def begin_write(
    cluster: Cluster, table: str, rows: StructType, options: Mapping[str, str], *, overwrites: bool
) -> BegunWrite:
    """Begins a write of rows of this schema, as its options say. Raises as `overwriting`, before anything is altered,
    and as `fitting`, `check_unaltered` and `begin_overwrite`."""
    replaced = overwriting(options, overwrites=overwrites)
    facts = fitting(cluster, table, rows, options)
    if isinstance(replaced, OverwriteOptions):
        replaced = replaced.begin(cluster, facts.name)
    if replaced is not None:
        check_unaltered(replaced, facts)
    return BegunWrite(facts, replaced)
