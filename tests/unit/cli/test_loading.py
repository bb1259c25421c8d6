"""What each kind of command loads: one that only asks must not wait for what scans, and no process for another's parts.

Each is run to an early end, which comes after its imports: a directory that holds no cluster, an address where nobody
listens, a file in the place of a directory.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ARROW = {"numpy", "pyarrow", "pyarrow.compute", "pyarrow.flight", "pyarrow.parquet"}
SQL = {"duckdb", "sqlglot"}
WIRE = {"asyncio", "grpc"}
SERVES = {"argon2", "leasehold.wire.gossip", "uvloop"}
HEAVY = ARROW | SQL | WIRE | SERVES | {"cryptography", "pandas", "psutil", "pyspark", "rich", "sqlite3"}
LOCALLY = {*WIRE, "psutil", "sqlite3"}  # the vault's faults are handed on to the nodes that it starts


def loaded(words: list[str], directory: Path) -> set[str]:
    """The modules that a command has loaded when it ends."""
    nothing = directory / "nothing"
    (directory / "file").write_text("")
    filled = [word.format(nothing=nothing, file=directory / "file", made=directory / "made") for word in words]
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "leasehold.cli.main", *filled],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")},
    )
    told = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert "Traceback" not in done.stderr, done.stderr
    return {line.rpartition("|")[2].strip() for line in told}


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        ("cluster-key {made}", set()),
        ("ca --help", {"rich"}),
        ("ca issue {nothing} --to {made}", set()),
        ("ca show {nothing}", {"asyncio", "cryptography"}),
        ("service print --node", set()),
        ("doctor --config {nothing}", set()),
        ("--help", {"rich"}),
        ("--version", set()),
        ("status --help", {"rich"}),
        ("node start --help", {"rich"}),
        ("down --dir {nothing}", LOCALLY),
        ("logs 1 --dir {nothing}", LOCALLY),
        ("chaos kill 1 --dir {nothing}", LOCALLY),
        ("up --detach --dir {file}", LOCALLY),
        ("verify --dir {nothing}", LOCALLY),
        ("node wait 1 --dir {nothing}", LOCALLY),
        ("status --dir {nothing}", WIRE),
        ("forget-lost a.b --dir {nothing}", WIRE),
        ("init 127.0.0.1:1", WIRE),
        ("sql TABLES --dir {nothing}", WIRE),
        ("node remove 1 --dir {nothing}", {*WIRE, "sqlite3"}),
        ("node reset --dir {nothing}", {"asyncio", "sqlite3"}),
        ("recover --dir {nothing}", {*WIRE, "sqlite3"}),
        ("backup {made} --dir {nothing}", WIRE),
        ("restore {file} --dir {made}", {*WIRE, "sqlite3"}),
        ("vault show --dir {nothing}", {"sqlite3"}),
        ("coordinator --dir {file}", {*WIRE, *SERVES, "sqlglot", "sqlite3"}),
        ("node start --dir {nothing}", {*WIRE, *ARROW, *SERVES - {"argon2"}, "sqlite3"}),
        ("node start --standalone --dir {nothing}", {"asyncio", *ARROW - {"pyarrow.flight"}, "sqlite3"}),
        ("compact a.b --dir {nothing}", {*WIRE, *ARROW - {"pyarrow.parquet"}}),
    ],
)
def test_a_command_loads_what_it_needs(words: str, heavy: set[str], tmp_path: Path) -> None:
    found = loaded(words.split(" "), tmp_path)
    assert "leasehold.cli.main" not in found, "it is __main__ itself"
    assert "leasehold.cli.options" in found
    assert found & HEAVY == heavy
