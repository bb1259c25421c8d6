"""Which outcomes of statements are forgotten: none lately, the oldest of the others first, no drop with files left."""

import msgspec
import pytest

from leasehold.core.catalog.plan import put
from leasehold.core.ddl.outcomes import Ended
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import DroppedRecord, Outcome
from leasehold.limits.statements import PURGE_BATCH, STATEMENT_REMEMBERED_NS, STATEMENTS_KEPT
from tests.unit.core.catalog_words import create_database, hex_128
from tests.unit.core.ddl_words import ground

LONG_AGO_NS, NOW_NS = 5, 5 + STATEMENT_REMEMBERED_NS


def statements(number, *, first=0):
    """So many that have ended, in the order of their ids."""
    base = ground()
    procedure = base.begin(create_database())
    record = base.catalog.statements[procedure.statement]
    ended = msgspec.structs.replace(record, outcome=Outcome.COMMITTED)
    return [msgspec.structs.replace(ended, id=hex_128(10_000 + one), order=one) for one in range(first, first + number)]


def holding(*records):
    """A catalog with these statements and no others."""
    return ground().catalog.changed(put(keys.statement(one.id), one) for one in records)


def without(catalog, ids):
    return catalog.changed(Change(keys.statement(one), None) for one in ids)


def ids(records):
    return tuple(one.id for one in records)


def test_what_is_over_is_forgotten_in_batches_the_oldest_first():
    old = statements(STATEMENTS_KEPT + PURGE_BATCH)
    running = msgspec.structs.replace(old[0], id=hex_128(9), order=-1, outcome=Outcome.RUNNING)
    one_less = holding(*old)
    ended = Ended(one_less, LONG_AGO_NS)
    assert ended.forgettable(one_less, NOW_NS) == (), "not one too many yet"
    catalog = holding(running, *reversed(old))
    ended = Ended(catalog, LONG_AGO_NS)
    assert ended.forgettable(catalog, NOW_NS) == ids(old[:PURGE_BATCH]), "and none that still runs"


def test_R12_what_ended_lately_is_kept_however_many_end():
    others = statements(STATEMENTS_KEPT + 3 * PURGE_BATCH)
    catalog = holding(*others)
    ended = Ended(catalog, LONG_AGO_NS)
    assert ended.forgettable(catalog, NOW_NS - 1) == (), "a leader that is new does not know when they ended"
    for one in (*others[PURGE_BATCH // 2 :], others[0]):
        ended.note(one.id, LONG_AGO_NS + 1)
    assert ended.forgettable(catalog, NOW_NS) == ids(others[1 : PURGE_BATCH // 2])
    assert ended.forgettable(catalog, NOW_NS + 1) == ids(others[1 : 1 + PURGE_BATCH])


def test_one_that_is_answered_and_not_closed_yet_is_not_forgotten():
    others = statements(STATEMENTS_KEPT + PURGE_BATCH)
    answered = msgspec.structs.replace(others[0], outcome=Outcome.RUNNING)
    catalog = holding(answered, *others[1:], *statements(1, first=len(others)))
    ended = Ended(holding(), LONG_AGO_NS)
    for one in others:
        ended.note(one.id, LONG_AGO_NS)
    assert ended.forgettable(catalog, NOW_NS) == ids(others[1 : 1 + PURGE_BATCH])


def test_what_a_transaction_was_to_forget_and_did_not_is_named_again():
    others = statements(STATEMENTS_KEPT + 3 * PURGE_BATCH)
    catalog = holding(*others)
    ended = Ended(catalog, LONG_AGO_NS)
    first = ended.forgettable(catalog, NOW_NS)
    ended.tidy(catalog)
    assert ended.forgettable(catalog, NOW_NS) == first, "the store had declined"
    after = without(catalog, first)
    assert ended.forgettable(after, NOW_NS) == ids(others[PURGE_BATCH : 2 * PURGE_BATCH]), "in one transaction with it"
    ended.tidy(after)
    assert ended.forgettable(after, NOW_NS) == ids(others[PURGE_BATCH : 2 * PURGE_BATCH])


def test_a_drop_whose_files_remain_is_kept_and_those_behind_it_go():
    drop, *others = statements(STATEMENTS_KEPT + PURGE_BATCH + 2)
    drop = msgspec.structs.replace(drop, dropped=(7,))
    pending = put(keys.dropped(7), DroppedRecord(table=7, name="db.x", pending=(1,)))
    catalog = holding(drop, *others).changed([pending])
    ended = Ended(catalog, LONG_AGO_NS)
    assert ended.forgettable(catalog, NOW_NS) == ids(others[:PURGE_BATCH])
    catalog = catalog.changed([Change(keys.dropped(7), None)])
    assert ended.forgettable(catalog, NOW_NS) == ids([drop, *others[: PURGE_BATCH - 1]])


@pytest.mark.parametrize("more", [0, 1])
def test_drops_whose_files_remain_leave_what_is_kept_of_others(more):
    """However many tables a node that is away holds files of."""
    drops = [
        msgspec.structs.replace(one, dropped=(100 + number,)) for number, one in enumerate(statements(2 * PURGE_BATCH))
    ]
    others = statements(STATEMENTS_KEPT + PURGE_BATCH + more, first=len(drops))
    dropped = [DroppedRecord(table=one.dropped[0], name="db.x", pending=(1,)) for one in drops]
    catalog = holding(*drops, *others).changed(put(keys.dropped(one.table), one) for one in dropped)
    ended = Ended(catalog, LONG_AGO_NS)
    assert len(ended.forgettable(catalog, NOW_NS)) == more * PURGE_BATCH
