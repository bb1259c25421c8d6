"""The run of a statement: each transition of its table, with the exact effects."""

import ast
from pathlib import Path
from typing import get_args

import pytest

from leasehold.core.ddl import run as module
from leasehold.core.ddl.events import RunEvent
from leasehold.core.ddl.states import LEGAL, RunState
from tests.unit.core.ddl.lives import everything, in_state
from tests.unit.core.ddl.transitions import CASES, EVENTS


def table():
    """The rows of the table of transitions."""
    head = ast.get_docstring(ast.parse(Path(module.__file__).read_text()))
    assert head is not None
    lines = [line.strip("|").split("|") for line in head.splitlines() if line.startswith("| ")]
    return [tuple(cell.strip() for cell in line) for line in lines[2:]]


def test_each_row_of_the_table_has_a_test():
    assert list(CASES) == table()


@pytest.mark.parametrize("row", table(), ids=" | ".join)
def test_a_transition(row):
    state, event, following = row
    life, happened, expected = CASES[row]()
    assert life.run.state == state
    assert type(happened).__name__ == event.split("`")[1]
    effects = life.step(happened)
    assert effects == expected(life) if callable(expected) else effects == expected
    assert life.run.state == following.partition(":")[0]


def test_the_events_that_a_state_waits_for_are_those_of_the_table():
    told = {state: set() for state in RunState}
    for state, event, _ in table():
        told[RunState(state)].add(event.split("`")[1])
    assert {state: {one.__name__ for one in events} for state, events in LEGAL.items()} == told


@pytest.mark.parametrize("state", RunState)
def test_any_other_event_raises_and_changes_nothing(state):
    life = in_state(state)
    before = everything(life.run)
    for kind in get_args(RunEvent):
        if kind not in LEGAL[state]:
            with pytest.raises(AssertionError, match=kind.__name__):
                life.step(EVENTS[kind](life))
            assert everything(life.run) == before
