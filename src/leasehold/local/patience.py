"""How long a command waits for processes that it starts, and what it prints meanwhile."""

from collections.abc import Callable, Sequence

from leasehold.errors import Unreachable
from leasehold.limits.clients import RETRY_PAUSE_NS
from leasehold.limits.processes import START_STALL_NS, START_TELL_NS
from leasehold.limits.units import SECOND_NS
from leasehold.local.process import Process


class ProcessPatience:
    """Waits for processes as long as they run and make progress, until a deadline. A process makes progress if it has
    used CPU time or written to its log during the last START_STALL_NS. `tell` gets a line each START_TELL_NS."""

    def __init__(
        self,
        timeout_ns: int,
        pause: Callable[[int], None],
        tell: Callable[[str], None],
        now_ns: Callable[[], int],
    ) -> None:
        self._now_ns = now_ns
        self._began_ns = self._told_ns = now_ns()
        self._deadline_ns = self._began_ns + timeout_ns
        self._pause = pause
        self._tell = tell
        self._progress: dict[str, tuple[object, int]] = {}

    def wait(self, what: str, processes: Sequence[Process]) -> None:
        """One pause while the caller waits for `what`, for example "node-1 to listen". Raises `Refused` (DID_NOT_START)
        if a process has ended, `Unreachable` if one makes no progress or the deadline has passed."""
        now_ns = self._now_ns()
        for process in processes:
            process.check_runs()
            self._check_progress(process, now_ns)
        waited = f"waiting for {what}, {(now_ns - self._began_ns) // SECOND_NS} s so far"
        if now_ns >= self._deadline_ns:
            logs = f"`leasehold logs {processes[0].name}` shows why, " if processes else ""
            raise Unreachable(f"gave up {waited}", hint=f"{logs}--timeout waits longer")
        if now_ns >= self._told_ns + START_TELL_NS:
            self._told_ns = now_ns
            self._tell(waited)
        self._pause(RETRY_PAUSE_NS)

    def _check_progress(self, process: Process, now_ns: int) -> None:
        used = process.used()
        before, since_ns = self._progress.get(process.name, (None, now_ns))
        if used != before:
            self._progress[process.name] = (used, now_ns)
        elif now_ns >= since_ns + START_STALL_NS:
            paused = process.is_paused()
            raise Unreachable(
                f"{process.name} {'is paused' if paused else f'has done nothing for {START_STALL_NS // SECOND_NS} s'}",
                hint=f"`leasehold chaos resume {process.name}`" if paused else f"look into {process.log}",
            )
