"""Found by Spark: makes format("leasehold") known without registration."""

from leasehold.spark.source import LeaseholdSource as DefaultSource

__all__ = ["DefaultSource"]
