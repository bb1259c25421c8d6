"""Which case a recovery is: every row of its table, and its borders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.recovery.case import Ahead, FromVault, Replay, Snapshot, decide


def case(applied, latest, *, minimum=1, live_keys=1_000, history_known=True, leapt=False):
    return decide(
        applied=applied,
        latest=latest,
        minimum=minimum,
        live_keys=live_keys,
        history_known=history_known,
        leapt=leapt,
    )


@pytest.mark.parametrize(
    ("decided", "expected"),
    [
        pytest.param(case(7, 7), FromVault, id="nothing new"),
        pytest.param(case(0, 0), FromVault, id="nothing at all"),
        pytest.param(case(7, 7, minimum=8), FromVault, id="nothing new, all before it forgotten"),
        pytest.param(case(7, 9, minimum=8), Replay, id="the very next revision is the oldest kept"),
        pytest.param(case(7, 9, minimum=9), Snapshot, id="the very next one is not kept"),
        pytest.param(case(7, 17, live_keys=10), Replay, id="as many revisions as keys"),
        pytest.param(case(7, 18, live_keys=10), Snapshot, id="one revision more than keys"),
        pytest.param(case(7, 18, live_keys=10, leapt=True), Replay, id="one revision more than keys, after a leap"),
        pytest.param(case(7, 9, minimum=9, leapt=True), Snapshot, id="the very next one is not kept, after a leap"),
        pytest.param(case(7, 6), Ahead, id="ahead by one"),
        pytest.param(case(7, 6, history_known=False), Ahead, id="ahead, its history not known"),
        pytest.param(case(7, 7, history_known=False), Snapshot, id="nothing new, its history not known"),
        pytest.param(case(0, 9, history_known=False), Replay, id="an empty directory has no history"),
    ],
)
def test_each_case_at_its_border(decided, expected):
    assert type(decided) is expected


@given(
    applied=st.integers(0, 50),
    latest=st.integers(0, 50),
    minimum=st.integers(1, 50),
    live_keys=st.integers(0, 50),
    history_known=st.booleans(),
    leapt=st.booleans(),
)
def test_only_what_is_whole_is_replayed(applied, latest, minimum, live_keys, history_known, leapt):
    decided = case(applied, latest, minimum=minimum, live_keys=live_keys, history_known=history_known, leapt=leapt)
    if isinstance(decided, Ahead):
        assert latest < applied
    elif isinstance(decided, FromVault):
        assert applied == latest
    elif isinstance(decided, Replay):
        assert minimum <= applied + 1 <= latest
        assert history_known or applied == 0
