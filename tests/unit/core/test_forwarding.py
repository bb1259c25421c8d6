"""Which peers a write waits for."""

import pytest

from leasehold.core.forwarding import Judgement, Silent, judge, patience_ns
from leasehold.limits import FORWARD_PATIENCE_MAX_NS, FORWARD_PATIENCE_MIN_NS, FORWARD_SLOWER


@pytest.mark.parametrize(
    ("admitted", "others", "min_in_sync", "judgement"),
    [
        (False, 1, 1, Judgement.LEAVE_OUT),
        (True, 1, 1, Judgement.PROBE),
        (False, 1, 2, Judgement.WAIT),
        (True, 1, 2, Judgement.WAIT),
        (False, 2, 2, Judgement.LEAVE_OUT),
        (True, 2, 2, Judgement.PROBE),
    ],
)
def test_a_late_peer_is_waited_for_only_if_it_is_needed_or_answers(admitted, others, min_in_sync, judgement):
    assert judge(admitted=admitted, others=others, min_in_sync=min_in_sync, expired=False) is judgement
    assert judge(admitted=admitted, others=others, min_in_sync=min_in_sync, expired=True) is Judgement.LEAVE_OUT


def test_patience_grows_with_what_the_node_itself_took():
    assert patience_ns(0) == FORWARD_PATIENCE_MIN_NS
    assert patience_ns(FORWARD_PATIENCE_MIN_NS) == FORWARD_SLOWER * FORWARD_PATIENCE_MIN_NS
    assert patience_ns(FORWARD_PATIENCE_MAX_NS) == FORWARD_PATIENCE_MAX_NS


def test_a_peer_gets_nothing_from_its_silence_to_its_answer():
    silent = Silent()
    silent.left_out(3)
    assert (3 in silent, 1 in silent) == (True, False)
    silent.answered(3)
    silent.answered(1)
    assert 3 not in silent
