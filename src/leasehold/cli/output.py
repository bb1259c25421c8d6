"""How answers look: tables for people, JSON for programs, progress on stderr only."""

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from rich.console import Console
from rich.table import Table

from leasehold.core.messages import ClusterStatus, Receipt
from leasehold.errors import LeaseholdError
from leasehold.limits import MILLISECOND_NS

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
    """A table on stdout, as wide as the terminal."""
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    console = Console(file=sys.stdout)
    with console.capture() as rendered:
        console.print(table)
    _write(rendered.get())


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


def receipt_json(receipt: Receipt, settled: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """A receipt as programs see it."""
    return {
        "statement": receipt.text,
        "statement_id": receipt.statement_id,
        "revision": receipt.revision,
        "outcome": receipt.outcome.value,
        "elapsed_ms": milliseconds(receipt.elapsed_ns),
        "bound_ms": milliseconds(receipt.bound_ns),
        "settled": [dict(one) for one in settled],
        "pending": list(receipt.pending),
        "cleaning": list(receipt.cleaning),
    }


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
