"""Until when certificates hold: who is told, and when."""

import pytest

from leasehold.core.questions.certificates import ending, is_ending, shown_end
from leasehold.limits.certificates import CERTIFICATE_ENDING_DAYS

DAY_S = 86_400
NOW_S = 1_893_456_000
SOON_S = NOW_S + CERTIFICATE_ENDING_DAYS * DAY_S


def test_an_end_is_shown_as_a_time_and_none_as_nothing():
    assert shown_end(NOW_S) == "2030-01-01 00:00:00Z"
    assert shown_end(0) is shown_end(None) is None


@pytest.mark.parametrize(
    ("ends_s", "words"),
    [
        (NOW_S - 1, "has ended"),
        (NOW_S, "has ended"),
        (NOW_S + 1, "ends within a day"),
        (NOW_S + DAY_S, "ends in 1 day,"),
        (SOON_S - 1, "ends in 13 days"),
    ],
)
def test_people_are_told_of_a_certificate_that_ends_soon(ends_s, words):
    [told] = ending({"node-1": ends_s, "node-2": SOON_S, "without": 0}, NOW_S)
    assert told.startswith(f"the certificate of node-1 {words}")
    assert "leasehold ca renew" in told


@pytest.mark.parametrize(("ends_s", "is_soon"), [(NOW_S - 1, True), (SOON_S - 1, True), (SOON_S, False), (None, False)])
def test_the_time_that_is_shown_tells_whether_a_certificate_ends_soon(ends_s, is_soon):
    assert is_ending(shown_end(ends_s), NOW_S) is is_soon
