"""How Ctrl-C ends a command while the cluster may work for it."""

import contextlib
import os
import signal
from collections.abc import Callable, Generator
from typing import NoReturn

from leasehold.cli.entry import EXIT_INTERRUPTED
from leasehold.cli.output import report
from leasehold.errors import ExitCode, LeaseholdError


@contextlib.contextmanager
def interrupted_by(error: Callable[[], LeaseholdError | None]) -> Generator[Callable[[], None]]:
    """Ends this process on Ctrl-C, with `error`, from the signal handler itself; in silence if `error` answers None.

    A KeyboardInterrupt could be raised inside gRPC while one of its locks is held, and the cleanup would wait for that
    lock. Call what it yields once the outcome is known: from then on this process ignores Ctrl-C, so that it prints the
    outcome and ends with the exit code of that.
    """

    def end() -> int:
        code = int(ExitCode.UNKNOWN)
        with contextlib.suppress(RuntimeError, OSError):
            unknown = error()
            code = EXIT_INTERRUPTED if unknown is None else report(unknown)
        return code

    with ended_by(end):
        yield lambda: _set(signal.SIG_IGN)


@contextlib.contextmanager
def ended_by(end: Callable[[], int]) -> Generator[None]:
    """Ends this process on Ctrl-C with the exit code that `end` answers, from the signal handler itself."""

    def handle(_number: int, _frame: object) -> NoReturn:
        # A line of progress may be half written.
        with contextlib.suppress(OSError):
            os.write(2, b"\n")
        os._exit(end())

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is handle:
            _set(before)


@contextlib.contextmanager
def unwound_by_interrupt() -> Generator[None]:
    """On Ctrl-C, ends the command after its cleanup has run, such as deleting a file that is not whole."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        os._exit(EXIT_INTERRUPTED)
    finally:
        _set(before)


def _set(handler: "signal._HANDLER") -> None:  # pyright: ignore[reportPrivateUsage] - the stubs' name for it
    signal.signal(signal.SIGINT, handler)
