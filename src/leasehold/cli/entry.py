"""Ctrl-C before a command has loaded: it ends the process at once and in silence, with exit code 130.

Nothing has happened by then, so there is nothing to say. A KeyboardInterrupt would end in a traceback, or be lost in a
callback of the interpreter that can't raise. A command that the cluster works for replaces this handler
(`cli/interrupt.py`, `local/stop.py`).
"""

import os
import signal
import sys
from typing import Final, NoReturn

EXIT_INTERRUPTED: Final = 130


def end_quietly_on_interrupt() -> None:
    """Handles SIGINT until another handler replaces this one. Call it before anything large is imported."""
    signal.signal(signal.SIGINT, _end)


def _end(_number: int, _frame: object) -> NoReturn:
    # Without the interpreter's shutdown, since any import may be under way.
    os._exit(EXIT_INTERRUPTED)


def begin(words: list[str]) -> None:
    """What comes before anything large is imported; `words` are those of the command."""
    from leasehold.cli.supervised import become_supervisor

    become_supervisor(words)
    end_quietly_on_interrupt()


def main() -> None:
    """Entry point of `leasehold`."""
    begin(sys.argv[1:])
    from leasehold.cli.main import main as run

    run()
