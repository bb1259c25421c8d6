"""Runs the steps of `core/data` on the threads of a client, with calls that block as their ports."""

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Final, TypeAlias, TypeVar

from leasehold.core.data.known import Known
from leasehold.core.data.places import Places
from leasehold.core.data.runtime import Runtime
from leasehold.core.words.messages import TableFacts
from leasehold.ids import ClusterId
from leasehold.limits.clients import CLUSTERS_KNOWN_MAX
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.steps import ThreadRuntime

T = TypeVar("T")

THREADS: Final = ThreadRuntime(BoottimeClock().now_ns)

Refresh: TypeAlias = Callable[[], TableFacts]
"""Looks a table up again, on any thread; blocks."""


@lru_cache(CLUSTERS_KNOWN_MAX)
def of_process(_cluster: ClusterId) -> Known:
    """What all tasks of this process know of a cluster: a Spark worker has a client for each read and write."""
    return Known(THREADS)


def places_of(
    facts: TableFacts, refresh: Refresh | None = None, *, known: Known | None = None, runtime: Runtime = THREADS
) -> Places:
    """The replicas of a table. `refresh` looks them up again; None keeps them as they are."""
    return Places(facts, None if refresh is None else blocking(refresh), runtime=runtime, known=known)


def blocking(call: Callable[[], T]) -> Callable[[], Awaitable[T]]:
    """A blocking call as a port of steps."""

    async def steps() -> T:
        return call()

    return steps
