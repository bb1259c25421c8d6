"""How answers look: tables for people, JSON for programs, progress on stderr only."""

import codecs
import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, LeaseholdError, Refused
from leasehold.limits.clients import PROGRESS_SHOWN_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from leasehold.core.words.messages import WaitingFor

RULED_ROWS_MAX = 1_000
"""To draw the rules of a table takes about a millisecond for each row."""
LINE_WIDTH_MAX = 1_000
"""Of a table with rules that is not shown on a terminal."""
_DUMB: Final = frozenset({"dumb", "unknown"})
"""Terminals that can't write over a line, as rich lists them."""
EXIT_NOT_READ = 141
"""The exit code that a shell shows for a program that ended because nobody reads its output any more (`| head`)."""
_NO_TEXT: Final = re.compile("[\ud800-\udfff]")
"""The characters that Python puts for bytes of a file's name that are not UTF-8."""


class Output(StrEnum):
    """What `-o` takes."""

    TABLE = "table"
    JSON = "json"


class RowsOutput(StrEnum):
    """What `-o` takes for the rows of a SELECT."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


def say(line: str, style: str = "") -> None:
    """One line on stdout; at a terminal in the `style` of rich."""
    if style and sys.stdout.isatty():
        from rich.console import Console
        from rich.text import Text

        Console(soft_wrap=True).print(Text(line, style))
        return
    _write(line + "\n")


def _write(text: str) -> None:
    """Writes to stdout, and escapes what it can't show, such as the name of a file that is not text."""
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
        # The rest of the buffer would fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(EXIT_NOT_READ) from None


def note(line: str) -> None:
    """One line on stderr: progress, and what to do next. If nobody reads it, the work goes on."""
    with contextlib.suppress(OSError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def show_json(value: Any) -> None:
    """One line of JSON on stdout, valid in any encoding of stdout; U+FFFD replaces each byte that is not text."""
    is_utf8 = codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8"
    whole = _NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", json.dumps(value, ensure_ascii=False))
    say(whole if is_utf8 else json.dumps(json.loads(whole)))


def show_answer(output: Output, value: Any, *lines: str) -> None:
    """An answer on stdout: `value` as JSON for programs, else `lines`."""
    if output is Output.JSON:
        show_json(value)
        return
    for line in lines:
        say(line)


def show_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], is_warned: Callable[[str, Any], bool] = lambda *_: False
) -> None:
    """A table on stdout, no wider than the terminal. A table of more than RULED_ROWS_MAX rows has no rules, and any
    width. On a terminal too narrow for the names of the columns, each row is a block of lines with one value each.
    On a terminal a cell is yellow if `is_warned` says so of its column and value."""
    names = [_cell(name) for name in columns]
    values = [list(row) for row in rows]
    if len(values) > RULED_ROWS_MAX:
        _show_plain([names, *([_cell(value) for value in row] for row in values)])
        return
    from rich.console import Console
    from rich.text import Text

    cells = [
        [
            Text(_cell(value), "yellow" if is_warned(column, value) else "")
            for column, value in zip(columns, row, strict=True)
        ]
        for row in values
    ]
    console = Console(file=sys.stdout)
    is_narrow = console.is_terminal and sum(len(name) + len("│  ") for name in names) >= console.width
    with console.capture() as rendered:
        (_draw_blocks if is_narrow else _draw_ruled)(console, names, cells)
    _write(rendered.get())


