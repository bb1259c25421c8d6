"""How answers look: tables for people, JSON for programs, progress on stderr only."""

import json
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from rich.console import Console
from rich.table import Table

from leasehold.errors import LeaseholdError
from leasehold.limits import MILLISECOND_NS


class Output(StrEnum):
    """What `-o` takes."""

    TABLE = "table"
    JSON = "json"


def say(line: str) -> None:
    """One line on stdout."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def note(line: str) -> None:
    """One line on stderr: progress, and what to do next."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def show_json(value: Any) -> None:
    """One line of JSON on stdout."""
    say(json.dumps(value, ensure_ascii=False))


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table on stdout, as wide as the terminal."""
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    Console(file=sys.stdout).print(table)


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


class Countdown:
    """Whom a statement waits for, as a line that counts down on a terminal, and once per change elsewhere."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._said: tuple[str, ...] = ()
        self._open = False

    def update(self, nodes: tuple[str, ...], at_most_ns: int) -> None:
        """Shows the present state."""
        who = ", ".join(nodes)
        line = f"waiting for {who} to fence, at most {at_most_ns / 1_000_000_000:.1f} s"
        if self._terminal:
            sys.stderr.write("\r\x1b[K" + line)
            sys.stderr.flush()
            self._open = True
        elif nodes != self._said:
            note(line)
        self._said = nodes

    def done(self) -> None:
        """Ends the line."""
        if self._open:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._open = False
