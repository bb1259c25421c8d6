"""The barrier: waits until no lease that has not ended is held by a node behind a revision.

The reasons are in docs/design.md, "Schema changes". A barrier is opened in the same step in which the floor rises to R,
with the bounds that the grantor had noted until then: they are **frozen**. From then on a node is settled for good as
soon as its incarnation reports R, its frozen bound passes, or its incarnation is closed. Every later grant needs R, so
later grants can't unsettle it, and the wait ends whatever a node does (INV-BARRIER-1).

| state   | event                          | next    |
| pending | reported applied >= R          | applied |
| pending | clock reaches its frozen bound | fenced  |
| pending | incarnation closed             | fenced, surrendered, ended or removed |
"""

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from leasehold.core.words.records import BarrierReceipt, SettledHow, SettledNode
from leasehold.ids import Incarnation, NodeId, Revision, Sequence, Term


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A node that may still hold a lease from before the floor rose; `bound_ns` is frozen."""

    node: NodeId
    incarnation: Incarnation
    bound_ns: int


class Proceed(msgspec.Struct, frozen=True, kw_only=True):
    """All are settled: no view older than the revision is served, now or ever after."""

    receipt: BarrierReceipt


class KeepWaiting(msgspec.Struct, frozen=True, kw_only=True):
    """Some are not; it ends by itself at `until_ns` at the latest, on the leader's clock."""

    pending: tuple[NodeId, ...]
    until_ns: int


class Fail(msgspec.Struct, frozen=True, kw_only=True):
    """The statement's own timeout came first."""

    pending: tuple[NodeId, ...]


Verdict: TypeAlias = Proceed | KeepWaiting | Fail


class Barrier:
    """One barrier of one leader; the grantor feeds it."""

    def __init__(
        self,
        *,
        revision: Revision,
        term: Term,
        sequence: Sequence,
        pending: Iterable[Pending],
        give_up_ns: int | None,
        now_ns: int,
    ) -> None:
        self._revision = revision
        self._term = term
        self._sequence = sequence
        # In the order in which their bounds pass, which are frozen: the first one left is always the next.
        self._pending = {one.node: one for one in sorted(pending, key=lambda each: (each.bound_ns, each.node))}
        self._give_up_ns = give_up_ns
        self._began_ns = now_ns
        self._settled: list[SettledNode] = []

    def reported(self, node: NodeId, incarnation: Incarnation, applied: Revision, now_ns: int) -> None:
        one = self._pending.get(node)
        if one is not None and one.incarnation == incarnation and applied >= self._revision:
            self._settle(one, SettledHow.APPLIED, now_ns)

    def closed(self, node: NodeId, incarnation: Incarnation, how: SettledHow, now_ns: int) -> None:
        """The lease of an incarnation has ended, and it never gets another one."""
        one = self._pending.get(node)
        if one is not None and one.incarnation == incarnation:
            self._settle(one, how, now_ns)

    def judge(self, now_ns: int) -> Verdict:
        """Settles the nodes whose bound has passed, then says where it stands."""
        return self.ended(now_ns) or self.waits()

    def ended(self, now_ns: int) -> Proceed | Fail | None:
        """As `judge`, None while it waits: asked at every renewal, it must not look at every node."""
        while (first := self._first()) is not None and now_ns >= first.bound_ns:
            self._settle(first, SettledHow.FENCED, first.bound_ns)
        if not self._pending:
            return Proceed(receipt=self._receipt())
        if self._give_up_ns is not None and now_ns >= self._give_up_ns:
            return Fail(pending=tuple(sorted(self._pending)))
        return None

    def waits(self) -> KeepWaiting:
        """The nodes that are not settled; settles and decides nothing."""
        until_ns = max((one.bound_ns for one in self._pending.values()), default=self._began_ns)
        return KeepWaiting(pending=tuple(sorted(self._pending)), until_ns=until_ns)

    def next_deadline_ns(self) -> int:
        """The next instant at which the verdict could change without an event; past if it waits to be judged."""
        first = self._first()
        if first is None:
            return self._began_ns
        return first.bound_ns if self._give_up_ns is None else min(first.bound_ns, self._give_up_ns)

    def _first(self) -> Pending | None:
        return next(iter(self._pending.values()), None)

    def _settle(self, one: Pending, how: SettledHow, at_ns: int) -> None:
        del self._pending[one.node]
        after_ns = max(0, at_ns - self._began_ns)
        self._settled.append(SettledNode(node=one.node, how=how, after_ns=after_ns))

    def _receipt(self) -> BarrierReceipt:
        return BarrierReceipt(
            revision=self._revision, term=self._term, sequence=self._sequence, settled=tuple(self._settled)
        )
