"""Says in one line where a test is that takes too long: of a long output people may see the last lines alone."""

import os
import sys
from pathlib import Path
from threading import Timer, main_thread
from types import FrameType
from typing import Final

import pytest

WHOLE_SECONDS: Final = 1_100
"""How long a test and all that tidies up after it may take; those that may take longer are run by hand."""
CALLS: Final = 8
"""How many are named."""
_RUNNERS: Final = ("/_pytest/", "/pluggy/")


def where() -> str:
    """Where the main thread is, the innermost call first."""
    found: list[str] = []
    frame: FrameType | None = sys._current_frames().get(main_thread().ident or 0)
    while frame is not None and len(found) < CALLS:
        code = frame.f_code
        if not any(one in code.co_filename for one in _RUNNERS):
            found.append(f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return " < ".join(found)


def watched(item: pytest.Item) -> Timer:
    """Ends the run when it fires. A test has a shorter time of its own, but what tidies up after it has none."""
    timer = Timer(WHOLE_SECONDS, _end, (item,))
    timer.daemon = True
    timer.start()
    return timer


def _end(item: pytest.Item) -> None:
    terminal = item.config.get_terminal_writer()
    terminal.line(f"\n{item.nodeid} did not end in {WHOLE_SECONDS} s: {where()}")
    terminal.flush()
    os._exit(pytest.ExitCode.INTERNAL_ERROR)
