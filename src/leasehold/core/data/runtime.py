"""The port by which steps of the data plane wait and start work beside them.

In production each thread runs its own steps (`wire/steps.py`) and the ports block. In the simulator tasks run the steps
(`testing/steps.py`) and the ports wait in virtual time. So steps share state as threads do: only under a
`ConditionVariable`, which is never held while anything else is waited for.
"""

from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Protocol, Self


class ConditionVariable(Protocol):
    """A lock, and a way to wait for a change of what it protects."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def wait(self, until_ns: int | None) -> None:
        """Gives the lock away until `notify_all`, at most until `until_ns`. It may return sooner: look again."""
        ...

    def notify_all(self) -> None:
        """Wakes all waits; called with the lock."""
        ...


class Runtime(Protocol):
    """Time, and what runs beside the caller."""

    def now_ns(self) -> int:
        """The local clock, as of `wire.ports.Clock`."""
        ...

    async def sleep_until(self, deadline_ns: int) -> None:
        """Returns once `now_ns() >= deadline_ns`."""
        ...

    def condition(self) -> ConditionVariable:
        """A new one."""
        ...

    def is_ending(self) -> bool:
        """Whether the process is ending, and waits for what was started."""
        ...

    def start(self, work: Coroutine[Any, Any, None], *, name: str, daemon: bool = False) -> None:
        """Runs `work`, which handles its own errors. The end of the process waits for it, unless it is a `daemon`."""
        ...
