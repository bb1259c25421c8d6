"""What a command says that Ctrl-C ends while the cluster may be at work for it."""

import contextlib
import os
import signal
from collections.abc import Callable, Generator
from typing import NoReturn

from leasehold.cli.output import report
from leasehold.errors import ExitCode, LeaseholdError


@contextlib.contextmanager
def interrupted_by(error: Callable[[], LeaseholdError]) -> Generator[None]:
    """Ends this process on Ctrl-C, with `error`, from the signal handler itself.

    A KeyboardInterrupt could come up inside gRPC with one of its locks held, and the way out would wait for that lock.
    """

    def end(_number: int, _frame: object) -> NoReturn:
        # It may have come in the middle of a line of progress.
        code = int(ExitCode.UNKNOWN)
        with contextlib.suppress(RuntimeError, OSError):
            os.write(2, b"\n")
            code = report(error())
        os._exit(code)

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
