"""The pauses between attempts."""

from leasehold.core.backoff import Backoff


def test_pauses_double_from_the_least_to_the_most() -> None:
    pause, took = Backoff(min_ns=10, max_ns=35), list[tuple[int, int]]()
    assert pause.is_over(0)
    for now_ns in (0, 100, 200, 300):
        pause = pause.after_failure(now_ns)
        took.append((pause.pause_ns, pause.until_ns))
    assert took == [(10, 10), (20, 120), (35, 235), (35, 335)]
    assert not pause.is_over(334)
    assert pause.is_over(335)
