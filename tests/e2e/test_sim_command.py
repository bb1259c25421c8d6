"""`leasehold-sim` as a developer runs it: a real process, from its name on the path to its exit code."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Ran

SIM = str(Path(sys.executable).with_name("leasehold-sim"))
BROKEN = """
from leasehold.core.lease.grantor import Grantor
from leasehold.testing import command

sound = Grantor._on_barrier

def forgets_its_floor(self, event, now_ns):
    floor = self._floor
    sound(self, event, now_ns)
    self._floor = floor

Grantor._on_barrier = forgets_its_floor
command.main()
"""
DEFECTIVE = """
from leasehold.coordinator.nodes.leases import Leasing
from leasehold.testing import command

def fails(self, revision, *, give_up_ns=None):
    raise RuntimeError("on purpose")

Leasing.ask = fails
command.main()
"""


def run(*command: str, **environment: str) -> Ran:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"COLUMNS": "120"} | environment,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def sim(*words: str, **environment: str) -> Ran:
    return run(SIM, *words, **environment)


def patched(program: str, *words: str) -> Ran:
    """The same command over production code that `program` breaks first."""
    return run(sys.executable, "-W", "error", "-c", program, *words)


# ---------------------------------------------------------------- what it says of a seed


def test_a_seed_is_told_as_json_and_gives_the_same_digest_under_any_hash_seed() -> None:
    words = ("run", "--seed", "7", "--seconds", "5", "--output", "json")
    told: list[dict[str, Any]] = [sim(*words, PYTHONHASHSEED=number).json() for number in ("1", "2")]
    first, second = told
    assert first["seeds"] == first["clusters"] == 1
    assert first["simulated_seconds"] > 5
    assert first["steps"] > 100
    assert first["statements"] > 4
    assert sum(first["faults"].values()) > 0
    assert first["violations"] == 0
    assert len(first["digest"]) == 64
    del first["simulated_seconds_per_second"], second["simulated_seconds_per_second"]  # of this machine, now
    assert first == second
    assert sim("run", "--seed", "8", "--seconds", "5", "-o", "json").json()["digest"] != first["digest"]


def test_a_seed_is_told_as_a_table() -> None:
    told = sim("run", "--seed", "7", "--seconds", "5")
    assert told.code == 0, told.err
    for word in ("simulated seconds", "batches checked", "violations", "digest", "fault: "):
        assert word in told.out
    assert told.err == ""


def test_the_trace_that_is_reproduced_is_the_one_that_was_run() -> None:
    words = ("--seed", "4", "--world", "leases", "--steps", "200")
    told = sim("run", *words, "--output", "json").json()
    assert (told["lease_worlds"], told["clusters"]) == (1, 0)
    again = sim("reproduce", *words)
    assert again.code == 0
    assert again.err == "every invariant held\n"
    assert hashlib.sha256(again.out.replace("\n", "").encode()).hexdigest() == told["digest"]


def test_the_end_of_a_cluster_s_trace_is_reproduced() -> None:
    again = sim("reproduce", "--seed", "7", "--seconds", "5")
    assert again.code == 0, again.err
    lines = again.out.splitlines()
    assert any(line.endswith(" healed") for line in lines)
    assert any(" is leased by " in line for line in lines)
    steps = [int(line.split()[0]) for line in lines]
    assert steps == sorted(steps)


# ---------------------------------------------------------------- campaigns


def test_a_campaign_runs_clusters_and_lease_worlds() -> None:
    told = sim("campaign", "--seeds", "5", "--seconds", "5", "--output", "json").json()
    assert (told["seeds"], told["clusters"], told["lease_worlds"]) == (5, 1, 4)
    assert told["steps"] > 4 * 2_000
    assert told["batches_checked"] > 100
    assert told["violations"] == 0


def test_a_campaign_ends_when_its_time_is_up_and_begins_where_it_is_told_to() -> None:
    told = sim("campaign", "--minutes", "0.01", "--first", "1001", "-o", "json").json()
    assert told["seeds"] >= 1
    assert told["violations"] == 0


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run",), "--seed"),
        (("run", "--seed", "-1"), "--seed"),
        (("reproduce", "--seed", "1", "--world", "nowhere"), "--world"),
        (("campaign",), "--seeds"),
        (("nothing",), "nothing"),
    ],
    ids=" ".join,
)
def test_what_nobody_can_run_is_a_usage_error(words: tuple[str, ...], said: str) -> None:
    told = sim(*words)
    assert told.code == 2
    assert said in told.err
    assert told.out == ""
    assert "Traceback" not in told.err


@pytest.mark.parametrize(
    ("words", "repeat"),
    [
        (("run", "--seed", "2", "--seconds", "9"), "leasehold-sim reproduce --seed 2 --seconds 9"),
        (
            ("run", "--seed", "1", "--world", "leases", "--steps", "500"),
            "leasehold-sim reproduce --world leases --seed 1 --steps 500",
        ),
    ],
    ids=["cluster", "leases"],
)
def test_a_violation_names_the_invariant_and_what_to_type_to_see_it_again(words: tuple[str, ...], repeat: str) -> None:
    told = patched(BROKEN, *words)
    assert told.code == 1
    assert told.out == ""
    first, *trace, last = told.err.splitlines()
    seed = words[words.index("--seed") + 1]
    assert first.startswith(f"INV-LEASE-2 violated at seed {seed}, step ")
    assert trace
    assert last == f"repeat it with: {repeat}"
    command, *again = repeat.split()
    assert command == Path(SIM).name
    assert patched(BROKEN, *again).err == told.err
    assert sim(*again).code == 0, "the sound code does not do it"


def test_a_violation_ends_a_campaign_and_is_counted() -> None:
    told = patched(BROKEN, "campaign", "--seeds", "3", "--output", "json")
    assert told.code == 1
    report = json.loads(told.out)
    assert (report["seeds"], report["violations"]) == (1, 1)
    assert told.err.startswith("INV-LEASE-2 violated at seed 1, step ")
    assert told.err.endswith("repeat it with: leasehold-sim reproduce --world leases --seed 1\n")


def test_a_defect_that_no_invariant_names_ends_a_run_like_one() -> None:
    told = patched(DEFECTIVE, "run", "--seed", "3")
    assert told.code == 1
    assert "Traceback" not in told.err
    assert told.err.startswith("the run violated at seed 3, step ")
    assert "RuntimeError: on purpose" in told.err.splitlines()[0]
    assert told.err.endswith("repeat it with: leasehold-sim reproduce --seed 3\n")
