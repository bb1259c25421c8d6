"""Leasehold: replicated tables on the local disks of a few machines, for Spark.

import leasehold
with leasehold.connect("leasehold-data") as cluster:
    cluster.sql("CREATE DATABASE nyc")
    print(cluster.table("nyc.weather").scan(columns=["temp"]).read_all())
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leasehold.client.cluster import Cluster, connect
    from leasehold.client.table import Table

__all__ = ["Cluster", "Table", "connect"]


def __getattr__(name: str) -> Any:
    """Loads the client when it is first used: `import leasehold.core` alone must stay light."""
    if name in __all__:
        from leasehold.client import cluster  # noqa: PLC0415 - lazily, as said above

        return getattr(cluster, name)
    raise AttributeError(f"module 'leasehold' has no attribute {name!r}")
