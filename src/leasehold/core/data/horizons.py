"""Expiry horizons of tables with a TTL: how they follow the wall clock."""

from collections.abc import Iterable

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import HorizonRecord
from leasehold.ids import ObjectId


def horizons(tables: Iterable[ObjectId], catalog: Catalog, wall_us: int) -> tuple[Change, ...]:
    """Moves the horizons of these tables to now, where they lie behind by over a thousandth of the TTL, or a second."""
    changes: list[Change] = []
    for table in tables:
        ttl_ns = catalog.expiring.get(table)
        if ttl_ns is None:
            continue
        horizon_us = wall_us - ttl_ns // 1000
        known = catalog.horizons.get(table)
        step_us = max(1_000_000, ttl_ns // 1_000_000)
        if known is None or horizon_us - known.horizon_us >= step_us:
            moved = known or HorizonRecord(table=table, horizon_us=horizon_us)
            changes.append(put(keys.horizon(table), msgspec.structs.replace(moved, horizon_us=horizon_us)))
    return tuple(changes)
