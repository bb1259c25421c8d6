"""Results of a run: printed, kept as JSON with the commit they were measured at, and written into the documents."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import psutil
from rich.console import Console
from rich.table import Table as RichTable

from bench.figures import Figure, Table

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "measuring.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
HEADING = "### `"
"""Begins the section of a part."""
COLUMNS = ("what", "measured: median (5 % to 95 %)", "peer", "ratio", "aim", "met")


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What one part of the bench measured, and where."""

    part: str
    commit: str
    """The commit that was measured; `-dirty` behind it if files had changes that were not committed."""
    machine: str
    tables: list[Table]


def commit(root: Path = ROOT) -> str:
    """The commit of this tree, with `-dirty` if tracked files differ from it; `unknown` outside a git repository."""
    words = ["git", "-C", str(root)]
    found = subprocess.run([*words, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    if found.returncode:
        return "unknown"
    changed = subprocess.run(
        [*words, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True, check=True
    )
    return found.stdout.strip() + ("-dirty" if changed.stdout.strip() else "")


def machine() -> str:
    """The machine, and the load average when this is called."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} "
        f"{platform.release()}, Python {platform.python_version()}; load at the end {os.getloadavg()[0]:.1f}"
    )


def show(result: Result) -> None:
    """Prints the tables of one part."""
    for one in result.tables:
        caption = f"commit {result.commit}; {result.machine}"
        table = RichTable(title=one.title, title_justify="left", caption=caption, caption_justify="left")
        for column in COLUMNS:
            table.add_column(column)
        for figure in one.figures:
            table.add_row(*_cells(figure))
        Console(file=sys.stdout, width=150).print(table)


def keep(result: Result, directory: Path) -> None:
    """Writes the result to `directory`, one file for each part."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{result.part}.json").write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1))


def kept(part: str, directory: Path) -> Result:
    """What `keep` wrote of a part."""
    return msgspec.json.decode((directory / f"{part}.json").read_bytes(), type=Result)


def write_document(result: Result, parts: Sequence[str], document: Path = DOCUMENT) -> None:
    """Replaces the section of a part between the marks of the document. The others stay; `parts` orders all."""
    text = document.read_text()
    before, rest = text.split(BEGIN)
    inside, after = rest.split(END)
    sections = {one.partition("`")[0]: f"{HEADING}{one}" for one in inside.split(HEADING)[1:]}
    sections[result.part] = rendered(result)
    standing = "".join(sections[part] for part in parts if part in sections)
    document.write_text(f"{before}{BEGIN}\n{standing}{END}{after}")


def rendered(result: Result) -> str:
    """The section of a part in Markdown; the same result gives the same text."""
    parts = [f"{HEADING}{result.part}`\nCommit `{result.commit}`; {result.machine}.\n"]
    for table in result.tables:
        rows = [COLUMNS, ("---",) * len(COLUMNS), *(_cells(figure) for figure in table.figures)]
        lines = ["| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in rows]
        parts.append(f"{table.title}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts) + "\n"


def _cells(figure: Figure) -> tuple[str, ...]:
    met = "" if figure.holds is None else ("yes" if figure.holds else "no")
    return (figure.what, figure.value, figure.peer, figure.ratio, figure.aim, met)


def _escaped(cell: str) -> str:
    return re.sub(r"([|*<_])", r"\\\1", cell)
