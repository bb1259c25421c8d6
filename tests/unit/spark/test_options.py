"""Which past the options of a read ask for."""

from datetime import UTC, datetime

import pytest

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import ScanPlan
from leasehold.errors import BadSettings
from leasehold.spark.options import as_of_options, asked, plan_options
from tests.golden.examples import example

NOON = datetime(2026, 6, 15, 12, 0, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize("as_of", [None, 7, NOON])
def test_options_say_what_the_argument_says(as_of):
    assert asked({"table": "d.t", **as_of_options(as_of)}).as_of == as_of


def test_a_plan_that_there_is_already_is_an_option():
    plan = example(ScanPlan, full=True)
    assert asked({"table": "d.t", **plan_options(plan)}).plan == encode(plan)
    with pytest.raises(BadSettings) as caught:
        asked({"table": "d.t", "plans": ""})
    assert "columns" in caught.value.hint, "nobody is told to set it"


def test_a_revision_and_a_time_are_refused_together():
    with pytest.raises(BadSettings, match="asOfRevision and asOfTimestamp"):
        asked({"table": "d.t", **as_of_options(7), **as_of_options(NOON)})


@pytest.mark.parametrize("revision", ["-1", "1e9", "9" * 5_000])
def test_what_is_no_revision_is_refused(revision: str) -> None:
    with pytest.raises(BadSettings, match="is no whole number"):
        asked({"table": "d.t", "asOfRevision": revision})
