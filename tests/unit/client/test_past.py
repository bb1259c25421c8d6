"""Which past a read asks for."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from leasehold.client.past import read_time, revision_and_time_us
from leasehold.errors import BadSettings

NOON = datetime(2026, 6, 15, 12, 0, 0, 1, tzinfo=UTC)
NOON_US = 1_781_524_800_000_001


def test_a_revision_a_time_or_the_present():
    assert revision_and_time_us(None) == (None, None)
    assert revision_and_time_us(7) == (7, None)
    assert revision_and_time_us(NOON) == (None, NOON_US)
    assert revision_and_time_us(NOON.astimezone(timezone(timedelta(hours=-3)))) == (None, NOON_US)
    assert revision_and_time_us(datetime.min.replace(tzinfo=UTC))[1] < 0


@pytest.mark.parametrize(
    ("as_of", "words"),
    [
        (NOON.replace(tzinfo=None), "has no time zone"),
        ("2026-06-15", "neither a revision nor a datetime"),
        (True, "neither a revision nor a datetime"),
        (1.5, "neither a revision nor a datetime"),
    ],
)
def test_what_is_no_past_is_refused_in_one_line_with_an_example(as_of, words):
    with pytest.raises(BadSettings) as caught:
        revision_and_time_us(as_of)
    assert words in caught.value.text
    assert "2026-06-15T12:30:00Z" in caught.value.hint
    assert "\n" not in caught.value.text + caught.value.hint


def test_texts_of_times():
    assert read_time("2026-06-15T12:00:00.000001Z", "it") == NOON
    assert read_time("2026-06-15 14:00:00.000001+02:00", "it") == NOON
    for text, words in (("yesterday", "no time"), ("", "no time"), ("2026-06-15T12:00:00", "no time zone")):
        with pytest.raises(BadSettings, match=words) as caught:
            read_time(text, "asOfTimestamp")
        assert caught.value.text.startswith("asOfTimestamp")
        assert "2026-06-15T12:30:00Z" in caught.value.hint
