"""The catalog that a meta storage in memory holds, read without its leader."""

from typing import Final

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import Holding
from leasehold.core.words import keys
from leasehold.core.words.lineage import GENESIS
from leasehold.ids import LineageHash, Revision
from leasehold.testing.metastorage import MemoryStore

KEYS_MAX: Final = 1_000_000


def stored_catalog(store: MemoryStore) -> Catalog:
    """The catalog of the newest revision."""
    page = store.page(keys.WATCH_START, keys.WATCH_END, None, KEYS_MAX)
    assert page.next_start is None
    lineage = store.get(keys.LINEAGE, None)
    held = Holding()
    catalog = Catalog().changed(held.taking(page.items)).holding(held.segments, held.replaced)
    return msgspec.structs.replace(
        catalog,
        revision=Revision(0) if lineage is None else lineage.modified,
        lineage=GENESIS if lineage is None else LineageHash(lineage.value),
    )
