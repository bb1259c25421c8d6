"""docs/five-machines.md as somebody does it who reads it for the first time, each machine a host of its own."""

import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.documents import ROOT
from tests.e2e.pages import shows
from tests.netns.named import NamedHosts

PAGE: Final = ROOT / "docs/five-machines.md"
MACHINES: Final = ("coordinator", "node-1", "node-2", "node-3", "spark")
ALIKE: Final = {"node-1": ("node-1", "node-2", "node-3")}
"""Machines on which the page says to do the same."""
BLOCK: Final = re.compile(r"^```(console|toml|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT: Final = re.compile(rf"^({'|'.join(MACHINES)})\$ ", re.MULTILINE)
TITLE: Final = re.compile(rf"# (\S+), on ({'|'.join(MACHINES)})")
SCP: Final = """#!/bin/sh
# Copies between the folders of the machines: none of them has a server for it.
for last; do :; done
set -- "$@"
host=${last%%:*}
words=
while [ $# -gt 1 ]; do case $1 in -*) ;; *) words="$words $1" ;; esac; shift; done
exec cp -pr $words "$MACHINES/$host/"
"""


class Shell:
    """A terminal on one machine, at which somebody types one command after the other."""

    def __init__(self, hosts: NamedHosts, name: str, variables: dict[str, str]) -> None:
        self._name = name
        self._errors = hosts.folder(name) / "terminal"
        with self._errors.open("wb") as errors:
            self._bash = hosts.popen(name, "bash", "-m", variables=variables, stderr=errors)

    def type(self, command: str) -> list[str]:
        """The lines that a command shows, which has to succeed."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f'{command}\necho "<$?>"\n')
        self._bash.stdin.flush()
        lines: list[str] = []
        while (line := self._bash.stdout.readline()) and not line.startswith("<"):
            lines.append(line)
        assert line == "<0>\n", f"{self._name}$ {command}\n{''.join(lines)}{self._errors.read_text()[-4000:]}"
        return lines

    def close(self) -> None:
        self._bash.kill()
        self._bash.communicate()


@pytest.fixture
def machines(namespaces_available: None, tmp_path: Path) -> Iterator[NamedHosts]:
    with NamedHosts(tmp_path, *MACHINES) as hosts:
        yield hosts


@pytest.mark.timeout(600)
def test_what_the_page_says_works(machines: NamedHosts, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "scp").write_text(SCP)
    (programs / "scp").chmod(stat.S_IRWXU)
    path = f"{programs}:{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    shells = {name: Shell(machines, name, {"PATH": path, "MACHINES": str(tmp_path)}) for name in MACHINES}
    try:
        for kind, text in BLOCK.findall(PAGE.read_text()):
            if kind == "console":
                follow(shells, text)
            else:
                write(machines, text)
    finally:
        for shell in shells.values():
            shell.close()


def write(machines: NamedHosts, text: str) -> None:
    """A file, whose first line says its name and its machine."""
    title = TITLE.match(text)
    assert title is not None, text
    name, machine = title.groups()
    for one in ALIKE.get(machine, (machine,)):
        (machines.folder(one) / name).write_text(text.replace(machine, one))


def follow(shells: dict[str, Shell], text: str) -> None:
    _, *parts = PROMPT.split(text)
    for machine, part in zip(parts[::2], parts[1::2], strict=True):
        command, *shown = part.splitlines()
        for one in ALIKE.get(machine, (machine,)):
            lines = shells[one].type(command.replace(machine, one))
            for line in shown:
                assert any(shows(line, found) for found in lines), (command, line, lines)
