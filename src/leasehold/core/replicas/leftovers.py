"""Records that drops leave behind: segments of tables, in the manifest or replaced, and rights of users and roles.

Nothing reads them, since numbers of objects, users and roles are never given out twice. They are deleted in slices
behind the statement (`coordinator/upkeep/housekeeping.py`), so that neither the statement nor any lease waits for that.
"""

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words import keys


def count(catalog: Catalog) -> int:
    buckets = ((table, bucket) for table, left in catalog.leftovers.items() for bucket in left)
    segments = sum(catalog.segments.count(one) + catalog.replaced.count(one) for one in buckets)
    return segments + sum(len(catalog.rights_of[one]) for one in catalog.ownerless)


def leftovers(catalog: Catalog) -> list[bytes]:
    """Their keys, in order."""
    found: list[bytes] = []
    for table, left in catalog.leftovers.items():
        for bucket in left:
            found.extend(keys.segment(table, bucket, one) for one in catalog.segments.names((table, bucket)))
            found.extend(keys.replaced(table, bucket, one) for one in catalog.replaced.names((table, bucket)))
    for principal in catalog.ownerless:
        found.extend(keys.grant(target, principal) for target in catalog.rights_of[principal])
    return sorted(found)
