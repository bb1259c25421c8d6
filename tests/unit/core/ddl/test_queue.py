"""The queues per object: first come first served on each object, and nobody waits for ever."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.ddl.queue import ObjectQueues
from leasehold.core.words.records import Claim
from tests.few import examples

S, X = Claim.SHARED, Claim.EXCLUSIVE


def conflict(one, other):
    return any(X in (one[name], other[name]) for name in one.keys() & other.keys())


def may_run(places, claims):
    """Naive: whoever conflicts with nobody who came earlier and is still here."""
    return {place for place in places if not any(conflict(claims[place], claims[one]) for one in places if one < place)}


class Model:
    """Drives the queues and checks every answer against `may_run`."""

    def __init__(self):
        self.queues = ObjectQueues()
        self.claims = {}
        self.here = set()
        self.running = set()

    def enter(self, claims):
        place, admitted = self.queues.enter(claims)
        assert place not in self.claims, "a number is given once"
        assert place > max(self.claims, default=0)
        self.claims[place] = dict(claims)
        self.here.add(place)
        self.admit(admitted)
        return place

    def leave(self, place):
        self.here.remove(place)
        self.running.discard(place)
        self.admit(self.queues.leave(place))

    def admit(self, admitted):
        assert len(set(admitted)) == len(admitted)
        assert not self.running & set(admitted), "nobody is told twice"
        self.running |= set(admitted)
        assert self.running == may_run(self.here, self.claims)
        for one in self.running:
            assert not any(conflict(self.claims[one], self.claims[other]) for other in self.running - {one})


CLAIMS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from([S, X]), max_size=3)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(st.one_of(CLAIMS, st.integers(0, 30)), max_size=60))
def test_it_does_what_the_naive_model_does(actions):
    model = Model()
    for action in actions:
        if isinstance(action, dict):
            model.enter(action)
        elif model.here:
            model.leave(sorted(model.here)[action % len(model.here)])
    left = 0
    while model.here:  # no deadlock: there is always somebody who runs, and leaving is all it takes
        assert model.running
        model.leave(min(model.running))
        left += 1
    assert left <= len(model.claims)


@settings(max_examples=examples(200), deadline=None)
@given(CLAIMS, st.lists(CLAIMS, max_size=20), st.lists(CLAIMS, max_size=20))
def test_nobody_starves(mine, before, after):
    """Whoever comes later, I run once those before me are gone."""
    model = Model()
    earlier = [model.enter(claims) for claims in before]
    me = model.enter(mine)
    for claims in after:
        model.enter(claims)
    for place in earlier:
        model.leave(place)
    assert me in model.running


def test_statements_on_one_object_run_in_the_order_of_their_coming():
    queues = ObjectQueues()
    assert queues.enter({"t": X}) == (1, (1,))
    assert queues.enter({"t": X}) == (2, ())
    assert queues.enter({"t": X}) == (3, ())
    assert queues.leave(1) == (2,)
    assert queues.leave(2) == (3,)
    assert queues.leave(3) == ()


def test_a_shared_claim_does_not_overtake_an_exclusive_one_that_waits():
    queues = ObjectQueues()
    assert queues.enter({"db": S, "t": X}) == (1, (1,))
    assert queues.enter({"db": X}) == (2, ())
    assert queues.enter({"db": S, "u": X}) == (3, ())
    assert queues.leave(1) == (2,)
    assert queues.leave(2) == (3,)


def test_a_place_may_be_given_back_before_its_turn():
    queues = ObjectQueues()
    queues.enter({"t": X})
    queues.enter({"t": X})
    queues.enter({"t": X})
    assert queues.leave(2) == ()
    assert queues.leave(1) == (3,)


def test_what_claims_nothing_runs_at_once():
    queues = ObjectQueues()
    queues.enter({"t": X})
    assert queues.enter({}) == (2, (2,))


def test_a_place_that_was_never_taken_can_not_be_left():
    queues = ObjectQueues()
    queues.enter({"t": X})
    with pytest.raises(KeyError):
        queues.leave(7)
    queues.leave(1)
    with pytest.raises(KeyError):
        queues.leave(1)
    assert queues.enter({"t": X}) == (2, (2,)), "and nothing was changed by it"
