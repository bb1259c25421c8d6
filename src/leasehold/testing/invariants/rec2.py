"""INV-REC-2: case c ends in the state that replay would have given.

And so does every other way to a view: whatever a node publishes, with what its vault holds of segments, is what folding
the store's history up to that revision gives. The history hash is compared at each publication; all of it at the first
one of each process (which comes from the vault, or from a leap), at every so many later ones, and at the end of a run
(`compare_all`).
"""

from typing import Final

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words.operations import Change
from leasehold.testing.filled import filled
from leasehold.testing.news import DiskImage, ProcessSeen, Viewed
from leasehold.testing.oracle import Oracle

HEARS: Final = frozenset({Viewed})

ID: Final = "INV-REC-2"
WHOLE_EVERY: Final = 64


class Publications:
    """How many views were published, and the last process of each host that published one."""

    def __init__(self) -> None:
        self.count = 0
        self.first_of: dict[str, ProcessSeen] = {}


def check(oracle: Oracle) -> str | None:
    published = oracle.recall(Publications)
    for news in oracle.of(Viewed):
        published.count += 1
        name = news.process.name
        first = published.first_of.get(name) is not news.process
        published.first_of[name] = news.process
        wrong = _compare(oracle, name, news.view, whole=first or published.count % WHOLE_EVERY == 0)
        if wrong is not None:
            return f"{name} {wrong}"
    return None


def compare_all(oracle: Oracle) -> None:
    """Raises `InvariantViolated` if a view that is published now is not what replay gives."""
    if any(one.id == ID for one in oracle.invariants):
        for process in oracle.processes.values():
            if isinstance(process.view, Catalog):
                wrong = _compare(oracle, process.name, process.view, whole=True)
                if wrong is not None:
                    raise oracle.violation(ID, f"{process.name} {wrong}")


def _compare(oracle: Oracle, name: str, view: Catalog, *, whole: bool) -> str | None:
    lineage = oracle.history.lineage_at(view.revision)
    if lineage is None:
        return f"shows revision {view.revision}, which has never been"
    if view.lineage != lineage:
        return f"shows another history than the store's at revision {view.revision}"
    stored = oracle.vaults[name].image if name in oracle.vaults else DiskImage()
    if whole and stored.applied <= view.revision:  # a vault that has leapt is ahead of the view for a moment
        fold = oracle.history.fold_at(view.revision)
        # In key order, as a vault and a meta storage give them.
        items = [Change(key, value) for key, value in sorted(fold.items())]
        if filled(view, stored.items) != Catalog.restored(view.revision, lineage, items):
            return f"shows at revision {view.revision} what replay does not give"
    return None
