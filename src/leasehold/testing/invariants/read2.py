"""INV-READ-2: what clients asked about tables and were answered is linearizable, follower reads included.

It is judged at the end of a run, from what clients know alone: nothing that the store or a process holds. Histories
that the search could not decide are counted.
"""

from typing import Final

from leasehold.testing.linearizability import UndecidedHistory
from leasehold.testing.linearizability import check as check_history
from leasehold.testing.news import ClientHistory
from leasehold.testing.oracle import Oracle

HEARS: Final = frozenset({ClientHistory})


class JudgedHistories:
    """How many histories were judged, and how many of these could not be decided."""

    def __init__(self) -> None:
        self.all = 0
        self.undecided = 0


def check(oracle: Oracle) -> str | None:
    judged = oracle.recall(JudgedHistories)
    for news in oracle.of(ClientHistory):
        found = check_history(news.operations)
        judged.all += 1
        if isinstance(found, UndecidedHistory):
            judged.undecided += 1
        elif found is not None:
            return str(found)
    return None
