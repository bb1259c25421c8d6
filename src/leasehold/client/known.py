"""What all clients in one process know of a cluster, where a worker of Spark makes a client for each task."""

from functools import lru_cache

from leasehold.client.threads import THREADS
from leasehold.core.data.known import Known
from leasehold.ids import ClusterId
from leasehold.limits.clients import CLUSTERS_KNOWN_MAX


@lru_cache(CLUSTERS_KNOWN_MAX)
def of_process(_cluster: ClusterId) -> Known:
    """What all tasks of this process know of a cluster: a worker of Spark connects anew for each task."""
    return Known(THREADS)
