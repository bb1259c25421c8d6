"""INV-READ-1: reads of the catalog are linearizable, whichever coordinator answers.

Each answer names a revision. Two rules hold:

- The revision is at least the newest one that any client had seen in an answer before the question was asked.
- The answer shows the catalog that the statements up to that revision make.

Revisions order all statements. So a question takes effect at its revision, after each statement that had ended before
the question was asked.
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
        return f"{news.by} answered as of revision {news.revision}, but clients had seen {news.floor} before"
    shown = {(fold(database), fold(table)) for database, table in news.tables}
    expected = {key[1:] for key in model.at(news.revision) if key[0] == "table"}
    if shown != expected:
        return f"{news.by} showed at revision {news.revision} the tables {sorted(shown)}, there are {sorted(expected)}"
    return None
