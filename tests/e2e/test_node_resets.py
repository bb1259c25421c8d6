"""`leasehold node reset`, with real directories."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.e2e.cluster import RunningCluster
from tests.e2e.command import Ran, command, leasehold
from tests.e2e.node_directories import standalone

pytestmark = pytest.mark.processes


def answered(directory: Path, answer: str) -> Ran:
    """A reset at a terminal, where somebody types an answer."""
    master, slave = pty.openpty()
    try:
        with subprocess.Popen(
            command("node", "reset", directory=directory),
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            os.write(master, f"{answer}\n".encode())
            out, err = process.communicate(timeout=60)
            question, asks, rest = err.partition("[y/N] ")
            assert asks, question
            return Ran(process.returncode, out, rest)
    finally:
        os.close(master)
        os.close(slave)


def test_a_reset_wants_a_yes(directory: Path) -> None:
    before = sorted(directory.iterdir())
    refused = subprocess.run(
        command("node", "reset", directory=directory),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    Ran(refused.returncode, refused.stdout, refused.stderr).refused(2, "NEEDS_YES", "--yes")
    for answer in ("", "n", "yes please"):
        answered(directory, answer).refused(3, "NOT_CONFIRMED")
    assert sorted(directory.iterdir()) == before
    done = answered(directory, "y")
    assert done.code == 0, done.err
    assert (directory / "before-reset-1" / "vault.db").exists()


def test_a_node_that_was_reset_comes_back_as_another(fresh: RunningCluster) -> None:
    there = fresh.directory / "node-3"
    leasehold("node", "reset", "--yes", directory=there).refused(3, "LOCKED")
    fresh.kill("node-3")
    told = leasehold("node", "reset", "--yes", "-o", "json", directory=there)
    assert told.json()["to"] == str(there / "before-reset-1")
    for words in ("leasehold node remove 3", f"leasehold node start --dir {there}", "delete"):
        assert words in told.err
    leasehold("chaos", "start", "node-3", directory=fresh.directory).refused(3, "DID_NOT_START", "NAME_TAKEN")
    removed = leasehold("node", "remove", "3", directory=fresh.directory)
    assert removed.code == 0, removed.err
    assert leasehold("chaos", "start", "node-3", directory=fresh.directory).code == 0
    assert leasehold("node", "wait", "node-3", "-o", "json", directory=fresh.directory).json()["id"] == 4
    assert (there / "before-reset-1" / "vault.db").exists(), "what was put aside stays until somebody deletes it"


def test_a_reset_that_was_cut_off_keeps_a_node_from_starting(directory: Path) -> None:
    (directory / "vault.db-reset").write_text("before-reset-1")
    started = leasehold("node", "start", "--coordinator", "127.0.0.1:1", directory=directory)
    started.refused(3, "RESET_UNFINISHED", "leasehold node reset")
    standalone(directory).refused(3, "RESET_UNFINISHED")
    assert leasehold("node", "reset", "--yes", directory=directory).code == 0
    leasehold("node", "reset", "--yes", directory=directory).refused(3, "NO_NODE")