def _draw_ruled(console: "Console", columns: Sequence[str], rows: Sequence[Sequence["Text"]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    for row in rows:
        table.add_row(*row)
    if not console.is_terminal:
        console.width = console.measure(table, options=console.options.update(width=LINE_WIDTH_MAX)).maximum
    console.print(table)


def _draw_blocks(console: "Console", columns: Sequence[str], rows: Sequence[Sequence["Text"]]) -> None:
    from rich.text import Text

    width = max(map(len, columns))
    for at, row in enumerate(rows):
        if at:
            console.print()
        for column, cell in zip(columns, row, strict=True):
            line = Text(f"{column:{width}}  ").append_text(cell)
            line.rstrip()
            console.print(line, soft_wrap=True)


def _show_plain(cells: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)
    _write("\n".join(lines) + "\n")


def _cell(value: Any) -> str:
    """Text of other people (comments, statements, aliases) is shown as it is, but can't control the terminal."""
    text = "" if value is None else str(value)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def milliseconds(duration_ns: int) -> float:
    """Rounded to three digits, for people and for JSON."""
    return round(duration_ns / MILLISECOND_NS, 3)


def report(error: LeaseholdError) -> int:
    """Writes the error and its hint to stderr, one line each; returns the exit code."""
    note(f"error [{error.code}]: {_one_line(error.text)}")
    if error.hint:
        note(f"hint: {_one_line(error.hint)}")
    return int(error.exit_code)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def confirm(question: str, *, why: str, otherwise: str) -> None:
    """Asks a person at the terminal, and returns if the answer is yes.

    Raises `BadSettings` with code NEEDS_YES, which says `why` it asks, where there is no terminal; else `Refused` with
    code NOT_CONFIRMED and the text `otherwise`.
    """
    if not sys.stdin.isatty():
        raise BadSettings(why, code=ErrorCode.NEEDS_YES, hint="run it with --yes, or on a terminal")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().casefold() not in {"y", "yes"}:
        raise Refused(otherwise, code=ErrorCode.NOT_CONFIRMED, hint="answer y to go on")


class Line:
    """A progress line: on a terminal one line that changes, elsewhere a new line for each change. A context manager."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty() and os.environ.get("TERM") not in _DUMB
        self._said: object = None
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.done()

    def show(self, line: str, change: object = None) -> None:
        """Shows the line; without a terminal only if `change`, by default the line, differs from the last one."""
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
    """Which process does not answer, and for how long it is asked again; only on a terminal."""

    def update(self, error: LeaseholdError | None, left_s: float) -> None:
        """Shows the present state; ends the line once there is an answer."""
        if error is None:
            self.done()
        elif self._terminal:
            # The time first: a narrow terminal cuts the end.
            self.show(f"retrying for at most {left_s:.0f} s: {_one_line(error.text)}")


class ProgressLine(Line):
    """A line that changes at most once per `every_ns`, and appears after the first `every_ns`."""

    def __init__(self, every_ns: int) -> None:
        super().__init__()
        from leasehold.wire.clock import BoottimeClock  # it loads asyncio, which few commands need

        self._every_ns = every_ns
        self._clock = BoottimeClock()
        self._due_ns = self._clock.now_ns() + every_ns

    def show(self, line: str, change: object = None) -> None:
        """As in `Line`, unless the line has just changed."""
        now_ns = self._clock.now_ns()
        if now_ns >= self._due_ns:
            self._due_ns = now_ns + self._every_ns
            super().show(line, change)


class RowsReadLine(ProgressLine):
    """How many rows a SELECT has read; only on a terminal."""

    def __init__(self, *, is_shown: bool) -> None:
        super().__init__(PROGRESS_SHOWN_NS)
        self._is_shown = self._terminal and is_shown

    def update(self, rows: int, of: int) -> None:
        """Shows the present state, now and then."""
        if self._is_shown:
            self.show(f"{rows:,} of {of:,} rows read")


class KeysLine(ProgressLine):
    """How many keys of a meta storage were read or written; only on a terminal."""

    def __init__(self, what: str) -> None:
        super().__init__(PROGRESS_SHOWN_NS)
        self._what = what

    def update(self, keys: int, of: int) -> None:
        """Shows the present state, now and then."""
        if self._terminal:
            self.show(f"{keys:,} of {max(keys, of):,} keys {self._what}")


class Countdown(Line):
    """The nodes that a statement waits for, and for how long at most."""

    def update(self, told: "WaitingFor") -> None:
        """Shows the present state."""
        at_most_s = told.at_most_ns / SECOND_NS
        self.show(f"waiting for {', '.join(told.nodes)} to fence, at most {at_most_s:.1f} s", told.nodes)
