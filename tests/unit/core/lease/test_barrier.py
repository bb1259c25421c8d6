"""The barrier: who is settled, how, when, and what that comes to."""

import pytest

from leasehold.core.lease.barrier import Barrier, Fail, KeepWaiting, Pending, Proceed
from leasehold.core.words.records import BarrierReceipt, SettledHow, SettledNode


def barrier(*bounds, give_up_ns=None):
    """Nodes 1, 2 .. with these frozen bounds, incarnation 10 x node; began at 1000, revision 7."""
    pending = [Pending(node=node, incarnation=10 * node, bound_ns=bound) for node, bound in enumerate(bounds, 1)]
    return Barrier(revision=7, term=2, sequence=5, pending=pending, give_up_ns=give_up_ns, now_ns=1_000)


def receipt(*settled):
    lines = tuple(SettledNode(node=node, how=how, after_ns=after_ns) for node, how, after_ns in settled)
    return BarrierReceipt(revision=7, term=2, sequence=5, settled=lines)


def test_nobody_to_wait_for():
    assert barrier().judge(1_000) == Proceed(receipt=receipt())


def test_pending_waits_until_the_last_bound():
    one = barrier(3_000, 5_000)
    assert one.judge(1_000) == KeepWaiting(pending=(1, 2), until_ns=5_000)
    assert one.next_deadline_ns() == 3_000
    assert one.judge(2_999) == KeepWaiting(pending=(1, 2), until_ns=5_000)


def test_pending_and_its_bound_passes_is_fenced_at_its_bound():
    one = barrier(3_000, 5_000)
    assert one.judge(3_000) == KeepWaiting(pending=(2,), until_ns=5_000)
    assert one.next_deadline_ns() == 5_000
    # However late the clock is read, the receipt says when it was settled.
    settled = (1, SettledHow.FENCED, 2_000), (2, SettledHow.FENCED, 4_000)
    assert one.judge(9_000) == Proceed(receipt=receipt(*settled))


def test_a_bound_that_had_passed_before_took_no_time():
    assert barrier(10).judge(1_000) == Proceed(receipt=receipt((1, SettledHow.FENCED, 0)))


def test_bounds_settle_in_their_order():
    settled = (3, SettledHow.FENCED, 1_000), (1, SettledHow.FENCED, 2_000), (2, SettledHow.FENCED, 2_000)
    assert barrier(3_000, 3_000, 2_000).judge(3_000) == Proceed(receipt=receipt(*settled))


@pytest.mark.parametrize("applied", [7, 8])
def test_pending_and_a_report_is_applied(applied):
    one = barrier(3_000, 5_000)
    one.reported(2, 20, applied, 1_200)
    assert one.judge(1_300) == KeepWaiting(pending=(1,), until_ns=3_000)
    one.reported(1, 10, applied, 1_500)
    settled = (2, SettledHow.APPLIED, 200), (1, SettledHow.APPLIED, 500)
    assert one.judge(1_500) == Proceed(receipt=receipt(*settled))


@pytest.mark.parametrize(
    ("node", "incarnation", "applied"),
    [(1, 10, 6), (1, 9, 7), (1, 11, 7), (2, 10, 7)],
    ids=["behind", "older incarnation", "newer incarnation", "unknown node"],
)
def test_reports_that_settle_nobody(node, incarnation, applied):
    one = barrier(3_000)
    one.reported(node, incarnation, applied, 1_200)
    assert one.judge(1_200) == KeepWaiting(pending=(1,), until_ns=3_000)


@pytest.mark.parametrize("how", [SettledHow.FENCED, SettledHow.SURRENDERED, SettledHow.REMOVED])
def test_pending_and_a_closed_incarnation(how):
    one = barrier(3_000)
    one.closed(1, 9, how, 1_100)
    one.closed(2, 10, how, 1_100)
    assert one.judge(1_100) == KeepWaiting(pending=(1,), until_ns=3_000)
    one.closed(1, 10, how, 1_400)
    assert one.judge(1_400) == Proceed(receipt=receipt((1, how, 400)))


def test_settled_is_settled_for_good_and_once():
    one = barrier(3_000, 5_000)
    one.reported(1, 10, 7, 1_100)
    one.closed(1, 10, SettledHow.SURRENDERED, 1_200)
    one.reported(1, 10, 9, 1_300)
    assert one.judge(4_000) == KeepWaiting(pending=(2,), until_ns=5_000)
    one.closed(2, 20, SettledHow.REMOVED, 4_000)
    settled = (1, SettledHow.APPLIED, 100), (2, SettledHow.REMOVED, 3_000)
    assert one.judge(4_000) == Proceed(receipt=receipt(*settled))


def test_the_statements_own_timeout_comes_first():
    one = barrier(2_000, 5_000, give_up_ns=3_000)
    assert one.next_deadline_ns() == 2_000
    assert one.judge(2_999) == KeepWaiting(pending=(2,), until_ns=5_000)
    assert one.next_deadline_ns() == 3_000
    assert one.judge(3_000) == Fail(pending=(2,))


def test_all_settled_at_the_timeout_proceeds():
    settled = (1, SettledHow.FENCED, 2_000)
    assert barrier(3_000, give_up_ns=3_000).judge(3_000) == Proceed(receipt=receipt(settled))


def test_a_barrier_that_waits_only_to_be_judged_is_due_at_once():
    one = barrier(3_000, give_up_ns=4_000)
    one.reported(1, 10, 7, 1_100)
    assert one.waits() == KeepWaiting(pending=(), until_ns=1_000)
    assert one.next_deadline_ns() == 1_000


def test_looking_settles_nobody():
    one = barrier(3_000)
    assert one.waits() == KeepWaiting(pending=(1,), until_ns=3_000)
    one.reported(1, 10, 7, 3_500)
    assert one.judge(3_500) == Proceed(receipt=receipt((1, SettledHow.APPLIED, 2_500)))
