import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.words.durations import parse_duration, render_duration
from leasehold.errors import Refused
from leasehold.limits.statements import DURATION_CHARACTERS_MAX, DURATION_NS_MAX
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [
        ("30d", 30 * 86_400 * SECOND_NS),
        ("2s", 2 * SECOND_NS),
        ("500ms", 500 * MILLISECOND_NS),
        ("1h30m", 5_400 * SECOND_NS),
        ("90m", 5_400 * SECOND_NS),
        ("5m5ms", 300 * SECOND_NS + 5 * MILLISECOND_NS),
        ("1d2h3m4s5ms6us7ns", 93_784_005_006_007),
        ("0s", 0),
        ("30 days", 30 * 86_400 * SECOND_NS),
        ("30 DAYS", 30 * 86_400 * SECOND_NS),
        ("1 day", 86_400 * SECOND_NS),
        ("2 weeks", 14 * 86_400 * SECOND_NS),
        ("2w", 14 * 86_400 * SECOND_NS),
        ("1 hour 30 minutes", 5_400 * SECOND_NS),
        ("1hour 30min", 5_400 * SECOND_NS),
        ("90 Sec", 90 * SECOND_NS),
        ("500 milliseconds", 500 * MILLISECOND_NS),
        ("INTERVAL 30 DAYS", 30 * 86_400 * SECOND_NS),
        ("interval 1 day 2h", 26 * 3_600 * SECOND_NS),
        (" 1s ", SECOND_NS),
        ("007s", 7 * SECOND_NS),
        (f"{DURATION_NS_MAX}ns", DURATION_NS_MAX),
    ],
)
def test_a_duration_is_read_in_nanoseconds(text: str, expected_ns: int) -> None:
    assert parse_duration(text) == expected_ns


@pytest.mark.parametrize(
    "text",
    [
        "",
        "30",
        "d",
        "1.5h",
        "-1s",
        "+1s",
        "1s\n",
        "1S",
        "1M",
        "1D",
        "1 fortnight",
        "1 day 1 day",
        "1 minute 1 hour",
        "1 day, 2 hours",
        "days",
        "INTERVAL",
        "INTERVAL 30",
        "INTERVAL '30' DAYS",
        "INTERVALS 30 DAYS",
        " ",
        "30m1h",
        "1s1s",
        "\u0661s",
        f"{DURATION_NS_MAX + 1}ns",
        "106752d",
        "9" * DURATION_CHARACTERS_MAX + "s",
    ],
)
def test_anything_else_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_duration(text)
    assert caught.value.code == "BAD_DURATION"
    assert caught.value.hint
    assert len(caught.value.text) < 200


@pytest.mark.parametrize(
    ("duration_ns", "expected"),
    [(0, "0s"), (1, "1ns"), (5_400 * SECOND_NS, "1h30m"), (86_400 * SECOND_NS, "1d"), (3_600_000_001_000, "1h1us")],
)
def test_the_spelling_is_canonical(duration_ns: int, expected: str) -> None:
    assert render_duration(duration_ns) == expected


@pytest.mark.parametrize("duration_ns", [-1, DURATION_NS_MAX + 1])
def test_a_duration_out_of_bounds_is_never_rendered(duration_ns: int) -> None:
    with pytest.raises(AssertionError):
        render_duration(duration_ns)


@given(st.integers(min_value=0, max_value=DURATION_NS_MAX))
def test_what_is_rendered_is_read_back(duration_ns: int) -> None:
    assert parse_duration(render_duration(duration_ns)) == duration_ns


@given(st.text(alphabet="0123456789dhmsun .-", max_size=70))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(Refused):
        duration_ns = parse_duration(text)
        assert parse_duration(render_duration(duration_ns)) == duration_ns


@pytest.mark.parametrize("text", ["1 month", "2 MONTHS", "1 year", "INTERVAL 1 QUARTER", "1 year 2 days"])
def test_a_unit_without_a_fixed_length_is_refused_as_such(text: str) -> None:
    with pytest.raises(Refused, match="no fixed length") as caught:
        parse_duration(text)
    assert (caught.value.code, caught.value.hint) == ("BAD_DURATION", "write days: 30 days, 365 days")
