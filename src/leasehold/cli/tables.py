"""`leasehold status --tables`: the copies of each table, what is being copied, and what is at risk."""

from pathlib import Path
from typing import Any, Final

from leasehold.cli.copies import segments
from leasehold.cli.login import connected
from leasehold.cli.output import Output, say, show_json, show_table
from leasehold.cli.questions import NamedRows, named
from leasehold.cli.repairs import ask_repairs, copies_left
from leasehold.client.coordinators import Coordinators
from leasehold.core.words.messages import Rows
from leasehold.limits.clients import STATUS_TABLES_SHOWN

_COLUMNS: Final = ("table", "rows", "MiB", "replicas", "in sync", "to copy", "MiB to copy")


def show_copies(directory: Path, user: str | None, output: Output) -> None:
    """Asks the leader. As a table, at most STATUS_TABLES_SHOWN tables are shown, those at risk first; as JSON all."""
    with connected(Coordinators, directory, user, timeout=None) as cluster:
        answer, repairs = cluster.sql("SHOW TABLES"), ask_repairs(cluster)
    assert isinstance(answer, Rows), "SHOW answers rows"
    show_tables(answer, repairs, output)


def show_tables(answer: Rows, repairs: NamedRows, output: Output) -> None:
    tables = named(answer)
    tables.sort(key=lambda one: (_risk(one), one["bytes_short"], one["bytes"]), reverse=True)
    risks = [risk for one in tables for risk in _risks(one)]
    if output is Output.JSON:
        show_json({"revision": answer.revision, "tables": tables, "at_risk": risks, "repairs": repairs})
        return
    shown = tables[:STATUS_TABLES_SHOWN]
    show_table(_COLUMNS, [_row(one) for one in shown])
    if len(tables) > len(shown):
        short = sum(one["segments_short"] for one in tables[len(shown) :])
        say(f"and {len(tables) - len(shown)} more tables, with {segments(short)} to copy; `-o json` shows all")
    if left := copies_left(repairs):
        say(f"under way: {left}")
    for risk in risks[:STATUS_TABLES_SHOWN]:
        say(f"at risk: {risk}")
    if len(risks) > STATUS_TABLES_SHOWN:
        say(f"at risk: {len(risks) - STATUS_TABLES_SHOWN} more; `-o json` shows all")


def _row(table: dict[str, Any]) -> tuple[Any, ...]:
    return (
        _name(table),
        table["rows"],
        _mebibytes(table["bytes"]),
        table["replication"],
        f"{table['buckets_in_sync']} of {table['buckets']}",
        table["segments_short"],
        _mebibytes(table["bytes_short"]),
    )


def _risk(table: dict[str, Any]) -> tuple[int, int, int]:
    return table["buckets_lost"], table["buckets_alone"], table["segments_short"]


def _risks(table: dict[str, Any]) -> list[str]:
    """A sentence for each risk."""
    found: list[str] = []
    lost, alone = table["buckets_lost"], table["buckets_alone"]
    if lost:
        found.append(f"{_name(table)}: {_buckets(lost)} segments that no node holds")
    if alone:
        found.append(f"{_name(table)}: {_buckets(alone)} one copy: the loss of a disk loses rows")
    return found


def _buckets(count: int) -> str:
    return "1 bucket has" if count == 1 else f"{count} buckets have"


def _name(table: dict[str, Any]) -> str:
    return f"{table['database']}.{table['table']}"


def _mebibytes(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.1f}"
