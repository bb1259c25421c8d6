"""The reader's side of a local open: until when the links may be there, and when to renew.

The deadline counts from the instant at which a request was **sent**. The node read what was left of its lease after
that, so the deadline is not later than the node's, however long the answer took (INV-OPEN-1).

| state | event              | next                                   |
| ----- | ------------------ | -------------------------------------- |
| held  | renewed            | held, until the later of both deadlines |
| held  | deadline, less what a thread needs to wake up | over: the links are removed |
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from leasehold.limits.local import LOCAL_END_AHEAD_NS, LOCAL_RENEW_NS

T = TypeVar("T")


async def sent_and_answer(call: Callable[[], Awaitable[T]], now_ns: Callable[[], int]) -> tuple[int, T]:
    """The answer of a call, and an instant before it was sent: from there a sub-lease counts."""
    sent_ns = now_ns()
    answer = await call()
    return sent_ns, answer


class SubLease:
    """One open of one node; all instants are of the reader's clock."""

    def __init__(self, *, sent_ns: int, remaining_ns: int) -> None:
        self.deadline_ns = sent_ns + remaining_ns
        self._asked_ns = sent_ns

    def asked(self, sent_ns: int) -> None:
        """A renewal is sent now: the next one is due later, whatever becomes of this one."""
        self._asked_ns = sent_ns

    def renewed(self, *, sent_ns: int, remaining_ns: int) -> None:
        """The renewal that was sent at `sent_ns` was answered."""
        self.deadline_ns = max(self.deadline_ns, sent_ns + remaining_ns)

    @property
    def due_ns(self) -> int:
        """When to renew: at the latest when half of what was left is over."""
        return self._asked_ns + min(LOCAL_RENEW_NS, max(0, self.over_ns - self._asked_ns) // 2)

    @property
    def over_ns(self) -> int:
        """From when on the links have to go."""
        return self.deadline_ns - LOCAL_END_AHEAD_NS
