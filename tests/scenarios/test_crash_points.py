"""INV-ID-1 to INV-ID-3 at every crash point of registration, join and admission: each durable step, each message and
each request of the leader to its store, cut in every way there is. All of them end with the same id, and none with an
id lost.
"""

import pytest

from tests.scenarios.crash_ground import AGAIN, FIRST, Cut, run_cuts
from tests.scenarios.crash_steps import uncut
from tests.scenarios.crash_words import CUTS, IDENTITY, MESSAGES, READS, STREAM, TRANSACTIONS, WRITES, cut_write


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: f"{cut.life}: {cut.name}")
def test_I1_whatever_is_cut_on_its_way_in_a_node_gets_the_same_id(cut):
    run_cuts(cut)


STEPS = WRITES[FIRST]
OWNED = len(IDENTITY)
"""After so many of them the next process begins with a join."""
FIRST_KILLS = [(number, done) for number in range(len(STEPS)) for done in (False, True)]


@pytest.mark.parametrize(("number", "done"), FIRST_KILLS)
def test_I1_a_node_that_is_killed_at_two_steps_in_turn_gets_the_same_id(number, done):
    """The second process begins where the first one was cut, and may be cut at each step that is left."""
    begun = number + done
    left = STEPS[begun:] if begun < OWNED else WRITES[AGAIN]
    first = Cut("killed", FIRST, cut_write(number + 1, done=done, crash=False))
    for then in range(len(left)):
        for then_done in (False, True):
            run_cuts(first, Cut("killed again", FIRST, cut_write(then + 1, done=then_done, crash=False)))


@pytest.mark.parametrize("life", [FIRST, AGAIN])
def test_the_matrix_of_crash_points_is_whole(life):
    """Whatever a node and its leader do on a way in that nobody cuts is a step of it: one more fails here."""
    seen = uncut(life)
    assert seen.writes == list(WRITES[life])
    assert seen.messages == {kind.__name__ for kind in (*MESSAGES[life], *STREAM)}
    assert seen.transactions == [kind.__name__ for kind in TRANSACTIONS[life]]
    assert seen.reads == set(READS[life])


def test_each_crash_point_has_a_name_of_its_own():
    names = [(cut.life, cut.name) for cut in CUTS]
    assert len(set(names)) == len(names)
