"""A catalog that leaps equals one restored from what the store holds there."""

import pytest

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.ids import LineageHash, Revision
from leasehold.testing.filled import filled
from tests.unit.core.catalog.test_catalog_indices import table

OTHER = LineageHash(b"o" * 32)


def test_a_leap_applies_a_difference_without_the_chain() -> None:
    before = Catalog.restored(Revision(3), LineageHash(b"h" * 32), [table(1, None), table(2, 5)])
    after = before.leaping(Revision(9), OTHER, [Change(keys.table(2), None), table(3, 7)])
    assert filled(after, {}) == Catalog.restored(Revision(9), OTHER, [table(1, None), table(3, 7)])
    assert set(before.tables) == {1, 2}


@pytest.mark.parametrize("number", [2, 3])
def test_a_leap_does_not_lead_back(number: int) -> None:
    before = Catalog.restored(Revision(3), LineageHash(b"h" * 32), [table(1, None)])
    with pytest.raises(AssertionError):
        before.leaping(Revision(number), OTHER, [])
