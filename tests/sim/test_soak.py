"""`make soak`: its simulated part runs and says what it did, and what its clients note finds what is wrong."""

import json
import subprocess
import sys

import pyarrow as pa

from tests.soak.ledger import KEYS_PER_APPEND, TableLedger
from tests.soak.simulated import Simulated

FAILING = """
from leasehold.errors import CheckFailed
from leasehold.testing import command

def fail(seed, **_):
    raise CheckFailed("on purpose", hint=f"again with {seed}")

command.simulate = fail
command.main()
"""


def test_a_short_soak_of_the_simulated_part() -> None:
    words = ["--part", "simulated", "--minutes", "0.05", "--output", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak", *words], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)["simulated"]
    assert report["violations"] == 0
    for what in ("seeds", "clusters", "steps", "faults", "statements", "batches_checked"):
        assert report[what], what


def test_a_violation_ends_the_simulated_part_and_is_counted() -> None:
    with Simulated(10, 1.0, politely=False, program=FAILING) as campaign:
        tally = campaign.tally()
        assert campaign.failed()
    assert tally["violations"] == 1
    assert tally["seeds"] == 1


def found(table: TableLedger, keys: list[int], must_be_seen: frozenset[int] = frozenset()) -> str:
    return table.check(pa.chunked_array([pa.array(keys, pa.int64())]), must_be_seen) or "nothing"


def test_the_ledger_notices_what_is_not_there_exactly_once() -> None:
    table = TableLedger()
    first, second, third = (table.begin(rows) for rows in (2, 3, 1))
    one, two, three = ([int(key) for key in table.keys(number)] for number in (first, second, third))
    assert found(table, []) == "nothing"
    assert found(table, one + two) == "nothing", "what is not answered yet may be there or not"
    assert found(table, one + two[:2]) == f"appends were read in part: [({second}, 2)]"
    assert "read twice" in found(table, [*one, one[0]])
    assert "in part" in found(table, [7 * KEYS_PER_APPEND])
    table.committed(first)
    assert found(table, two) == "nothing", "its reader began before that"
    assert "1 committed appends were not read" in found(table, two, table.must_be_seen())
    table.refused(third)
    assert found(table, one + two, table.must_be_seen()) == "nothing"
    assert "had been refused" in found(table, one + three, table.must_be_seen())
