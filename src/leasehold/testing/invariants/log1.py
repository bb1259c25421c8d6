"""INV-LOG-1: replicas at one revision have one lineage and one digest.

What each replica holds after each entry is compared with a store that has applied every entry at the instant at which
it was appended: position, lineage, MM, and the digest of all keys.
"""

from typing import Final

from leasehold.testing.log_news import EntryAppended, LogState, ReplicaMoved
from leasehold.testing.oracle import Oracle

HEARS: Final = frozenset({EntryAppended, ReplicaMoved})


class LogStates:
    """What the log holds after each of its entries."""

    def __init__(self) -> None:
        self.by_number: dict[int, LogState] = {}


def check(oracle: Oracle) -> str | None:
    states = oracle.recall(LogStates).by_number
    for appended in oracle.of(EntryAppended):
        if appended.follows:
            states[appended.entry.number] = appended.state
    for moved in oracle.of(ReplicaMoved):
        number = moved.state.position.number
        expected = states.get(number)
        if expected is None:
            return f"the replica of {moved.name} has applied entry {number}, which the log does not have"
        # One that began from a checkpoint may know a compaction before it comes to its entry.
        minimum = max(moved.state.minimum, expected.minimum)
        if moved.state != expected._replace(minimum=minimum):
            return f"the replica of {moved.name} differs from the log after entry {number}"
    return None
