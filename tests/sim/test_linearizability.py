"""The checker of histories: known ones, random ones that ran, and all small ones by trying every order."""

from itertools import product

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.testing.linearizability import CatalogStep, Operation, UndecidedHistory, Violation, check

T, U = ("d", "t"), ("d", "u")


def made(from_ns, to_ns, revision=None, one=T, **more):
    """A statement that creates a table."""
    steps = (CatalogStep(found={one: None}, left={one: ""}),)
    return Operation(
        what=f"CREATE {one[-1]}", invoked_ns=from_ns, answered_ns=to_ns, steps=steps, revision=revision, **more
    )


def dropped(from_ns, to_ns, revision=None, one=T, **more):
    steps = (CatalogStep(found={one: ""}, left={one: None}),)
    return Operation(
        what=f"DROP {one[-1]}", invoked_ns=from_ns, answered_ns=to_ns, steps=steps, revision=revision, **more
    )


def shown(from_ns, to_ns, revision=None, *there):
    """A read of both tables."""
    found = {one: "" if one in there else None for one in (T, U)}
    return Operation(
        what="SHOW", invoked_ns=from_ns, answered_ns=to_ns, steps=(CatalogStep(found=found),), revision=revision
    )


def rolled_back(from_ns, to_ns, one=T):
    steps = (CatalogStep(found={one: ""}, left={one: None}), CatalogStep(found={one: None}, left={one: ""}))
    return Operation(
        what=f"DROP {one[-1]}, rolled back",
        invoked_ns=from_ns,
        answered_ns=to_ns,
        steps=steps,
        ends=frozenset({0, 2}),
    )


MAYBE = {"ends": frozenset({0, 1})}

LINEARIZABLE = {
    "nothing": [],
    "one after the other": [made(1, 2, 5), shown(3, 4, 5, T), dropped(5, 6, 7), shown(7, 8, 8)],
    "a read beside a statement, from before it": [made(1, 9, 5), shown(3, 4, 4)],
    "a read beside a statement, from after it": [made(1, 9, 5), shown(3, 4, 5, T)],
    "two reads of the same revision": [made(1, 2, 5), shown(3, 4, 5, T), shown(5, 6, 5, T)],
    "an unknown statement that is seen": [made(1, None, **MAYBE), shown(3, 4, 5, T), shown(6, 7, 5, T)],
    "an unknown statement that is never seen": [made(1, None, **MAYBE), shown(3, 4, 5), shown(6, 7, 5)],
    "an unknown statement that is seen late": [made(1, None, **MAYBE), shown(3, 4, 5), shown(6, 7, 6, T)],
    "an answer after all, with its revision": [made(1, None, 6), shown(3, 4, 5), shown(7, 8, 6, T)],
    "a drop that is seen until it is rolled back": [
        made(1, 2, 5),
        rolled_back(3, 9),
        shown(4, 5, 6),
        shown(6, 7, 7, T),
        shown(10, 11, 8, T),
    ],
    "a refusal": [made(1, 5, 5), made(2, 6, one=U), shown(7, 8, 9, T, U)],
}

BROKEN = {
    "a stale read": [made(1, 2, 5), shown(3, 4, 4)],
    "a stale read that names a new revision": [made(1, 2, 5), shown(3, 4, 5)],
    "a lost update": [made(1, 2, 5), made(3, 4, 6)],
    "a table that nobody created": [shown(1, 2, 5, T)],
    "two reads that go back in time": [made(1, 9, 5), shown(2, 3, 5, T), shown(4, 5, 4)],
    "a read of what was rolled back": [made(1, 2, 5), rolled_back(3, 4), shown(5, 6, 6)],
    "a rollback that undoes nothing": [made(1, 2, 5), rolled_back(3, 9), shown(10, 11, 8)],
    "unknown, seen, then unseen": [made(1, None, **MAYBE), shown(3, 4, 5, T), shown(6, 7, 6)],
    "unknown, and seen before it was asked": [shown(1, 2, 5, T), made(3, None, **MAYBE)],
    "an answer that is told to an earlier question": [dropped(5, 6), made(1, 2, 5), shown(3, 4, 6), shown(7, 8, 7)],
    "one object before, the other after": [
        made(1, None, one=T, **MAYBE),
        Operation(
            what="RENAME",
            invoked_ns=3,
            answered_ns=None,
            steps=(CatalogStep(found={T: "", U: None}, left={T: None, U: ""}),),
            **MAYBE,
        ),
        shown(5, 6, 7, T, U),
    ],
}


@pytest.mark.parametrize("name", LINEARIZABLE)
def test_a_linearizable_history_is_accepted(name):
    assert check(LINEARIZABLE[name]) is None


@pytest.mark.parametrize("name", BROKEN)
def test_a_history_that_is_not_linearizable_is_told_with_what_contradicts_it(name):
    found = check(BROKEN[name])
    assert isinstance(found, Violation)
    assert len(found.operations) <= len(BROKEN[name])


