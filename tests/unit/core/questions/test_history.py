"""SHOW HISTORY: newest first, bounded, of one object or of all; no secret, and no node by number."""

import pytest

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.questions.history import COLUMNS, history
from leasehold.core.words import keys
from leasehold.core.words.records import (
    BarrierReceipt,
    DroppedRecord,
    NodeRecord,
    Outcome,
    Right,
    SettledHow,
    SettledNode,
    StatementRecord,
)
from leasehold.limits.statements import HISTORY_ROWS_MAX
from leasehold.limits.units import MILLISECOND_NS
from tests.unit.core.questions.shop import CATALOG, granted

BOB = 2


def statement(order, **fields):
    record = {
        "id": f"{order:032x}",
        "order": order,
        "text": f"STATEMENT {order}",
        "outcome": Outcome.COMMITTED,
        "revision": 100 + order,
        "elapsed_ns": 12 * MILLISECOND_NS,
        "bound_ns": 4_000,
        "barriers": (),
        "pending": (),
        "user": "ann",
        "objects": ("database d", f"table d.t{order % 2}"),
    }
    return put(keys.statement(f"{order:032x}"), StatementRecord(**{**record, **fields}))


def node(number):
    record = NodeRecord(
        id=number,
        name=f"n{number}",
        address="",
        token_hash=b"",
        incarnation=1,
        nonce=None,
        session_hash=None,
        removed=False,
    )
    return put(keys.node(number), record)


def rows(*changes, of=None):
    found = history(Catalog().changed([node(1), node(2), *changes]), of, None)
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def settled(*how):
    nodes = tuple(SettledNode(node=number, how=one, after_ns=0) for number, one in enumerate(how, 1))
    return (BarrierReceipt(revision=101, term=1, sequence=1, settled=nodes),)


def test_a_statement_tells_who_what_when_and_how_it_ended():
    (row,) = rows(statement(1, barriers=settled(SettledHow.APPLIED, SettledHow.FENCED, SettledHow.APPLIED)))
    assert tuple(row) == COLUMNS
    assert row == {
        "order": 1,
        "revision": 101,
        "user": "ann",
        "statement": "STATEMENT 1",
        "outcome": "COMMITTED",
        "elapsed_ms": 12,
        "nodes": "2 applied, 1 fenced",
        "objects": "database d, table d.t1",
        "id": f"{1:032x}",
    }


def test_nodes_that_were_not_heard_of_and_those_that_still_delete_files_are_named():
    (row,) = rows(statement(1, outcome=Outcome.COMMITTED_PENDING, pending=(1, 3)))
    assert row["nodes"] == "not heard of: n1, 3"
    dropped = put(keys.dropped(7), DroppedRecord(table=7, name="d.t", pending=(2,)))
    (row,) = rows(statement(1, dropped=(7,)), dropped)
    assert row["nodes"] == "deleting files: n2"


def test_the_newest_come_first_and_of_one_object_if_it_is_asked_for():
    known = [statement(order) for order in (2, 5, 1, 4, 3)]
    assert [row["order"] for row in rows(*known)] == [5, 4, 3, 2, 1]
    assert [row["order"] for row in rows(*known, of="table d.t0")] == [4, 2]
    assert rows(*known, of="table d.t") == []


def test_no_more_than_the_bound_are_listed():
    listed = rows(*(statement(order) for order in range(1, HISTORY_ROWS_MAX + 3)))
    assert len(listed) == HISTORY_ROWS_MAX
    assert listed[-1]["order"] == 3


@pytest.mark.parametrize(
    ("rights", "of", "seen"),
    [
        ({}, "table shop.orders", ["bob"]),
        ({}, "database shop", ["bob"]),
        ({}, "principal ann", ["bob"]),
        ({"table": (Right.SELECT, Right.DROP)}, "table shop.orders", ["bob"]),
        ({"table": (Right.ALTER,)}, "table shop.orders", ["bob", "ann"]),
        ({"table": (Right.ALTER,)}, "database shop", ["bob"]),
        ({"table": (Right.ALTER,)}, "table shop.gone", ["bob"]),
        ({"database": (Right.ALTER,)}, "table shop.orders", ["bob", "ann"]),
        ({"database": (Right.ALTER,)}, "database shop", ["bob", "ann"]),
        ({"database": (Right.ALTER,)}, "principal ann", ["bob"]),
        ({"cluster": (Right.ALTER,)}, "table shop.gone", ["bob", "ann"]),
        ({"cluster": (Right.ALTER,)}, "principal ann", ["bob", "ann"]),
    ],
)
def test_statements_of_others_are_for_those_who_may_alter_the_object(rights, of, seen):
    objects = ("database shop", "table shop.orders", "table shop.gone", "principal ann")
    grants = [granted(BOB, {"table": 10, "database": 1, "cluster": 0}[kind], *given) for kind, given in rights.items()]
    changed = [statement(1, user="ann", objects=objects), statement(2, user="bob", objects=objects)]
    found = history(CATALOG.changed([*grants, *changed]), of, CATALOG.principals[BOB])
    assert [dict(zip(found.columns, row, strict=True))["user"] for row in found.rows] == seen
