"""What the lease settings promise, and what a leader keeps of longer leases that are still out."""

from leasehold.coordinator.writer import Writer
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.ddl.settings import largest_lease_lowered
from leasehold.core.lease.drift import lasts_ns
from leasehold.core.lease.grantor import Grantor
from leasehold.core.words.operations import Change
from leasehold.limits.lease import BOUND_SLACK_NS
from leasehold.limits.units import MILLISECOND_NS
from leasehold.wire.ports import Clock

_TENTH_NS = 100 * MILLISECOND_NS


def published_bound_ns(grantor: Grantor, now_ns: int) -> int:
    """What is promised under one leader for a statement that is decided now, in whole tenths of a second, rounded up.

    It counts the leases that are out: a shorter duration shortens it once the last longer lease has ended.
    """
    longest_ns = lasts_ns(grantor.longest_wait_ns(now_ns), grantor.settings.drift_ppm) + BOUND_SLACK_NS
    return -(-longest_ns // _TENTH_NS) * _TENTH_NS


async def lower_largest_lease(writer: Writer, grantor: Grantor, clock: Clock) -> None:
    """Once every grant of an older, longer duration has ended, stops counting it for the leaders to come (L10)."""

    def decide(catalog: Catalog) -> tuple[Change, ...]:
        # Settings that the grantor has not heard of yet: the grants that are still given are of the older ones.
        if catalog.settings != grantor.settings or clock.now_ns() < grantor.older_until_ns:
            return ()
        return largest_lease_lowered(catalog)

    if largest_lease_lowered(writer.catalog):
        await writer.submit(decide)
