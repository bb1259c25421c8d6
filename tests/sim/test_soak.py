"""`make soak`: its simulated part runs and says what it did, and what its clients note finds what is wrong."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from leasehold.client.coordinators import Coordinators
from leasehold.core.words.messages import Rows, ScanPlan
from leasehold.ids import Revision
from tests.soak.copies import under_way_if_expendable, wrong_copies
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
    for what in ("seeds", "clusters", "steps", "faults", "statements"):  # a slow machine has time for one seed
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


class Told(Coordinators):
    """A cluster of four nodes with a table of one bucket and one segment, which answers what it is told to."""

    def __init__(
        self, in_sync: str = "a, b", copies: int = 2, holders: tuple[int, ...] = (1, 2), **states: str
    ) -> None:
        self._holders = holders
        states = dict.fromkeys("abcd", "ACTIVE") | states
        self._answers: dict[str, list[dict[str, str | int | None]]] = {
            "SHOW NODES": [
                {"id": number, "name": name, "state": state, "drain": None if name != "d" else "2 buckets left"}
                for number, (name, state) in enumerate(states.items(), 1)
            ],
            "SHOW TABLES": [{"database": "d", "table": "t", "replication": 2}],
            "SHOW BUCKETS OF d.t": [{"replicas": "a, b", "in_sync": in_sync, "copies": copies}],
            "SHOW REBALANCE": [{"state": "PLANNED"}],
            "SHOW REPAIRS": [{"work": "COPIES"}],
        }

    def sql(self, text: str) -> Rows:  # type: ignore[override]
        rows = self._answers[text]
        return Rows(columns=tuple(rows[0]), rows=tuple(tuple(row.values()) for row in rows), revision=Revision(9))

    def plan(self, name: str) -> ScanPlan:  # type: ignore[override]
        return SimpleNamespace(segments=[SimpleNamespace(holders=self._holders)])  # type: ignore[return-value]


def test_a_machine_may_be_lost_while_another_that_serves_holds_what_it_holds() -> None:
    assert under_way_if_expendable(Told(a="DOWN"), "a") == ["drain", "repair"]
    assert under_way_if_expendable(Told(a="DOWN", b="DOWN"), "a") is None, "two at once hold all copies"
    assert under_way_if_expendable(Told(a="ACTIVE", holders=(1,)), "a") is None, "its lease has not ended yet"
    assert under_way_if_expendable(Told(a="DOWN", holders=(1,)), "b") is None, "only the one that is down holds it"


@pytest.mark.parametrize(
    ("told", "files", "wrong"),
    [
        (Told(), 2, ""),
        (Told(in_sync="a"), 2, "'in_sync': 'a'"),
        (Told(copies=1), 2, "'copies': 1"),
        (Told(copies=3), 2, "'copies': 3"),
        (Told(b="DOWN"), 2, "'replicas': 'a, b'"),
        (Told(), 3, "3 files of segments, 2 are wanted"),
        (Told(), 1, "1 files of segments, 2 are wanted"),
    ],
)
def test_a_copy_too_few_or_too_many_is_noticed(told: Told, files: int, wrong: str, tmp_path: Path) -> None:
    for number in range(files):
        folder = tmp_path / f"node-{number}" / "segments" / "1"
        folder.mkdir(parents=True)
        (folder / "0.parquet").touch()
    assert wrong in "; ".join(wrong_copies(told, tmp_path))
    assert bool(wrong) == bool(wrong_copies(told, tmp_path))
