"""INV-ID-1 to INV-ID-3 at every crash point of registration and join: each durable step, each message and each
transaction of the leader, cut in every way there is. All of them end with the same id, and none with an id lost.
"""

import itertools

import pytest

from tests.scenarios.crash_ground import AGAIN, FIRST, Cut, run_cuts
from tests.scenarios.crash_words import CUTS, MESSAGES, TRANSACTIONS, WRITES, cut_write


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: f"{cut.life}: {cut.name}")
def test_I1_whatever_is_cut_on_its_way_in_a_node_gets_the_same_id(cut):
    run_cuts(cut)


STEPS = WRITES[FIRST]
FIRST_KILLS = [(number, done) for number in range(len(STEPS)) for done in (False, True)]


@pytest.mark.parametrize(("number", "done"), FIRST_KILLS)
def test_I1_a_node_that_is_killed_at_two_steps_in_turn_gets_the_same_id(number, done):
    """The second process begins where the first one was cut, and may be cut at each step that is left."""
    left = STEPS[number + done :] or WRITES[AGAIN]
    first = Cut("killed", FIRST, cut_write(number + 1, done=done, crash=False))
    for then in range(len(left)):
        for then_done in (False, True):
            run_cuts(first, Cut("killed again", FIRST, cut_write(then + 1, done=then_done, crash=False)))


def test_the_matrix_of_crash_points_is_whole():
    """Each step is there in each life that has it, and each name once."""
    names = [(cut.life, cut.name) for cut in CUTS]
    assert len(set(names)) == len(names)
    for life in (FIRST, AGAIN):
        steps = [*WRITES[life], *(kind.__name__ for kind in (*MESSAGES[life], *TRANSACTIONS[life]))]
        missing = [step for step in steps if not any(life == where and step in name for where, name in names)]
        assert not missing
        assert len([where for where, _ in names if where == life]) > 60
    assert all(len(list(group)) == 1 for _, group in itertools.groupby(sorted(names)))
