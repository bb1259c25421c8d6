"""Which nodes have been away for so long that their buckets get other replicas."""

from leasehold.core.replicas.absence import Absences

LONG = 10


def test_a_node_is_away_once_it_has_held_no_lease_for_so_long():
    absences = Absences()
    absences.look((1, 2, 3), {1, 2}, 100)
    absences.look((1, 2, 3), {1}, 105)
    assert absences.away(LONG, 109) == set()
    assert absences.away(LONG, 110) == {3}, "one that never held a lease is counted from the first look"
    assert absences.away(LONG, 114) == {3}, "one that was seen with a lease is counted from the look that misses it"
    assert absences.away(LONG, 115) == {2, 3}
    absences.look((1, 2, 3), {1, 2}, 115)
    assert absences.away(LONG, 115) == {3}


def test_a_process_that_starts_again_and_again_without_a_lease_does_not_count():
    absences = Absences()
    for now_ns in range(100, 120):
        absences.look((1,), (), now_ns)
    assert absences.away(LONG, 120) == {1}


def test_nobody_is_away_where_nodes_are_never_replaced():
    absences = Absences()
    absences.look((1,), (), 0)
    assert absences.away(0, 10**18) == set()


def test_a_removed_node_is_forgotten():
    absences = Absences()
    absences.look((1, 2), (), 0)
    absences.look((1,), (), 50)
    assert absences.away(LONG, 50) == {1}
