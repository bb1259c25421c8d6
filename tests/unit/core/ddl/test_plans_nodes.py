"""ALTER NODE: what it writes, and what it refuses."""

import msgspec
import pytest

from leasehold.core.catalog.plan import Context, put
from leasehold.core.ddl.plans import plan
from leasehold.core.words import keys
from leasehold.core.words.statements import AlterNode
from leasehold.errors import NotFound, Refused
from tests.unit.core.catalog_words import create_database, create_table, node
from tests.unit.core.ddl_words import ground

TABLE = 2


def base(replication=2, **nodes):
    made = ground(create_database(), create_table(replication=replication))
    for number, fields in nodes.items():
        made.put(keys.node(int(number[1:])), node(int(number[1:]), **fields))
    return made


def asked(made, name="n3", *, drains=True, serving=(1, 2, 3, 4), **context):
    return plan(AlterNode(node=name, drains=drains), made.catalog, Context(serving=serving, **context))


def refused(made, name="n3", **context):
    with pytest.raises((Refused, NotFound)) as caught:
        asked(made, name, **context)
    return caught.value


def test_a_node_is_marked_and_the_statement_says_how_to_wait():
    made = base()
    for name in ("n3", "3"):
        planned = asked(made, name)
        assert planned is not None
        assert planned.changes == (put(keys.node(3), msgspec.structs.replace(made.catalog.nodes[3], draining=True)),)
        assert "`leasehold node drain n3 --wait`" in planned.notes[0]
    assert asked(made, drains=False) is None


def test_a_node_that_drains_already_and_one_that_may_have_buckets_again():
    made = base(n3={"draining": True})
    assert asked(made) is None
    planned = asked(made, drains=False)
    assert planned is not None
    assert (planned.changes, planned.notes) == ((put(keys.node(3), node(3)),), ())


def test_what_is_no_node_is_not_drained():
    assert refused(base(), "n9").code == "NOT_FOUND"
    gone = refused(base(n3={"removed": True}))
    assert (gone.code, "n3 (id 3)" in gone.text) == ("REMOVED", True)


def test_the_last_node_for_buckets_is_not_drained():
    """Those that drain, are being removed, or have never joined, are not left."""
    made = base(1, n1={"draining": True}, n4={"incarnation": 0})
    assert refused(made, leaving=frozenset({2})).code == "LAST_NODE"
    assert asked(made, leaving=frozenset()) is not None


def test_no_node_is_drained_whose_tables_could_not_keep_their_replication():
    error = refused(base(3))
    assert (error.code, error.text) == (
        "TOO_FEW_NODES",
        "2 nodes would be left for buckets, and 1 table needs more replicas: db.t",
    )
    error = refused(base(3, n1={"draining": True}), serving=(1, 3))
    assert error.text == "1 node would be left for buckets (n2 is down), and 1 table needs more replicas: db.t"
    assert refused(base(2, n1={"draining": True})).code == "TOO_FEW_NODES"
    assert refused(base(2), leaving=frozenset({1})).code == "TOO_FEW_NODES"
    assert asked(base(3), drains=False) is None


def test_a_drain_says_which_nodes_that_it_counts_on_are_down():
    planned = asked(base(1), serving=(3,))
    assert planned is not None
    assert planned.notes[1] == "of the nodes that take its buckets n1, n2 are down: the drain may have to wait"
    planned = asked(base(1))
    assert planned is not None
    assert len(planned.notes) == 1


def test_a_node_that_is_away_is_drained_unless_it_alone_holds_rows():
    error = refused(base(), alone={TABLE: 3})
    assert (error.code, error.text) == ("ONLY_HOLDER", "n3 is away, and it alone holds 3 segments of 1 table: db.t")
    assert asked(base(), alone={}) is not None
