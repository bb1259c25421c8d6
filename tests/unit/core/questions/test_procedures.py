"""SHOW PROCEDURES."""

import msgspec
import pytest

from leasehold.core.ddl import close, finish
from leasehold.core.questions.procedures import RunningStatement, procedures
from leasehold.core.words import keys
from leasehold.core.words.records import Right
from leasehold.limits.units import MILLISECOND_NS
from tests.unit.core.catalog_words import Ground, create_database, create_table, drop_table, hex_128, receipt
from tests.unit.core.questions.shop import CATALOG, granted

RUNNING = RunningStatement(id=hex_128(1), number=None, user="ann", text="CREATE DATABASE d", has_begun=False)


def running(**fields):
    return msgspec.structs.replace(RUNNING, **fields)


def states(shown, catalog):
    return [row[-1] for row in procedures(shown, catalog, None).rows]


@pytest.fixture
def ground():
    made = Ground()
    made.begin(create_database())
    made.begin(create_table())
    return made


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "queued"),
        ({"has_begun": True}, "being planned"),
        ({"has_begun": True, "number": 1}, "committed"),
        ({"waits_for": (1, 3), "waits_ns": 2 * MILLISECOND_NS}, "waiting for n1, n3, at most 2 ms"),
    ],
)
def test_the_state_of_a_statement(ground, fields, state):
    assert states([running(**fields)], ground.catalog) == [state]


def test_what_takes_something_away_says_whether_it_can_be_taken_back(ground):
    procedure = ground.begin(drop_table())
    assert states([running(number=procedure.number)], ground.catalog) == ["before its point of no return"]
    ground.commit(finish(procedure, ground.catalog))
    past = running(id=procedure.statement, number=procedure.number)
    assert states([past], ground.catalog) == ["committed"]


def test_a_drop_that_has_ended_is_told_until_its_files_are_gone(ground):
    procedure = ground.begin(drop_table())
    ground.commit(finish(procedure, ground.catalog))
    ground.commit(close(procedure, ground.catalog, barrier=receipt(ground.catalog.revision), elapsed_ns=1))
    table = next(iter(ground.catalog.dropped))
    ground.put(keys.dropped(table), msgspec.structs.replace(ground.catalog.dropped[table], pending=(2,)))
    shown = procedures([RUNNING], ground.catalog, None)
    assert shown.revision == ground.catalog.revision
    assert [(row[0], row[-1]) for row in shown.rows] == [
        (None, "queued"),
        (procedure.number, "deleting files on 1 nodes: n2"),
    ]
    still_closing = running(id=procedure.statement, number=procedure.number)
    assert len(procedures([still_closing], ground.catalog, None).rows) == 1, "each statement once"


@pytest.mark.parametrize(
    ("on", "right", "seen"),
    [
        (1, Right.ALTER, ["CREATE DATABASE b", None, None]),
        (0, Right.CREATE, ["CREATE DATABASE b", None, None]),
        (0, Right.ALTER, ["CREATE DATABASE b", "DELETE FROM d.t WHERE a = 7", "CREATE DATABASE d"]),
    ],
)
def test_texts_of_others_are_for_those_who_may_alter_the_cluster(on, right, seen):
    catalog = CATALOG.changed([granted(2, on, right)])
    mine = running(user="bob", text="CREATE DATABASE b")
    of_others = [running(text="DELETE FROM d.t WHERE a = 7"), running(user=None, text="CREATE DATABASE d")]
    shown = procedures([mine, *of_others], catalog, catalog.principals[2]).rows
    assert [row[3] for row in shown] == seen
    assert [row[2] for row in shown] == ["bob", "ann", None]