def test_a_counter_example_leaves_out_what_does_not_matter():
    before = [made(1, 2, 5), dropped(3, 4, 6), made(5, 6, 7), shown(7, 8, 7, T), shown(9, 10, 8, T)]
    after = [shown(13, 14, 9, T), dropped(15, 16, 10)]
    found = check([*before, shown(11, 12, 8), *after])
    assert str(found) == (
        "no order explains what was seen of d.t\n"
        "  CREATE t: asked 0.000 s, answered 0.000 s, at revision 7, finds d.t missing, leaves d.t there\n"
        "  SHOW: asked 0.000 s, answered 0.000 s, at revision 8, finds d.t missing"
    )
    seen, unseen = shown(6, 7, 5, T), shown(8, 9, 6)
    found = check([made(1, None, **MAYBE), shown(2, 3, 5), shown(4, 5, 5, T), seen, unseen, shown(10, 11, 7)])
    assert isinstance(found, Violation)
    assert [one.what for one in found.operations] == ["CREATE t", "SHOW", "SHOW"]


def test_a_search_that_meets_its_bound_is_undecided():
    unknown = [made(1, None, **MAYBE) for _ in range(5)] + [dropped(1, None, **MAYBE) for _ in range(5)]
    reads = [shown(3 + at, 4 + at, 5 + at, *((T,) if at % 2 else ())) for at in range(8)]
    assert check([*unknown, *reads]) is None
    assert check([*unknown, *reads], states_max=8) == UndecidedHistory(states=8)
    assert isinstance(check([*unknown, *reads, shown(20, 21, 30, U)], states_max=100_000), Violation)


# ------------------------------------------------------------ histories that ran


@st.composite
def ran(draw):
    """A history of operations that took steps one after the other; each is told with an interval around its step."""
    values, history = {T: None, U: None}, []
    for revision in range(1, draw(st.integers(1, 12)) + 1):
        one, at_ns = draw(st.sampled_from((T, U))), 10 * revision
        from_ns, to_ns = at_ns - draw(st.integers(0, 40)), at_ns + draw(st.integers(0, 40))
        kind = draw(st.sampled_from(("read", "write", "unknown", "lost", "rolled back", "without a revision")))
        if kind == "read":
            found = dict(values) if draw(st.booleans()) else {one: values[one]}
            steps = (CatalogStep(found=found),)
            history.append(
                Operation(what="SHOW", invoked_ns=from_ns, answered_ns=to_ns, steps=steps, revision=revision)
            )
            continue
        make = made if values[one] is None else dropped
        if kind == "rolled back":
            if values[one] is not None:
                history.append(rolled_back(from_ns, to_ns, one))
            continue
        if kind == "lost":
            history.append(make(from_ns, None, one=one, **MAYBE))
            continue
        values[one] = "" if values[one] is None else None
        if kind == "unknown":
            history.append(make(from_ns, None, one=one, **MAYBE))
        else:
            history.append(make(from_ns, to_ns, None if kind == "without a revision" else revision, one))
    return history


@given(ran())
def test_what_ran_in_turn_is_linearizable(history):
    assert check(history) is None


# ------------------------------------------------------------ every order


def tried(history):
    """Whether some order of the steps of some of the operations explains all."""
    counts = product(*(sorted(one.ends) for one in history))
    return any(
        ordered([], dict(zip(range(len(history)), each, strict=True)), history, {T: None, U: None}) for each in counts
    )


def ordered(before, left, history, values):
    """Whether the steps that are left fit in any order after those `before`."""
    if not any(left.values()):
        return True
    return any(
        ordered([*before, one], {**left, number: left[number] - 1}, history, values | step.left)
        for number, one in enumerate(history)
        if left[number] and not any(comes_before(one, earlier) for earlier in before)
        for step in [one.steps[before.count(one)]]
        if all(values[each] == value for each, value in step.found.items())
    )


def comes_before(one, other):
    """Whether time or revisions order them so."""
    if None not in (one.revision, other.revision) and (one.revision, one.is_read) < (other.revision, other.is_read):
        return True
    return one.was_over(other)


@st.composite
def some(draw):
    """A small history, linearizable or not. No two statements have the same revision."""
    history, revisions = [], draw(st.permutations(range(1, 5)))
    for _ in range(draw(st.integers(1, 4))):
        from_ns = draw(st.integers(0, 8))
        to_ns = from_ns + draw(st.integers(0, 5))
        kind = draw(st.sampled_from(("read", "write", "unknown", "rolled back", "without a revision", "moved")))
        one, make = draw(st.sampled_from((T, U))), draw(st.sampled_from((made, dropped)))
        if kind == "read":
            there = draw(st.sets(st.sampled_from((T, U))))
            history.append(shown(from_ns, to_ns, draw(st.integers(1, 4)), *there))
        elif kind == "write":
            history.append(make(from_ns, to_ns, revisions[len(history)], one))
        elif kind == "unknown":
            history.append(make(from_ns, None, one=one, **MAYBE))
        elif kind == "rolled back":
            history.append(rolled_back(from_ns, to_ns, one))
        elif kind == "moved":
            steps = (CatalogStep(found={T: "", U: None}, left={T: None, U: ""}),)
            history.append(Operation(what="RENAME", invoked_ns=from_ns, answered_ns=to_ns, steps=steps))
        else:
            history.append(make(from_ns, to_ns, one=one))
    return [msgspec.structs.replace(one, what=f"{number}: {one.what}") for number, one in enumerate(history)]


@settings(deadline=None)
@given(some())
def test_the_search_agrees_with_trying_every_order(history):
    found = check(history)
    assert not isinstance(found, UndecidedHistory)
    assert (found is None) == tried(history)
