"""A swap as a transaction of ZooKeeper, for each belief about the nodes, and what its answer means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, RolledBackError, RuntimeInconsistency
from kazoo.protocol.states import ZnodeStat

from leasehold.metastorage.log.store import MISSING, Swap
from leasehold.metastorage.zookeeper.layout import Layout, group_of
from leasehold.metastorage.zookeeper.transaction import (
    Check,
    Create,
    Delete,
    Operation,
    Put,
    Rejected,
    key_version,
    node_version,
    outcome_of,
    parents_of,
    steps_of,
    uncompared,
)

LAYOUT = Layout("c")
HEAD, TERM, FREE = (f"/c/log/{name}/{name}" for name in ("head", "term", "free"))
ENTRY = f"/c/entry/{7:013}/{7_001:016}"
NONE = frozenset[str]()


def stat(version: int) -> ZnodeStat:
    return ZnodeStat(0, 0, 0, 0, version, 0, 0, 0, 0, 0, 0)


def operations(swap: Swap, missing: frozenset[str] = NONE) -> list[Operation]:
    return [step.operation for step in steps_of(swap, LAYOUT, missing)]


def test_an_append_checks_the_term_sets_the_head_and_creates_the_entry() -> None:
    swap = Swap(
        unchanged={"log/term": 4, "log/head": 9, f"entry/{7_001:016}": MISSING},
        puts={"log/head": b"h", f"entry/{7_001:016}": b"e"},
    )
    assert operations(swap) == [Check(TERM, 3), Put(HEAD, b"h", 8), Create(ENTRY, b"e")]
    group = ENTRY.rpartition("/")[0]
    assert operations(swap, frozenset({group}))[:2] == [Check(TERM, 3), Create(group, b"")]
    assert uncompared(swap, LAYOUT) == []
    assert parents_of(swap, LAYOUT) == ["/c", "/c/entry", group, "/c/log", "/c/log/head"]


@pytest.mark.parametrize(
    ("swap", "missing", "wanted"),
    [
        (Swap(unchanged={}, puts={"log/free": b"1"}), NONE, [Put(FREE, b"1", None)]),
        (Swap(unchanged={}, puts={"log/free": b"1"}), {FREE}, [Create(FREE, b"1")]),
        (Swap(unchanged={}, deletes=("log/free",)), NONE, [Delete(FREE)]),
        (Swap(unchanged={}, deletes=("log/free",)), {FREE}, [Create(FREE, b""), Delete(FREE)]),
        (Swap(unchanged={"log/free": MISSING}), NONE, [Create(FREE, b""), Delete(FREE)]),
        (Swap(unchanged={"log/free": MISSING}, deletes=("log/free",)), NONE, [Create(FREE, b""), Delete(FREE)]),
        (Swap(unchanged={"log/free": 1}), NONE, [Check(FREE, 0)]),
    ],
)
def test_what_is_not_compared_follows_the_belief(swap: Swap, missing: set[str], wanted: list[Operation]) -> None:
    assert operations(swap, frozenset(missing)) == wanted


def test_versions_go_round_and_leave_out_the_one_that_means_any() -> None:
    for number in (0, 1, 2**31 - 1, -(2**31), -2):
        version = key_version(stat(number))
        assert version > MISSING
        assert node_version(version) == number
    swap = Swap(unchanged={"log/head": key_version(stat(-2))}, puts={"log/head": b"h"})
    assert operations(swap) == [Put(HEAD, b"h", -2), Put(HEAD, b"h", None)]
    steps = steps_of(swap, LAYOUT, NONE)
    assert outcome_of(steps, [stat(-1), stat(0)]) == {"log/head": 1}


def test_the_answer_tells_the_new_versions() -> None:
    steps = steps_of(
        Swap(unchanged={"log/head": 9}, puts={"log/head": b"h", "log/free": b"1"}), LAYOUT, frozenset({FREE})
    )
    assert outcome_of(steps, [stat(9), FREE]) == {"log/head": 10, "log/free": 1}


@pytest.mark.parametrize(
    ("swap", "missing", "error", "is_decided"),
    [
        (Swap(unchanged={"log/head": 9}, puts={"log/head": b"h"}), NONE, BadVersionError, True),
        (Swap(unchanged={"log/head": 9}, puts={"log/head": b"h"}), NONE, NoNodeError, True),
        (Swap(unchanged={"log/head": 9}), NONE, NoNodeError, True),
        (Swap(unchanged={"log/head": MISSING}, puts={"log/head": b"h"}), NONE, NodeExistsError, True),
        (Swap(unchanged={"log/head": MISSING}, puts={"log/head": b"h"}), NONE, NoNodeError, False),
        (Swap(unchanged={"log/head": MISSING}), NONE, NodeExistsError, True),
        (Swap(unchanged={"log/head": MISSING}), NONE, NoNodeError, False),
        (Swap(unchanged={}, puts={"log/head": b"h"}), NONE, NoNodeError, False),
        (Swap(unchanged={}, puts={"log/head": b"h"}), {HEAD}, NodeExistsError, False),
        (Swap(unchanged={}, deletes=("log/head",)), NONE, NoNodeError, False),
        (Swap(unchanged={}, deletes=("log/head",)), {HEAD}, NodeExistsError, False),
        (Swap(unchanged={"log/head": MISSING}, puts={"log/head": b"h"}), {"/c"}, NodeExistsError, False),
    ],
)
def test_a_compare_that_does_not_hold_decides_and_a_wrong_belief_does_not(
    swap: Swap, missing: set[str], error: type[Exception], is_decided: bool
) -> None:
    steps = steps_of(swap, LAYOUT, frozenset(missing))
    results = [error(), *(RuntimeInconsistency() for _ in steps[1:])]
    outcome = outcome_of(steps, results)
    assert isinstance(outcome, Rejected)
    assert outcome.is_decided == is_decided
    if len(steps) == 1:
        return
    last = outcome_of(steps, [*(RolledBackError() for _ in steps[1:]), error()])
    assert isinstance(last, Rejected)
    assert last.step == steps[-1]


@given(st.lists(st.text(alphabet="019-az", min_size=1, max_size=20), min_size=2, max_size=2))
def test_groups_are_in_the_order_of_their_names(names: list[str]) -> None:
    first, second = sorted(names)
    assert group_of(first) <= group_of(second)
