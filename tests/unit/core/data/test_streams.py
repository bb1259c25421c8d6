"""Batches of streaming queries: each is committed at most once (`core/data/streams.py`)."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.data.commit import abort_transaction
from leasehold.core.data.streams import forgotten
from leasehold.core.membership.identity import hash_login
from leasehold.core.words import keys
from leasehold.core.words.messages import StreamBatch
from leasehold.core.words.operations import Change
from leasehold.core.words.records import GrantRecord, LoginRecord, Right, StreamRecord, TransactionState, UseState
from leasehold.errors import Refused
from leasehold.limits.segments import STREAM_KEPT_NS
from tests.unit.core.catalog_words import create_table, hex_128
from tests.unit.core.data.write_words import (
    TABLE,
    W1,
    W2,
    commit_as_told,
    ground,
    opened,
    sealed_by_holders,
    segment,
    user,
)

QUERY = "718ca8f4-ea08-49fc-be74-57fa4a419a58"
OTHER = "c501f29b-d5f9-4f8f-8639-115a3846b6a8"
THIRD = "5d0c53c2-6a3c-4f02-9a75-2bd6a2a0e7f4"


ANN, BEN = "a" * 32, "b" * 32
"""Logins of users 1 and 2."""
GONE = 99
"""A table that was dropped."""


def write(base, number, query=QUERY, transaction=W1, wall_us=0, rows=1, login=None):
    """A batch that is committed in a transaction of its own."""
    opened(base, transaction, login=login)
    segments = sealed_by_holders(base, *(segment(one, transaction=transaction) for one in range(1, 1 + rows)))
    batch = StreamBatch(query=query, number=number)
    base.commit(commit_as_told(base, *segments, transaction=transaction, batch=batch, wall_us=wall_us, login=login))


def with_users(*statements):
    base = ground(*statements)
    for number, (name, login) in enumerate((("ann", ANN), ("ben", BEN)), 1):
        base.put(keys.principal(number), user(number, name))
        token = hash_login(login)
        base.put(keys.login(token), LoginRecord(token_hash=token, user=number, order=number))
    return base


def know(base, query, table, *, begun_by=None, committed_us=0):
    record = StreamRecord(query=query, table=table, batch=4, committed_us=committed_us, begun_by=begun_by)
    base.put(keys.stream(query), record)


def transactions():
    return (hex_128(0xB00 + number) for number in range(1_000))


def refused(base, number, code, **how):
    before = base.catalog.segments
    with pytest.raises(Refused) as caught:
        write(base, number, **how)
    assert caught.value.code == code, caught.value
    assert base.catalog.segments is before
    return caught.value


def test_a_batch_becomes_the_newest_of_its_query_with_its_rows():
    base = ground()
    write(base, 0, wall_us=7)
    assert base.catalog.streams[QUERY] == StreamRecord(query=QUERY, table=TABLE, batch=0, committed_us=7)
    write(base, 3, transaction=W2)
    assert base.catalog.streams[QUERY].batch == 3


def test_a_batch_that_is_committed_is_refused_in_another_transaction():
    """Spark 4.3 runs a batch again if it does not know whether it was committed."""
    base = ground()
    write(base, 4)
    refused(base, 4, "BATCH_COMMITTED", transaction=W2)


def test_the_same_transaction_finds_itself_committed():
    base = ground()
    write(base, 4)
    batch = StreamBatch(query=QUERY, number=4)
    assert commit_as_told(base, *sealed_by_holders(base, segment()), batch=batch) == ()


def test_a_batch_without_rows_counts_too():
    base = ground()
    write(base, 4, rows=0)
    refused(base, 4, "BATCH_COMMITTED", transaction=W2)


def test_a_batch_that_was_aborted_is_committed_by_another_transaction():
    base = opened(ground())
    base.commit(abort_transaction(W1, base.catalog))
    write(base, 0, transaction=W2)
    assert base.catalog.transactions[W2].state is TransactionState.COMMITTED


def test_an_earlier_batch_comes_from_a_copy_of_the_checkpoint():
    base = ground()
    write(base, 9)
    assert "batch 9" in str(refused(base, 8, "OTHER_CHECKPOINT", transaction=W2))


def test_queries_are_independent():
    base = ground()
    write(base, 9)
    write(base, 0, query=OTHER, transaction=W2)
    assert (base.catalog.streams[QUERY].batch, base.catalog.streams[OTHER].batch) == (9, 0)


def test_a_checkpoint_of_another_table_is_refused():
    base = ground(create_table("u"))
    base.put(
        keys.stream(QUERY),
        StreamRecord(query=QUERY, table=base.catalog.counters.next_object - 1, batch=4, committed_us=0),
    )
    assert "has written to table db.u" in str(refused(base, 5, "OTHER_CHECKPOINT"))


def test_a_checkpoint_of_a_table_that_was_dropped_is_refused():
    base = ground()
    base.put(keys.stream(QUERY), StreamRecord(query=QUERY, table=99, batch=4, committed_us=0))
    assert "a table that was dropped" in str(refused(base, 5, "OTHER_CHECKPOINT"))


@pytest.mark.parametrize(("query", "number"), [("", 0), ("x" * 36, 0), (QUERY.upper(), 0), (QUERY, -1)])
def test_what_is_no_batch_is_refused(query, number):
    refused(ground(), number, "BAD_MESSAGE", query=query)


def test_only_so_many_queries_are_known(monkeypatch):
    monkeypatch.setattr("leasehold.core.data.streams.STREAMS_MAX", 1)
    base = ground()
    write(base, 0)
    refused(base, 0, "BUSY", query=OTHER, transaction=W2)
    write(base, 1, transaction=hex_128(0xA3))


def test_queries_on_one_table_leave_room_for_those_on_others(monkeypatch):
    monkeypatch.setattr("leasehold.core.data.streams.STREAMS_PER_TABLE_MAX", 1)
    base = ground(create_table("u"))
    other_table = base.catalog.counters.next_object - 1
    base.put(keys.stream(OTHER), StreamRecord(query=OTHER, table=other_table, batch=4, committed_us=0))
    write(base, 0)
    error = refused(base, 0, "BUSY", query=THIRD, transaction=W2)
    assert error.text.startswith("the newest batches of 1 streaming queries on db.t are known")
    write(base, 1, transaction=hex_128(0xA3))


def test_a_user_leaves_room_for_queries_of_others(monkeypatch):
    monkeypatch.setattr("leasehold.core.data.streams.USER_STREAMS_MAX", 1)
    base = with_users()
    write(base, 0, login=ANN)
    assert base.catalog.streams[QUERY].begun_by == 1
    error = refused(base, 0, "BUSY", query=OTHER, transaction=W2, login=ANN)
    assert error.text.startswith("the newest batches of 1 streaming queries of ann are known")
    write(base, 0, query=OTHER, transaction=hex_128(0xA3), login=BEN)


def test_only_who_may_alter_the_table_goes_on_with_the_query_of_another_user():
    base = with_users()
    write(base, 0, login=ANN)
    for number in (0, 1, 2**62):
        error = refused(base, number, "OTHER_CHECKPOINT", transaction=W2, login=BEN)
        assert "begun by another user" in error.text
    base.put(keys.grant(TABLE, 2), GrantRecord(object=TABLE, principal=2, rights=(Right.ALTER,)))
    write(base, 1, transaction=hex_128(0xA4), login=BEN)
    assert base.catalog.streams[QUERY].begun_by == 1, "whoever goes on with it"
    write(base, 2, transaction=hex_128(0xA5), login=ANN)


def test_a_query_that_is_known_without_a_user_belongs_to_the_next_who_writes():
    base = with_users()
    know(base, QUERY, TABLE)
    write(base, 5, login=BEN)
    assert base.catalog.streams[QUERY].begun_by == 2


def test_queries_of_dropped_tables_make_room_the_oldest_first(monkeypatch):
    monkeypatch.setattr("leasehold.core.data.streams.STREAMS_MAX", 2)
    monkeypatch.setattr("leasehold.core.data.streams.STREAMS_FORGOTTEN_AT_ONCE", 1)
    base = ground()
    know(base, OTHER, GONE, committed_us=2)
    know(base, THIRD, GONE, committed_us=1)
    refused(base, 5, "OTHER_CHECKPOINT", query=THIRD)
    write(base, 0, transaction=W2)
    assert set(base.catalog.streams) == {QUERY, OTHER}
    write(base, 1, transaction=hex_128(0xA3))
    assert set(base.catalog.streams) == {QUERY, OTHER}, "a query that is known needs no room"


def test_a_user_who_drops_tables_may_begin_queries_on_others(monkeypatch):
    monkeypatch.setattr("leasehold.core.data.streams.USER_STREAMS_MAX", 1)
    base = with_users()
    know(base, OTHER, GONE, begun_by=2)
    know(base, THIRD, GONE, begun_by=1)
    write(base, 0, login=ANN)
    assert set(base.catalog.streams) == {QUERY, OTHER}, "those of others stay while there is room"
    refused(base, 0, "BUSY", query=THIRD, transaction=W2, login=ANN)


def test_the_share_of_a_table_is_not_freed_by_other_tables(monkeypatch):
    monkeypatch.setattr("leasehold.core.data.streams.STREAMS_PER_TABLE_MAX", 1)
    base = ground()
    know(base, OTHER, GONE)
    write(base, 0)
    refused(base, 0, "BUSY", query=THIRD, transaction=W2)


def test_a_table_that_may_come_back_keeps_its_queries(monkeypatch):
    monkeypatch.setattr("leasehold.core.data.streams.STREAMS_MAX", 1)
    base = ground(create_table("u"))
    other_table = base.catalog.counters.next_object - 1
    record = base.catalog.tables[other_table]
    base.put(keys.table(other_table), msgspec.structs.replace(record, state=UseState.PRE_DELETE))
    know(base, OTHER, other_table)
    refused(base, 0, "BUSY")
    base.commit((Change(keys.table(other_table), None),))
    write(base, 0, transaction=W2)
    assert set(base.catalog.streams) == {QUERY}


@given(st.lists(st.tuples(st.sampled_from([QUERY, OTHER]), st.integers(0, 5)), max_size=20))
def test_no_batch_is_committed_twice(batches):
    base, drawn, committed = ground(), transactions(), []
    for query, number in batches:
        try:
            write(base, number, query=query, transaction=next(drawn))
        except Refused:
            continue
        committed.append((query, number))
    assert len(set(committed)) == len(committed)
    for query in (QUERY, OTHER):
        numbers = [number for one, number in committed if one == query]
        assert numbers == sorted(numbers)


def test_a_query_is_forgotten_30_days_after_its_last_batch():
    base = ground()
    write(base, 4, wall_us=1_000)
    write(base, 1, query=OTHER, transaction=W2, wall_us=1_001)
    kept_us = STREAM_KEPT_NS // 1_000
    assert forgotten(base.catalog, 999 + kept_us) == ()
    assert [one.key for one in forgotten(base.catalog, 1_000 + kept_us)] == [keys.stream(QUERY)]
