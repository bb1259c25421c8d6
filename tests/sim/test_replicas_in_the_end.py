"""The check of the replicas at the end of a run."""

import msgspec
import pytest

from leasehold.testing.invariants.replicas import unsettled
from tests.sim.histories import Told
from tests.sim.record_words import bucket, node, segment, table

LOST = 2
"""A machine that is lost, which stays a replica of a table that wants more of them than there are."""


@pytest.mark.parametrize(("holders", "is_settled"), [((1, 3), True), ((1, LOST, 3), True), ((1,), False)])
def test_all_replicas_but_those_of_lost_machines_hold_each_segment(holders, is_settled):
    told = Told(())
    nodes = [msgspec.structs.replace(node(number), member=number != LOST) for number in (1, 2, 3)]
    wide = msgspec.structs.replace(table(), replication=3)
    held = segment(holders=holders)
    told.commit(*nodes, wide, bucket(1, LOST, 3), held)
    told.disks["n1"].files.add((held.table, held.bucket, held.id))
    left = unsettled(told.oracle)
    assert (left is None) == is_settled, left
