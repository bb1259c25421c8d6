"""Receipts of barriers, for who audits them."""

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words.messages import AskReceipts, KnownBarrier, Receipts
from leasehold.limits.statements import RECEIPTS_PAGE_MAX


def receipts(request: AskReceipts, catalog: Catalog) -> Receipts:
    """A page of the barriers that proceeded, in the order of their statements."""
    limit = max(1, min(request.limit, RECEIPTS_PAGE_MAX))
    later = sorted(
        (one for one in catalog.statements.values() if one.order > request.after and one.barriers),
        key=lambda one: one.order,
    )
    page = later[:limit]
    barriers = [
        KnownBarrier(order=one.order, statement=one.id, barrier=barrier) for one in page for barrier in one.barriers
    ]
    return Receipts(barriers=tuple(barriers), next_after=page[-1].order if len(later) > limit else None)
