"""How many keys the watched range has, as a snapshot would show them: counted once, then kept up by each revision."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import Shelf
from leasehold.core.words import keys
from leasehold.core.words.operations import Change

_SINGLES: Final = ("cluster", "settings", "counters", "largest_lease")
_FLAT: Final = (
    "nodes",
    "coordinators",
    "revoked_certificates",
    "certified_names",
    "databases",
    "tables",
    "views",
    "buckets",
    "queries",
    "streams",
    "transactions",
    "procedures",
    "statements",
    "dropped",
    "horizons",
    "principals",
    "logins",
    "tokens",
)

_NESTED: Final[dict[str, tuple[bytes, Callable[[bytes], Hashable]]]] = {
    "segments": (keys.SEGMENTS, keys.bucket_of),
    "replaced": (keys.REPLACED, keys.bucket_of),
    "deletes": (keys.DELETES, keys.table_of),
    "grants": (keys.GRANTS, keys.table_of),
}
"""Collections of collections: where their keys lie, and which of the inner ones a key is in."""


class LiveKeys:
    """Of one leader's catalog, from its election on."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._nested = sum(_size(getattr(catalog, name), one) for name in _NESTED for one in getattr(catalog, name))

    @property
    def count(self) -> int:
        """As of the newest revision, the lineage included."""
        catalog = self._catalog
        singles = sum(getattr(catalog, name) is not None for name in _SINGLES)
        flat = sum(len(getattr(catalog, name)) for name in _FLAT)
        return singles + int(catalog.revision > 0) + flat + self._nested

    def committed(self, changes: Iterable[Change], catalog: Catalog) -> None:
        touched: dict[str, set[Hashable]] = {name: set() for name in _NESTED}
        for change in changes:
            for name, (prefix, inner) in _NESTED.items():
                if change.key.startswith(prefix):
                    touched[name].add(inner(change.key))
        for name, inners in touched.items():
            before, after = getattr(self._catalog, name), getattr(catalog, name)
            self._nested += sum(_size(after, one) - _size(before, one) for one in inners)
        self._catalog = catalog


def _size(collection: Any, inner: Any) -> int:
    return collection.count(inner) if isinstance(collection, Shelf) else len(collection.get(inner, ()))
