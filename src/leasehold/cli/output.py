"""How answers look: tables for people, JSON for programs, progress on stderr only."""

import codecs
import contextlib
import json
import os
import re
import sys
from collections.abc import Generator, Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

from leasehold.errors import LeaseholdError
from leasehold.limits.clients import PROGRESS_SHOWN_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

if TYPE_CHECKING:
    from leasehold.core.words.messages import WaitingFor

RULED_ROWS_MAX = 1_000
"""Drawing rules takes about a millisecond for each row."""
LINE_WIDTH_MAX = 1_000
"""Of a table with rules that no terminal shows."""
_DUMB: Final = frozenset({"dumb", "unknown"})
"""Terminals on which nothing can be written over, as rich has them."""
EXIT_NOT_READ = 141
"""As the shell counts a program that ends because nobody reads its output any more (`| head`)."""
_NO_TEXT: Final = re.compile("[\ud800-\udfff]")
"""What Python makes of bytes in the name of a file that are not UTF-8."""


class Output(StrEnum):
    """What `-o` takes."""

    TABLE = "table"
    JSON = "json"


class RowsOutput(StrEnum):
    """What `-o` takes where rows may be many: those of a SELECT."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


def say(line: str) -> None:
    """One line on stdout."""
    _write(line + "\n")


def _write(text: str) -> None:
    """What stdout can't show, such as the name of a file that is no text, stands there escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    text = text.encode(encoding, "backslashreplace").decode(encoding)
    with ending_unread():
        sys.stdout.write(text)
        sys.stdout.flush()


@contextlib.contextmanager
def ending_unread() -> Generator[None]:
    """Ends the program without a word if nobody reads stdout any more."""
    try:
        yield
    except BrokenPipeError:
        # What is left in the buffer would fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(EXIT_NOT_READ) from None


def note(line: str) -> None:
    """One line on stderr: progress, and what to do next. If nobody reads it, the work goes on."""
    with contextlib.suppress(OSError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def show_json(value: Any) -> None:
    """One line of JSON on stdout, valid whatever stdout can show; of names that are no text, U+FFFD stands for each
    byte that is none."""
    is_utf8 = codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8"
    whole = _NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", json.dumps(value, ensure_ascii=False))
    say(whole if is_utf8 else json.dumps(json.loads(whole)))


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table on stdout, no wider than the terminal; one of more than RULED_ROWS_MAX rows without rules, as wide as it
    is. Where a terminal is too narrow for the names of the columns, each row is a block of lines, a value in each."""
    cells = [[_cell(cell) for cell in row] for row in rows]
    if len(cells) > RULED_ROWS_MAX:
        _show_plain([list(columns), *cells])
        return
    _write(_ruled(columns, cells))


def _ruled(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout)
    if console.is_terminal and sum(len(column) + len("│  ") for column in columns) >= console.width:
        return _blocks(columns, cells)
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    if not console.is_terminal:
        console.width = console.measure(table, options=console.options.update(width=LINE_WIDTH_MAX)).maximum
    with console.capture() as rendered:
        console.print(table)
    return rendered.get()


def _blocks(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    width = max(map(len, columns))
    rows = (zip(columns, row, strict=True) for row in cells)
    return "\n".join("".join(f"{name:{width}}  {cell}".rstrip() + "\n" for name, cell in row) for row in rows)


def _show_plain(cells: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)
    _write("\n".join(lines) + "\n")


def _cell(value: Any) -> str:
    """What others wrote (comments, statements) stands there as it is, and can't command the terminal."""
    text = "" if value is None else str(value)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def milliseconds(duration_ns: int) -> float:
    """For people and JSON alike: three digits are plenty."""
    return round(duration_ns / MILLISECOND_NS, 3)


def report(error: LeaseholdError) -> int:
    """What went wrong and what to do next, each on one line of stderr; answers the exit code."""
    note(f"error [{error.code}]: {_one_line(error.text)}")
    if error.hint:
        note(f"hint: {_one_line(error.hint)}")
    return int(error.exit_code)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def confirmed(question: str) -> bool:
    """Whether a person at the terminal says yes."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().casefold() in {"y", "yes"}


class Line:
    """How something stands, as one line that changes on a terminal, and as a line for each change elsewhere; a context
    manager that ends the line."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty() and os.environ.get("TERM") not in _DUMB
        self._said: object = None
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.done()

    def show(self, line: str, change: object = None) -> None:
        """Shows it; elsewhere than on a terminal only if `change`, by default the line, is not what it was."""
        said = line if change is None else change
        if self._terminal:
            _redraw(line)
            self._open = True
        elif said != self._said:
            note(line)
        self._said = said

    def done(self) -> None:
        """Ends the line."""
        if self._open:
            _redraw("")
            self._open = False


def _redraw(line: str) -> None:
    """Replaces the line at the cursor of the terminal on stderr, cut to its width."""
    from rich.console import Console
    from rich.control import Control
    from rich.segment import ControlType
    from rich.text import Text

    console = Console(stderr=True)
    with contextlib.suppress(OSError):
        console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 0)))
        console.print(Text(line), end="", no_wrap=True, overflow="ellipsis")


class Retrying(Line):
    """What does not answer, and for how long it is asked yet; on a terminal alone."""

    def update(self, error: LeaseholdError | None, left_s: float) -> None:
        """Shows the present state; nothing once it has answered."""
        if error is None:
            self.done()
        elif self._terminal:
            # The time first: a narrow terminal cuts the end.
            self.show(f"retrying for at most {left_s:.0f} s: {_one_line(error.text)}")


class ProgressLine(Line):
    """One that changes each `every_ns` at most; the first time after so long."""

    def __init__(self, every_ns: int) -> None:
        super().__init__()
        from leasehold.wire.clock import BoottimeClock  # it loads asyncio, which few commands need

        self._every_ns = every_ns
        self._clock = BoottimeClock()
        self._due_ns = self._clock.now_ns() + every_ns

    def show(self, line: str, change: object = None) -> None:
        """As of `Line`, unless it has changed a moment ago."""
        now_ns = self._clock.now_ns()
        if now_ns >= self._due_ns:
            self._due_ns = now_ns + self._every_ns
            super().show(line, change)


class RowsReadLine(ProgressLine):
    """How many rows a SELECT has read; on a terminal alone."""

    def __init__(self, *, is_shown: bool) -> None:
        super().__init__(PROGRESS_SHOWN_NS)
        self._is_shown = self._terminal and is_shown

    def update(self, rows: int, of: int) -> None:
        """Shows the present state, now and then."""
        if self._is_shown:
            self.show(f"{rows:,} of {of:,} rows read")


class Countdown(Line):
    """Whom a statement waits for, and for how long at most."""

    def update(self, told: "WaitingFor") -> None:
        """Shows the present state."""
        at_most_s = told.at_most_ns / SECOND_NS
        self.show(f"waiting for {', '.join(told.nodes)} to fence, at most {at_most_s:.1f} s", told.nodes)
