"""Ctrl-C before a command has loaded: it ends the process at once and in silence, with exit code 130.

Nothing has happened by then, so there is nothing to say. A KeyboardInterrupt would end in a traceback, or be lost in a
callback of the interpreter that can't raise. A command for which the cluster is at work takes the signal over
(`cli/interrupt.py`, `local/stop.py`).
"""

import os
import signal
from typing import Final, NoReturn

EXIT_INTERRUPTED: Final = 130


def end_quietly_on_interrupt() -> None:
    """From here on, until something else handles SIGINT. Call it before anything large is imported."""
    signal.signal(signal.SIGINT, _end)


def _end(_number: int, _frame: object) -> NoReturn:
    # Without the interpreter's shutdown: it could be within any import.
    os._exit(EXIT_INTERRUPTED)


def main() -> None:
    """Entry point of `leasehold`."""
    end_quietly_on_interrupt()
    from leasehold.cli.main import main as run

    run()
