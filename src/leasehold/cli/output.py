"""How answers look: tables for people, JSON for programs, progress on stderr only."""

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from leasehold.core.messages import ClusterStatus
from leasehold.errors import LeaseholdError
from leasehold.limits import MILLISECOND_NS

RULED_ROWS_MAX = 1_000
"""Drawing rules takes about a millisecond for each row."""
EXIT_NOT_READ = 141
"""As the shell counts a program that ends because nobody reads its output any more (`| head`)."""


class Output(StrEnum):
    """What `-o` takes."""

    TABLE = "table"
    JSON = "json"


def say(line: str) -> None:
    """One line on stdout."""
    _write(line + "\n")


def _write(text: str) -> None:
    """Ends the program without a word if nobody reads stdout any more."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
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
    """One line of JSON on stdout."""
    say(json.dumps(value, ensure_ascii=False))


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table on stdout, as wide as the terminal; one of more than RULED_ROWS_MAX rows without rules, as wide as it
    is."""
    cells = [[_cell(cell) for cell in row] for row in rows]
    if len(cells) > RULED_ROWS_MAX:
        _show_plain([list(columns), *cells])
        return
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    console = Console(file=sys.stdout)
    with console.capture() as rendered:
        console.print(table)
    _write(rendered.get())


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


def show_status(status: ClusterStatus, output: Output) -> None:
    """The nodes and their leases."""
    if output is Output.JSON:
        show_json(
            {
                "cluster_id": status.cluster_id,
                "term": status.term,
                "revision": status.revision,
                "bound_ms": milliseconds(status.bound_ns),
                "nodes": [
                    {
                        "id": node.id,
                        "name": node.name,
                        "address": node.address,
                        "incarnation": node.incarnation,
                        "state": node.state,
                        "applied_revision": node.applied_revision,
                        "lease_remaining_ms": node.lease_remaining_ns // MILLISECOND_NS,
                    }
                    for node in status.nodes
                ],
            }
        )
        return
    say(
        f"cluster {status.cluster_id}, term {status.term}, revision {status.revision};"
        f" a schema change takes at most {status.bound_ns / 1_000_000_000:.1f} s"
    )
    show_table(
        ["id", "name", "address", "incarnation", "state", "applied", "lease ms"],
        [
            (
                node.id,
                node.name,
                node.address,
                node.incarnation,
                node.state,
                node.applied_revision,
                node.lease_remaining_ns // MILLISECOND_NS,
            )
            for node in status.nodes
        ],
    )


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
