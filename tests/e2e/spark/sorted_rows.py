"""Rows of tables in an order that does not depend on Spark."""

from typing import Any

from pyspark.sql import SparkSession

from leasehold.spark import table


def rows_of(spark: SparkSession, name: str) -> list[tuple[Any, ...]]:
    return expected(*(tuple(row) for row in table(spark, name).collect()))


def expected(*rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=str)
