"""The stale-serve rule, by which `leasehold verify` checks every serve record (INV-SERVE-1).

A node logs each batch that it released: its view, its lease, and the time on its own clock. A receipt says from which
grant on every holder had to have applied a revision. A serve is **stale** if it was released at or after its own
deadline, or on a view below R under a grant given after the floor was raised to R. Readings of two nodes' clocks are
never compared.
"""

from bisect import bisect_left
from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf
from enum import StrEnum
from itertools import accumulate

import msgspec

from leasehold.core.words.records import BarrierReceipt
from leasehold.ids import Incarnation, NodeId, ObjectId, Revision, Sequence, Term


class ServeRecord(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One released batch. `released_ns` and `deadline_ns` are readings of the node's own clock."""

    node: NodeId
    incarnation: Incarnation
    request: str
    table: ObjectId
    view: Revision
    term: Term
    sequence: Sequence
    deadline_ns: int
    released_ns: int


class StaleBecause(StrEnum):
    """Which half of the rule a serve broke."""

    AFTER_DEADLINE = "released at or after its deadline"
    OLD_VIEW = "view older than its grant's floor"


class StaleServe(msgspec.Struct, frozen=True, kw_only=True):
    """A serve that broke the rule."""

    serve: ServeRecord
    because: StaleBecause


class StaleServeRule:
    """Judges serve records against the barriers that proceeded. Each judgement takes O(log barriers)."""

    def __init__(self, barriers: Iterable[BarrierReceipt]) -> None:
        ordered = sorted({(one.term, one.sequence, one.revision) for one in barriers})
        self._raised_at: SequenceOf[tuple[Term, Sequence]] = [(term, sequence) for term, sequence, _ in ordered]
        self._floors = list(accumulate((revision for _, _, revision in ordered), max))

    def judge(self, serve: ServeRecord) -> StaleServe | None:
        """None if the serve was sound."""
        if serve.released_ns >= serve.deadline_ns:
            return StaleServe(serve=serve, because=StaleBecause.AFTER_DEADLINE)
        earlier = bisect_left(self._raised_at, (serve.term, serve.sequence))
        if earlier and serve.view < self._floors[earlier - 1]:
            return StaleServe(serve=serve, because=StaleBecause.OLD_VIEW)
        return None
