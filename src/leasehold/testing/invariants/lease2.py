"""INV-LEASE-2: no grant below the floor.

The floor is counted here, not read from the leader: the newest revision at its election, raised to that of every
barrier it has opened since.
"""

from typing import Final

from leasehold.testing.news import Granted
from leasehold.testing.oracle import Oracle

HEARS: Final = frozenset({Granted})


def check(oracle: Oracle) -> str | None:
    for news in oracle.of(Granted):
        who = f"{news.leader.name} to node {news.renewal.node}"
        if news.renewal.applied < news.due_floor:
            return f"a grant from {who}, which applied {news.renewal.applied}, below {news.due_floor}"
        if news.grant.floor < news.due_floor:
            return f"a grant from {who} says floor {news.grant.floor}, it is {news.due_floor}"
    return None
