"""Questions that a catalog answers by itself, and which of them take long."""

import msgspec

from leasehold.core.catalog.shelf import SEGMENTS, Shelf
from leasehold.core.ddl.settings import settings_rows
from leasehold.core.questions.catalog import answer, is_large
from leasehold.core.words.records import LargestLeaseRecord, Right
from leasehold.core.words.statements import (
    Describe,
    DescribeDatabase,
    ShowBuckets,
    ShowCluster,
    ShowDatabases,
    ShowGrants,
    ShowPrincipals,
    ShowProperties,
    ShowRebalance,
    ShowRevoked,
    ShowTables,
    ShowTokens,
    ShowViews,
)
from leasehold.limits.statements import INLINE_EFFORT_MAX
from tests.unit.core.catalog_words import CLUSTER, SETTINGS
from tests.unit.core.questions.shop import CATALOG, ORDERS, granted, principal, table

SET = {"settings": SETTINGS, "cluster": CLUSTER, "largest_lease": LargestLeaseRecord(duration_ns=3_000)}


def test_each_question_gets_its_own_answer():
    catalog = msgspec.structs.replace(CATALOG, **SET)
    first_columns = {
        ShowDatabases(): "database",
        ShowTables(): "database",
        ShowViews(): "database",
        ShowProperties(table=ORDERS): "key",
        ShowBuckets(table=ORDERS): "bucket",
        Describe(table=ORDERS): "column",
        DescribeDatabase(name="shop"): "key",
        ShowPrincipals(roles=False): "user",
        ShowPrincipals(roles=True): "role",
        ShowTokens(): "token",
        ShowGrants(): "principal",
        ShowCluster(): "setting",
        ShowRebalance(): "table",
        ShowRevoked(): "serial",
    }
    for question, column in first_columns.items():
        made = answer(question, catalog, lambda _: 0)
        assert (made.columns[0], made.revision) == (column, 7)
    assert answer(ShowCluster(), catalog, lambda _: 0).rows == settings_rows(catalog)


def test_what_lists_a_large_catalog_takes_long_and_what_looks_at_one_object_does_not():
    many = range(100, 101 + INLINE_EFFORT_MAX)
    large = CATALOG.changed(table(number, f"t{number}") for number in many)
    large = large.changed(granted(1, number, Right.SELECT) for number in many)
    for question in (ShowTables(), ShowTables(database="shop"), ShowViews(), ShowGrants()):
        assert is_large(question, large)
        assert not is_large(question, CATALOG)
    assert not is_large(Describe(table=ORDERS), large)
    assert not is_large(ShowTables(database="empty"), large)


def test_segments_are_counted_and_none_of_them_read():
    some = dict.fromkeys(map(str, range(INLINE_EFFORT_MAX // 2 + 1)), b"")
    one, two = ({(10, bucket): some for bucket in range(count)} for count in (1, 2))
    assert not is_large(ShowBuckets(table=ORDERS), msgspec.structs.replace(CATALOG, segments=Shelf.held(SEGMENTS, one)))
    assert is_large(ShowBuckets(table=ORDERS), msgspec.structs.replace(CATALOG, segments=Shelf.held(SEGMENTS, two)))
    assert is_large(ShowRebalance(), msgspec.structs.replace(CATALOG, segments=Shelf.held(SEGMENTS, two)))
    assert not is_large(ShowRebalance(), CATALOG)
    assert not is_large(ShowTables(), msgspec.structs.replace(CATALOG, segments=Shelf.held(SEGMENTS, one)))
    assert is_large(ShowTables(), msgspec.structs.replace(CATALOG, segments=Shelf.held(SEGMENTS, two)))


def test_rights_and_roles_are_counted_one_by_one():
    """Few objects and few users may have many."""
    half = range(1000, 1001 + INLINE_EFFORT_MAX // 2)
    large = CATALOG.changed(granted(number, target, Right.SELECT) for number in half for target in (1, 10))
    assert is_large(ShowGrants(), large)
    large = CATALOG.changed(principal(number, f"u{number}", roles=(3,)) for number in half)
    for roles in (False, True):
        assert is_large(ShowPrincipals(roles=roles), large)
        assert not is_large(ShowPrincipals(roles=roles), CATALOG)
