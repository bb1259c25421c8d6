"""INV-LOG-3: nothing that was decided under an ended term is appended after the next leader has read the head.

The next leader reads the head after its election. The check is stricter: from the election on, each entry is of the
new term.
"""

from typing import Final

from leasehold.testing.log_news import EntryAppended
from leasehold.testing.oracle import Oracle

HEARS: Final = frozenset({EntryAppended})


def check(oracle: Oracle) -> str | None:
    for news in oracle.of(EntryAppended):
        if news.entry.term != news.newest_term:
            return f"entry {news.entry.number} of term {news.entry.term} was appended in term {news.newest_term}"
    return None
