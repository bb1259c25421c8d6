"""A page of the documents as a reader goes through it, block after block.

In a console block `$ ` begins a command, and the lines behind it are shown by it; one that ends with `&` runs on once
it has shown them. A python block is a program. In a sql block each statement ends its line with a semicolon, and the
lines behind it that begin with `--` are its answer: rows as `a | b`, or the error. `..` stands for anything.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Self, get_args

from leasehold.client.cluster import Cluster, connect
from leasehold.core.words.messages import Receipt, Rows
from leasehold.core.words.records import Outcome
from leasehold.core.words.statements import AnyStatement, Definition
from leasehold.errors import LeaseholdError
from leasehold.sql.parse import parse
from tests.documents import ROOT
from tests.e2e.template import template

BLOCK: Final = re.compile(r"^```(console|python|sql)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLE: Final = re.compile(r"(.*?);\n((?:--[^\n]*\n)*)", re.DOTALL)


def blocks(page: str) -> list[tuple[str, str]]:
    """The language and the text of each block that runs."""
    return BLOCK.findall((ROOT / page).read_text())


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block with what it shows."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, shown


def examples(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each statement of a sql block with its answer."""
    for found in EXAMPLE.finditer(text):
        yield found[1], [line.removeprefix("--").strip() for line in found[2].splitlines()]


def shows(shown: str, line: str) -> bool:
    """Whether a line is what the page shows of it."""
    return re.fullmatch(re.escape(shown.rstrip()).replace(r"\.\.", ".*"), line.rstrip()) is not None


class Reader:
    """Somebody who does what a page says, in a directory of his own; a context manager that leaves nothing running.

    Processes of `leasehold` start from nothing, or are forked by the template where that is said.
    """

    def __init__(self, page: str, directory: Path, *, forked: bool) -> None:
        self._page = page
        self._directory = directory
        programs = [*([template().programs] if forked else []), Path(sys.executable).parent]
        self._environment = os.environ | {"PATH": ":".join([*map(str, programs), os.environ["PATH"]])}
        self._behind: list[subprocess.Popen[str]] = []
        where = re.search(r"--dir (\S+)", "\n".join(text for _, text in blocks(page)))
        self._cluster = "leasehold-data" if where is None else where[1]
        self.statements: list[AnyStatement] = []
        """Those that were run here."""
        self.kinds: list[tuple[str, str]] = []
        """What EXPLAIN said of each that changed something: additive or destructive."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(
            ["leasehold", "down", "--dir", self._cluster],
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            check=False,
        )
        for one in self._behind:
            one.kill()
            one.communicate()

    def read(self) -> None:
        """Runs every block."""
        for language, text in blocks(self._page):
            match language:
                case "python":
                    self._run([sys.executable, "-c", text], [])
                case "console":
                    for command, shown in commands(text):
                        self._type(command, shown)
                case _:
                    self._ask(text)
        for one in self._behind:
            one.communicate(timeout=60)

    def _type(self, command: str, shown: list[str]) -> None:
        if command.startswith("make "):
            return  # those run this very test
        if command.startswith("export ") and ";" not in command:
            self._environment |= dict(word.split("=", 1) for word in shlex.split(command)[1:])
        elif command.endswith(" &"):
            self._start(command.removesuffix(" &"), shown)
        else:
            self._run(["sh", "-c", command], shown)

    def _run(self, command: list[str], shown: list[str]) -> None:
        done = subprocess.run(
            command,
            cwd=self._directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout[-4000:]}"
        lines = iter(done.stdout.splitlines())
        for one in shown:
            assert any(shows(one, line) for line in lines), f"{command[-1]}\nshows no {one!r}:\n{done.stdout[-4000:]}"

    def _start(self, command: str, shown: list[str]) -> None:
        process = subprocess.Popen(
            ["sh", "-c", f"exec {command}"],
            cwd=self._directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._behind.append(process)
        assert process.stdout is not None
        for one in shown:
            assert any(shows(one, line) for line in process.stdout), f"{command}\nshows no {one!r}"

    # ------------------------------------------------------------ statements

    def _ask(self, text: str) -> None:
        user, password = (self._environment.get(f"LEASEHOLD_{name}") for name in ("USER", "PASSWORD"))
        with connect(self._directory / self._cluster, user=user, password=password) as cluster:
            for statement, shown in examples(text):
                refused = bool(shown) and shown[0].startswith("error [")
                if not refused:
                    self.statements.append(parse(statement))
                    self._explain(cluster, statement)
                answer = _answer(cluster, statement)
                assert _fits(answer, shown, refused=refused), f"{self._page}: {statement}\n" + "\n".join(answer)

    def _explain(self, cluster: Cluster, statement: str) -> None:
        if not isinstance(self.statements[-1], get_args(Definition)):
            return
        planned = cluster.sql(f"EXPLAIN {statement}")
        assert isinstance(planned, Rows)
        steps = {row[0] for row in planned.rows}
        if "nothing" not in steps:
            self.kinds.append((statement, "destructive" if "hide" in steps else "additive"))


def _answer(cluster: Cluster, statement: str) -> list[str]:
    try:
        answer = cluster.sql(statement)
    except LeaseholdError as error:
        return [f"error [{error.code}]: {error.text}", f"hint: {error.hint}"]
    if isinstance(answer, Receipt):
        assert answer.outcome is Outcome.COMMITTED
        return []
    return [" | ".join("" if cell is None else str(cell) for cell in row) for row in (answer.columns, *answer.rows)]


def _fits(answer: Sequence[str], shown: Sequence[str], *, refused: bool) -> bool:
    """An error may be shown without its hint, rows not at all, else each of them."""
    if refused or not shown:
        is_error = bool(answer) and answer[0].startswith("error [")
        return is_error is refused and all(map(shows, shown, answer))
    if len(answer) != len(shown):
        return False
    cells = zip(_cells(shown), _cells(answer), strict=True)
    return all(len(one) == len(other) and all(map(shows, one, other)) for one, other in cells)


def _cells(lines: Sequence[str]) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in lines]
