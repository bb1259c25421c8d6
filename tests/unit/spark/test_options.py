"""Which past the options of a read ask for."""

from datetime import UTC, datetime

import pytest

from leasehold.errors import BadSettings
from leasehold.spark.options import as_of_options, asked

NOON = datetime(2026, 6, 15, 12, 0, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize("as_of", [None, 7, NOON])
def test_options_say_what_the_argument_says(as_of):
    assert asked({"table": "d.t", **as_of_options(as_of)}).as_of == as_of


def test_a_revision_and_a_time_are_refused_together():
    with pytest.raises(BadSettings, match="asOfRevision and asOfTimestamp"):
        asked({"table": "d.t", **as_of_options(7), **as_of_options(NOON)})
