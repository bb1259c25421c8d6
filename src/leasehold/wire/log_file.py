"""A log file that stays bounded: the process that adds to it takes its oldest lines away.

A process logs a line for each statement, so any user could fill the disk. `leasehold up` and shells pass the file to
the process as its stderr, and do not bound it. If stderr is a journal or a pipe, its reader bounds it.
"""

import fcntl
import logging
import os
import stat
from contextlib import suppress
from typing import Final, TextIO

from leasehold.limits.processes import LOG_BYTES_KEPT, LOG_BYTES_MAX, LOG_LOOK_LINES

CUT: Final = b"(older lines of this log were taken away, since it had %d bytes)\n"


class BoundedLog(logging.StreamHandler[TextIO]):
    """Writes to a stream. If that is a file that it adds to, the file is cut to LOG_BYTES_KEPT once it has more than
    LOG_BYTES_MAX, which it looks for after LOG_LOOK_LINES lines."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lines = 0

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        self._lines += 1
        if self._lines >= LOG_LOOK_LINES:
            self._lines = 0
            with suppress(OSError):  # the disk fails, or there is no file: the line is written in any case
                cut(self.stream.fileno(), LOG_BYTES_MAX, LOG_BYTES_KEPT)


def cut(file: int, bytes_max: int, kept: int) -> None:
    """Leaves the newest lines of a larger file, about `kept` bytes of them. Does nothing to one that was not opened for
    adding to it: there the next line would come after a hole. Raises `OSError`."""
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_size <= bytes_max:
        return
    if not fcntl.fcntl(file, fcntl.F_GETFL) & os.O_APPEND:
        return
    with open(f"/proc/self/fd/{file}", "rb") as reading:  # noqa: PTH123 - it is no path
        reading.seek(found.st_size - kept)
        reading.readline()  # the rest of a line
        newest = reading.read()
    os.ftruncate(file, 0)
    left = memoryview(CUT % found.st_size + newest)
    while left:
        left = left[os.write(file, left) :]
