"""For how long changes of a table can be read."""

import pytest

from leasehold.core.words.change_retention import parse_retention, retention_ns
from leasehold.errors import Refused
from leasehold.limits.units import SECOND_NS


@pytest.mark.parametrize("text", ["9m", "8d", "soon", ""])
def test_it_has_bounds(text):
    with pytest.raises(Refused) as caught:
        parse_retention(text)
    assert caught.value.code == "BAD_PROPERTY"
    assert "10m to 7d" in caught.value.hint
    assert retention_ns({"change_retention": text}) == 600 * SECOND_NS


@pytest.mark.parametrize(("properties", "expected_s"), [({}, 600), ({"change_retention": "2 days"}, 172_800)])
def test_it_is_a_property_of_the_table(properties, expected_s):
    assert retention_ns(properties) == expected_s * SECOND_NS
