"""INV-READ-1: an answer about the catalog is not older than what any client had been told of before it was asked for,
whichever coordinator gives it; and it is what the statements make of the catalog at the revision in the answer.

Revisions are the order of all statements, and each answer names its own. So these two rules say that the catalog is
linearizable: a question takes effect at its revision, after all that had ended when it began.
"""

from typing import Final

from leasehold.core.words.statements import fold
from leasehold.testing.catalog import Model
from leasehold.testing.history import Committed
from leasehold.testing.news import CatalogRead
from leasehold.testing.oracle import Oracle, first_wrong

HEARS: Final = frozenset({Committed, CatalogRead})


def check(oracle: Oracle) -> str | None:
    model = oracle.recall(Model)
    model.follow(oracle.of(Committed))  # what is wrong with that is for INV-VIEW-1 to say
    return first_wrong(_wrong(model, one) for one in oracle.of(CatalogRead))


def _wrong(model: Model, news: CatalogRead) -> str | None:
    if news.revision < news.floor:
        return f"{news.by} answered as of revision {news.revision}, when clients had been told of {news.floor}"
    shown = {(fold(database), fold(table)) for database, table in news.tables}
    expected = {key[1:] for key in model.at(news.revision) if key[0] == "table"}
    if shown != expected:
        return f"{news.by} showed at revision {news.revision} the tables {sorted(shown)}, there are {sorted(expected)}"
    return None
