"""The command line while the coordinator is away: one deadline and one exit code for all, and what a terminal shows."""

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from tests.e2e.cluster import RunningCluster
from tests.e2e.command import command, leasehold

pytestmark = pytest.mark.processes

COMMANDS = {
    "select": ["sql", "SELECT * FROM d.t"],
    "insert": ["sql", "INSERT INTO d.t VALUES (1)"],
    "definition": ["sql", "CREATE DATABASE e"],
    "question": ["sql", "SHOW TABLES"],
    "compact": ["compact", "d.t"],
    "forget-lost": ["forget-lost", "d.t"],
    "verify": ["verify"],
    "remove": ["node", "remove", "node-2"],
}


def on_a_terminal(*words: str, directory: Path) -> tuple[int, str]:
    """The exit code, and all that the terminal was sent on stderr."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        command(*words, directory=directory), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=its
    )
    os.close(its)
    shown = b""
    try:
        while piece := os.read(ours, 65_536):
            shown += piece
    except OSError:  # how Linux tells that nobody has the other side any more
        pass
    finally:
        os.close(ours)
    return process.wait(), shown.decode()


def test_every_command_ends_by_its_deadline_and_goes_on_once_it_is_back(fresh: RunningCluster) -> None:
    with fresh.connect() as cluster:
        cluster.sql("CREATE DATABASE d")
        cluster.sql("CREATE TABLE d.t (a INT)")
        cluster.sql("INSERT INTO d.t VALUES (1)")
        table = cluster.table("d.t")
        fresh.kill("coordinator")
        for words in COMMANDS.values():
            ended = leasehold(*words, "--timeout", "500ms", directory=fresh.directory)
            ended.refused(5, "error [UNREACHABLE]: no answer within 0.5 s", "nothing listens there")
        code, shown = on_a_terminal(*COMMANDS["select"], "--timeout", "1s", directory=fresh.directory)
        assert code == 5
        assert re.search(r"retrying for at most 1 s: 127\.0\.0\.1:\d+: nothing listens there", shown), shown
        fresh.restart("coordinator")
        assert table.scan().read_all().to_pylist() == [{"a": 1}], "nothing was added"
        assert leasehold("sql", "SHOW DATABASES", "-o", "json", directory=fresh.directory).json()["rows"] == [["d", ""]]
