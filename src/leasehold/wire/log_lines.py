"""Log lines that hold what others sent: the text of a statement, of an error of a peer, or of a name.

A line break in such a text would begin a line that no process has logged, and a terminal obeys some control characters.
So each of these is escaped as in a string of Python. A traceback keeps its lines.
"""

import logging

from leasehold.limits.processes import LOG_LINE_CHARACTERS_MAX


class OneLine(logging.Formatter):
    """Writes each message on one line of at most LOG_LINE_CHARACTERS_MAX characters."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 the name is the base class's
        line = super().formatMessage(record)[:LOG_LINE_CHARACTERS_MAX]
        if line.isprintable():
            return line
        return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line)
