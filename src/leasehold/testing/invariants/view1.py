"""INV-VIEW-1: every view shows what the statements make of the catalog, applied in the order of their revisions.

The statements' effects are those of a model that shares no plan with the code under test (`testing/catalog.py`); it is
held against each view that any node publishes, at that view's own revision. A statement that the model could not have
accepted where the store has it is a violation too.
"""

from typing import Final

from leasehold.core.catalog.catalog import Catalog
from leasehold.testing.catalog import Model
from leasehold.testing.catalog_rows import CatalogRows, shown_by
from leasehold.testing.history import Committed
from leasehold.testing.news import Viewed
from leasehold.testing.oracle import Oracle, first_wrong

HEARS: Final = frozenset({Committed, Viewed})


class ComparedViews:
    """What each process showed last."""

    def __init__(self) -> None:
        self.last: dict[str, tuple[tuple[object, ...], CatalogRows]] = {}


def check(oracle: Oracle) -> str | None:
    model, known = oracle.recall(Model), oracle.recall(ComparedViews)
    wrong = model.follow(oracle.of(Committed))
    if wrong is not None:
        return wrong
    return first_wrong(
        _compare(known, viewed.process.name, viewed.view, model.at(viewed.view.revision))
        for viewed in oracle.of(Viewed)
    )


def _compare(known: ComparedViews, name: str, view: Catalog, expected: CatalogRows) -> str | None:
    # Maps are persistent: what no revision has touched is the very same object.
    parts = (view.databases, view.tables, view.views, view.principals, view.grants)
    last = known.last.get(name)
    if last is not None and last[1] is expected and all(old is new for old, new in zip(last[0], parts, strict=True)):
        return None
    shown = shown_by(view)
    if shown != expected:
        wrong = sorted(key for key in {*shown, *expected} if shown.get(key) != expected.get(key))
        first = wrong[0]
        return (
            f"{name} shows at revision {view.revision} {shown.get(first)} for {' '.join(first)},"
            f" the statements make it {expected.get(first)}; {len(wrong)} differ"
        )
    known.last[name] = (parts, expected)
    return None
