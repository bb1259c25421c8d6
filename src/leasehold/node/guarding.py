"""What requests of a data node wait for on their threads: a revision, and a place."""

import contextlib
from collections.abc import Callable, Generator
from threading import BoundedSemaphore

from leasehold.core.catalog import BucketKey
from leasehold.core.data.requests import behind, busy, guarded
from leasehold.core.generations import generation_changed, generation_of
from leasehold.ids import Generation, Revision
from leasehold.limits.flight import FLIGHT_WAITS_MAX
from leasehold.limits.segments import SCHEMA_WAIT_NS
from leasehold.node.published import Published


def wait_until_shown(
    published: Published,
    now_ns: Callable[[], int],
    revision: Revision,
    bucket: BucketKey | None = None,
    *,
    generation: Generation | None = None,
    wait_ns: int = SCHEMA_WAIT_NS,
) -> None:
    """Waits at most `wait_ns` until the view shows `revision`; raises `Refused` with code BEHIND.

    Raises `Refused` with code BUSY if FLIGHT_WAITS_MAX others wait, and `Fenced` as soon as the lease has ended: a node
    that is cut off would let its client wait for nothing. So would one whose view is of a newer `generation` than the
    revision: `Refused` with code GENERATION_CHANGED. That the revision is shown permits nothing yet: the caller passes
    the guard next.
    """
    if published.view.revision >= revision:
        return
    with place(published.waiting, "calls waiting for a revision", FLIGHT_WAITS_MAX):
        _wait_until_shown(published, now_ns, revision, bucket, generation, wait_ns)


def _wait_until_shown(
    published: Published,
    now_ns: Callable[[], int],
    revision: Revision,
    bucket: BucketKey | None,
    generation: Generation | None,
    wait_ns: int,
) -> None:
    give_up_ns = now_ns() + wait_ns
    while True:
        passed = guarded(published, now_ns, bucket)
        if passed.view.revision >= revision:
            return
        if generation is not None and generation_of(passed.view) > generation:
            raise generation_changed(generation, generation_of(passed.view))
        if passed.released_ns >= give_up_ns:
            raise behind(published, revision, wait_ns)
        published.wait_for(revision, min(give_up_ns, passed.lease.deadline_ns) - passed.released_ns)


@contextlib.contextmanager
def place(places: BoundedSemaphore, what: str, most: int) -> Generator[None]:
    """One of the `most` places for `what`. Raises `Refused` with code BUSY if none is free."""
    if not places.acquire(blocking=False):
        raise busy(what, most)
    try:
        yield
    finally:
        places.release()
