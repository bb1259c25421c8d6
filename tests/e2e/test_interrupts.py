"""Ctrl-C at any moment of a command: 130 and silence, or the whole answer; never a traceback."""

import json
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.wire.clock import sleep_ns
from tests.e2e.cluster import RunningCluster

TIMES, TIMES_LONG = 8, 150
LONGEST_NS = 1_500_000_000
"""A command takes about so long from its start to its end."""

ENTRIES = {
    "leasehold": "from leasehold.cli.entry import main",
    "leasehold-sim": "from leasehold.testing.entry import main",
}
STARTED = """
import os, sys
{entry}
sys.argv[0] = "program"
from leasehold.cli import entry
before = entry.end_quietly_on_interrupt
def and_tell():
    before()
    os.write(2, b"started\\n")
entry.end_quietly_on_interrupt = and_tell
from leasehold.testing import entry as simulator
simulator.end_quietly_on_interrupt = and_tell
main()
"""
"""Tells when its handler stands: what the interpreter does before is not ours."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster.start(tmp_path_factory.mktemp("interrupts") / "cluster", nodes=1) as cluster:
        yield cluster


def interrupted(entry: str, words: list[str], after_ns: int) -> tuple[int, str, str]:
    """A command that gets SIGINT so long after it has begun: its exit code, stdout and stderr."""
    program = STARTED.format(entry=ENTRIES[entry])
    with subprocess.Popen(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "started\n"
        sleep_ns(after_ns)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.processes
@pytest.mark.parametrize("times", [TIMES, pytest.param(TIMES_LONG, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_a_question_is_answered_whole_or_not_at_all(running: RunningCluster, times: int) -> None:
    where = ["--dir", str(running.directory)]
    instants = random.Random(1)
    for _ in range(times):
        words = ["status", "-o", "json", *where]
        code, out, err = interrupted("leasehold", words, instants.randrange(LONGEST_NS))
        assert (code, out) == (130, "") or (code in {0, 130} and out.endswith("}\n")), (code, out, err)
        assert not err


@pytest.mark.processes
@pytest.mark.parametrize("times", [TIMES, pytest.param(TIMES_LONG, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_a_statement_says_its_outcome_or_that_it_is_unknown_or_has_not_begun(
    running: RunningCluster, times: int
) -> None:
    instants = random.Random(2)
    with running.connect() as cluster:
        for number in range(times):
            name = f"interrupted_{times}_{number}"
            words = ["sql", f"CREATE DATABASE {name}", "-o", "json", "--dir", str(running.directory)]
            code, out, err = interrupted("leasehold", words, instants.randrange(LONGEST_NS))
            answer = cluster.sql("SHOW DATABASES")
            there = any(row[0] == name for row in answer.rows)
            match code:
                case 130:
                    assert (out, err, there) == ("", "", False)
                case 4:
                    assert re.search(r"error \[UNKNOWN\].*\n.*--id", err), err
                case _:
                    assert (code, err, there) == (0, "", True)
                    assert out.endswith("}\n")


@pytest.mark.processes
def test_the_simulator_ends_quietly(tmp_path: Path) -> None:
    instants = random.Random(3)
    for _ in range(5):
        code, out, err = interrupted("leasehold-sim", ["campaign", "--minutes", "5"], instants.randrange(LONGEST_NS))
        assert code == 130, (code, out, err)
        assert "Traceback" not in err
        assert "Exception ignored" not in err


@pytest.mark.parametrize("entry", ["leasehold.cli.entry", "leasehold.testing.entry"])
def test_the_handler_stands_before_anything_large_is_imported(entry: str) -> None:
    program = f"import sys; before = set(sys.modules); import {entry}; print(*(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    ours = {one for one in loaded if one.startswith("leasehold")}
    assert ours <= {"leasehold", "leasehold.cli", "leasehold.testing", "leasehold.cli.entry", "leasehold.testing.entry"}
    assert all(one.partition(".")[0] in {*sys.stdlib_module_names, "leasehold"} for one in loaded)


@pytest.mark.parametrize("module", ["leasehold.cli.main", "leasehold.cli.entry"])
def test_every_way_in_is_quiet(module: str) -> None:
    """`python -m` too: typer is only loaded when the handler stands."""
    program = """
import runpy, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""
    run = 'runpy.run_module("leasehold.cli.main", run_name="__main__")'
    if module == "leasehold.cli.entry":
        run = "from leasehold.cli.entry import main; main()"
    ended = subprocess.run([sys.executable, "-c", program + run], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


STATEMENT_INTERRUPTED = """
import signal, sys
from leasehold.cli.entry import begin
begin(sys.argv[1:])
from leasehold.cli import main, sql
from leasehold.cli.receipt import show_receipt

def told_and_interrupted(*told):
    shown = show_receipt(*told)
    signal.raise_signal(signal.SIGINT)
    return shown

def left_and_interrupted(code):
    signal.raise_signal(signal.SIGINT)
    left(code)

left = main._leave
main._leave = left_and_interrupted
sql.show_receipt = told_and_interrupted
main.main()
"""


@pytest.mark.processes
def test_an_outcome_that_was_shown_is_the_exit_code_too(running: RunningCluster) -> None:
    """Ctrl-C while the connection is closed, and just before the process ends."""
    words = ["sql", "CREATE DATABASE shown", "-o", "json", "--dir", str(running.directory)]
    command = [sys.executable, "-c", STATEMENT_INTERRUPTED, *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["outcome"] == "COMMITTED"


BACKUP_INTERRUPTED = """
import os, signal, sys
from contextlib import contextmanager
from pathlib import Path
from leasehold.cli import backup_file
from leasehold.cli.entry import end_quietly_on_interrupt
from leasehold.cli.output import Output

end_quietly_on_interrupt()
where, file = sys.argv[1:]

class Cluster:
    def backup(self, out, on_progress):
        out.write(b"hashes")

@contextmanager
def connected(*_, **__):
    if where == "prompt":
        signal.raise_signal(signal.SIGINT)
    yield Cluster()

backup_file.connected = connected
os.fsync = lambda _: signal.raise_signal(signal.SIGINT)
backup_file.write_backup(Path("c"), None, Path(file), force=False, timeout=None, output=Output.TABLE)
"""


@pytest.mark.parametrize("where", ["prompt", "sync"])
def test_a_backup_leaves_no_file_wherever_it_is_interrupted(where: str, tmp_path: Path) -> None:
    """While a password is typed, and while the file is synced to the disk."""
    words = [sys.executable, "-c", BACKUP_INTERRUPTED, where, str(tmp_path / "backup")]
    assert subprocess.run(words, check=False, timeout=60).returncode == 130
    assert not list(tmp_path.iterdir())
