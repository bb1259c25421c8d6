"""SHOW REBALANCE tells what moves, then what would."""

from leasehold.core.catalog.plan import put
from leasehold.core.questions.rebalance import COLUMNS, rebalance
from leasehold.core.words import keys
from leasehold.core.words.records import DatabaseRecord, UseState
from tests.unit.core.replicas.test_spread import MIB, filled, held


def test_moves_under_way_come_first_and_count_as_if_they_were_over():
    pairs = [held(number, MIB, 1, 2, rows=5) for number in range(4)]
    under_way = held(4, MIB, 1, 2, 3, in_sync=(1, 2), moving=(1, 3), rows=7)
    named = put(keys.database(1), DatabaseRecord(id=1, name="d", state=UseState.IN_USE))
    shown = rebalance(filled(*pairs, under_way).changed([named]))
    assert shown.columns == COLUMNS
    assert shown.rows == (
        ("d.t2", 4, "n1", "n3", 7, MIB, "MOVING"),
        ("d.t2", 0, "n2", "n3", 5, MIB, "PLANNED"),
        ("d.t2", 1, "n2", "n3", 5, MIB, "PLANNED"),
    )
