"""SHOW REPAIRS tells what is copied, and what leaves a node."""

import msgspec

from leasehold.core.catalog.plan import put
from leasehold.core.questions.repairs import COLUMNS, repairs
from leasehold.core.words import keys
from tests.unit.core.catalog_words import node
from tests.unit.core.replicas.test_spread import MIB, filled, held


def test_each_node_that_lacks_copies_and_each_that_is_left():
    whole = held(0, MIB, 1, 2)
    two_lack = held(1, 3 * MIB, 1, 2, 3, in_sync=(1,))
    one_lacks = held(2, MIB, 2, 3, in_sync=(2,), retired=(1,))
    empty = msgspec.structs.replace(held(3, 0, 1, 2)[0], in_sync=(1,)), held(4, MIB, 1, 2)[1]
    catalog = filled(whole, two_lack, one_lacks, (empty[0], whole[1]))
    assert catalog.nodes[3].name == "n3"
    shown = repairs(catalog, {3: 1_500_000})
    assert shown.columns == COLUMNS
    assert shown.rows == (
        ("n2", "COPIES", 1, 1, 3 * MIB, None, None),
        ("n3", "COPIES", 2, 2, 4 * MIB, 1_500_000, 3),
        ("n1", "LEAVES", 1, None, None, None, None),
    )
    draining = catalog.changed([put(keys.node(1), node(1, member=True, draining=True))])
    assert repairs(draining, {}).rows[-1] == ("n1", "LEAVES", 4, None, None, None, None)


def test_nothing_is_shown_of_a_cluster_that_is_whole():
    assert repairs(filled(held(0, MIB, 1, 2)), {1: 5}).rows == ()
