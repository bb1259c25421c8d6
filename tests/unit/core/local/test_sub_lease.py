"""The reader's side of a local open: when it renews, and when it is over."""

import pytest

from leasehold.core.local.sub_lease import SubLease, sent_and_answer
from leasehold.limits.local import LOCAL_END_AHEAD_NS, LOCAL_RENEW_NS
from leasehold.wire.steps import run

S = 10**9


def test_a_sub_lease_counts_from_before_its_request_was_sent() -> None:
    now = [5]

    async def call() -> str:
        now[0] += 7
        return "yes"

    assert run(sent_and_answer(call, lambda: now[0])) == (5, "yes")


def test_it_is_over_ahead_of_its_deadline() -> None:
    one = SubLease(sent_ns=10, remaining_ns=3 * S)
    assert one.deadline_ns == 10 + 3 * S
    assert one.over_ns == one.deadline_ns - LOCAL_END_AHEAD_NS


def test_an_answer_that_is_late_shortens_nothing() -> None:
    one = SubLease(sent_ns=0, remaining_ns=3 * S)
    one.renewed(sent_ns=S, remaining_ns=3 * S)
    one.renewed(sent_ns=S // 2, remaining_ns=3 * S)
    assert one.deadline_ns == 4 * S


@pytest.mark.parametrize(
    ("remaining_ns", "due_ns"), [(3 * S, LOCAL_RENEW_NS), (S, (S - LOCAL_END_AHEAD_NS) // 2), (0, 0)]
)
def test_it_is_renewed_each_second_and_while_half_is_left(remaining_ns: int, due_ns: int) -> None:
    one = SubLease(sent_ns=0, remaining_ns=remaining_ns)
    assert one.due_ns == due_ns
    one.asked(5 * S)
    assert one.due_ns >= 5 * S, "whatever becomes of a renewal, the next one is not due at once"
