"""A statement whose leader dies at any effect, or does it twice, ends wholly before or wholly after (INV-DDL-1)."""

from copy import copy
from itertools import product

import msgspec
import pytest

from leasehold.core.words.records import Outcome
from tests.few import few
from tests.unit.core.ddl.leaders import Cut, World
from tests.unit.core.ddl.lives import ADD, DROP, ID
from tests.unit.core.ddl_words import BOTH, ground

KINDS = {
    "one transaction": {"statement": ADD},
    "two transactions": {"statement": DROP},
    "one transaction and a timeout": {"statement": ADD, "timeout_ns": 500, "is_silent": True},
    "two transactions and a timeout": {"statement": DROP, "timeout_ns": 500, "is_silent": True},
}
ENDS = {
    "one transaction": Outcome.COMMITTED,
    "two transactions": Outcome.COMMITTED,
    "one transaction and a timeout": Outcome.COMMITTED_PENDING,
    "two transactions and a timeout": Outcome.ROLLED_BACK,
}
LEFT_BEHIND = {"revision", "lineage", "counters", "procedures", "statements"}
BASE = ground(*BOTH)


def lived(kind, cuts=None, cancel_at=None):
    base = copy(BASE)
    base.items, base.batches = dict(BASE.items), list(BASE.batches)
    return World(base, **KINDS[kind], cuts=cuts, cancel_at=cancel_at).live()


def seen(catalog):
    """What nodes and people see, without what a statement leaves behind and what only grows."""
    fields = {name: getattr(catalog, name) for name in catalog.__struct_fields__ if name not in LEFT_BEHIND}
    tables = {key: msgspec.structs.replace(one, schema_version=0, deletes=0) for key, one in catalog.tables.items()}
    return {**fields, "tables": tables}


WHOLE = {kind: lived(kind) for kind in KINDS}
"""Each kind where nothing goes wrong."""
AFTER = {kind: seen(lived(kind.removesuffix(" and a timeout")).catalog) for kind in KINDS}
SINGLE = [
    pytest.param(kind, number, cut, id=f"{kind}: effect {number}: {cut.value}")
    for kind, world in WHOLE.items()
    for number, cut in product(range(world.effects), Cut)
]


def check(world, kind):
    """It has one outcome, which is durable and told by everybody, and the catalog is what the outcome says."""
    record = world.record
    assert not world.catalog.procedures
    assert {(one.outcome, one.revision, one.pending) for one in world.told} == {
        (record.outcome, record.revision, record.pending)
    }
    expected = seen(BASE.catalog) if record.outcome is Outcome.ROLLED_BACK else AFTER[kind]
    assert seen(world.catalog) == expected
    return record.outcome


@pytest.mark.parametrize("kind", KINDS)
def test_where_nothing_goes_wrong(kind):
    assert check(WHOLE[kind], kind) is ENDS[kind]
    assert seen(BASE.catalog) != AFTER[kind]


@pytest.mark.parametrize(("kind", "number", "cut"), SINGLE)
def test_a_cut_at_any_effect(kind, number, cut):
    world = lived(kind, {number: cut})
    outcome = check(world, kind)
    if cut is Cut.TWICE:
        assert world.term == 1
        assert outcome is ENDS[kind]
    elif KINDS[kind].get("timeout_ns") is None:
        assert outcome is Outcome.COMMITTED, "the next leader goes all the way"
    else:
        assert outcome in {Outcome.COMMITTED, ENDS[kind]}


@pytest.mark.parametrize("kind", few(2, KINDS))
def test_two_cuts(kind):
    """The second one is at an effect of the leader that follows, or of the same one."""
    longest = 2 * WHOLE[kind].effects + 6
    for first in range(WHOLE[kind].effects):
        for second, cut, other in product(range(first + 1, longest), Cut, Cut):
            check(lived(kind, {first: cut, second: other}), kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cut", [None, *Cut])
def test_cancel_at_any_effect(kind, cut):
    outcomes = set()
    longest = 2 * WHOLE[kind].effects + 6
    for cancel_at, number in product(range(longest), range(longest) if cut else (0,)):
        world = lived(kind, {number: cut} if cut else None, cancel_at)
        outcome = check(world, kind)
        assert not world.is_cancelled or outcome is Outcome.ROLLED_BACK
        outcomes.add((world.is_cancelled, outcome))
    if KINDS[kind]["statement"] is ADD:
        assert not any(is_cancelled for is_cancelled, _ in outcomes), "what is committed is not cancelled"
    else:
        assert (True, Outcome.ROLLED_BACK) in outcomes


def test_a_cancelled_statement_tells_who_held_it_up():
    world = lived("two transactions", cancel_at=WHOLE["two transactions"].effects // 2)
    assert world.is_cancelled
    assert world.catalog.statements[ID].pending == (3,)
