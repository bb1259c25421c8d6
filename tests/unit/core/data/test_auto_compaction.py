"""Which bucket a node compacts by itself, in which transaction, and who may do what in it."""

import msgspec
import pytest

from leasehold.core.catalog.plan import put
from leasehold.core.data import auto_compaction
from leasehold.core.data.auto_compaction import (
    DueBuckets,
    begin,
    commit_request,
    compacted_bucket,
    compactor,
    has_automatic,
    open_compactions,
    task,
)
from leasehold.core.data.commit import commit_transaction
from leasehold.core.data.write_access import admit_write
from leasehold.core.questions.procedures import procedures
from leasehold.core.words import keys
from leasehold.core.words.compact_property import check_compact
from leasehold.core.words.messages import AskCompaction, EndCompaction, WriteTicket
from leasehold.core.words.records import TransactionState
from leasehold.errors import Refused
from leasehold.limits.upkeep import AUTO_SEGMENTS_MAX, REWRITE_PORTION_SEGMENTS, SMALL_SEGMENT_BYTES
from tests.unit.core.catalog_words import drop_table, hex_128
from tests.unit.core.data.write_words import (
    KEYS,
    LIVE,
    TABLE,
    W1,
    W2,
    commit,
    commit_as_told,
    ground,
    opened,
    refused,
    sealed_by_holders,
    segment,
)
from tests.unit.core.replicas.rewrite_words import delete

ALL = {1, 2, 3}
MANY = AUTO_SEGMENTS_MAX + 1


def automatic(*counts, size_bytes=100):
    """A table that says so, with so many segments in each bucket."""
    base = opened(ground(buckets=len(counts)))
    change(base, properties={"compact": "auto"})
    numbers = ((bucket, 1_000 * bucket + one) for bucket, count in enumerate(counts) for one in range(count))
    base.commit(commit(base, *(segment(one, bucket=bucket, size_bytes=size_bytes) for bucket, one in numbers)))
    return base


def change(base, **fields):
    base.commit((put(keys.table(TABLE), msgspec.structs.replace(base.catalog.tables[TABLE], **fields)),))


def ask(node=1, table=0, bucket=0):
    return AskCompaction(
        node=node, incarnation=LIVE[node], session="s", cluster_id="c" * 32, table=table, bucket=bucket
    )


def found(base, node=1, leased=frozenset(ALL), **after):
    one = DueBuckets().next_of(ask(node, **after), base.catalog, leased)
    return None if one is None else (one.table.id, one.bucket, len(one.segments))


def began(base, node=1, transaction=W2):
    one = DueBuckets().next_of(ask(node), base.catalog, ALL)
    base.commit(begin(ask(node), one, transaction, base.catalog))
    return one


def end(base, node=1, transaction=W2, made=None, **fields):
    whole = EndCompaction(
        node=node,
        incarnation=LIVE[node],
        session="s",
        cluster_id="c" * 32,
        transaction=transaction,
        joined=tuple(one.id for one in base.catalog.bucket_segments(TABLE, 0)),
        deletes=base.catalog.tables[TABLE].deletes,
        segment=made,
    )
    return msgspec.structs.replace(whole, **fields)


def test_a_bucket_is_due_with_more_than_so_many_small_segments():
    assert found(automatic(AUTO_SEGMENTS_MAX)) is None
    base = automatic(MANY)
    assert found(base) == (TABLE, 0, MANY)
    assert found(automatic(MANY, size_bytes=SMALL_SEGMENT_BYTES)) is None, "none of them is small"
    change(base, properties={})
    assert found(base) is None
    assert not has_automatic(base.catalog)


def test_a_ticket_names_no_more_segments_than_it_may():
    assert found(automatic(REWRITE_PORTION_SEGMENTS + 5)) == (TABLE, 0, REWRITE_PORTION_SEGMENTS)


def test_only_segments_that_the_node_holds_are_joined():
    base = automatic(MANY)
    lacked = base.catalog.bucket_segments(TABLE, 0)[0]
    base.commit((put(keys.segment(TABLE, 0, lacked.id), msgspec.structs.replace(lacked, holders=(2, 3))),))
    assert found(base) == (TABLE, 0, MANY - 1)


def test_the_replicas_of_a_table_share_its_buckets():
    base = automatic(MANY, MANY, MANY)
    of = [compactor(base.catalog.buckets[TABLE, number], ALL) for number in range(3)]
    assert sorted(of) == [1, 2, 3]
    for number, node in enumerate(of):
        assert found(base, node) == (TABLE, number, MANY)


def test_a_node_without_a_lease_is_passed_over():
    base = automatic(MANY)
    assert found(base, 2, {2, 3}) == (TABLE, 0, MANY)
    assert found(base, 1, {2, 3}) is None
    assert compactor(base.catalog.buckets[TABLE, 0], set()) is None


def test_the_next_bucket_comes_after_the_last_one_and_around():
    base = automatic(MANY, 0, 0, MANY)
    assert found(base) == (TABLE, 0, MANY)
    assert found(base, table=TABLE, bucket=0) == (TABLE, 3, MANY)
    assert found(base, table=TABLE, bucket=3) == (TABLE, 0, MANY)


def test_nothing_is_due_while_rows_are_hidden_that_may_come_back():
    base = automatic(MANY)
    procedure = base.begin(delete(("a", "=", "1")))
    assert procedure is not None
    assert found(base) is None


def test_a_table_that_is_being_dropped_is_left_alone():
    base = automatic(MANY)
    base.begin(drop_table())
    assert found(base) is None


def test_a_bucket_that_is_not_due_is_looked_at_again_when_its_segments_change(monkeypatch):
    base = opened(automatic(MANY, size_bytes=SMALL_SEGMENT_BYTES), W2)
    looked = []

    def counted(segments):
        looked.append(len(segments))
        return []

    monkeypatch.setattr(auto_compaction, "small_ones", counted)
    base.commit(commit(base, *(segment(one, transaction=W2) for one in range(MANY)), transaction=W2))
    buckets = DueBuckets()
    for _ in range(3):
        assert buckets.next_of(ask(), base.catalog, ALL) is None
    assert looked == [2 * MANY]
    opened(base, hex_128(0xA5))
    base.commit(commit(base, segment(0, transaction=hex_128(0xA5)), transaction=hex_128(0xA5)))
    assert buckets.next_of(ask(), base.catalog, ALL) is None
    assert looked == [2 * MANY, 2 * MANY + 1]


def test_a_bucket_is_compacted_once_at_a_time():
    base = automatic(MANY)
    began(base)
    assert [(one.compacts, one.compactor) for one in open_compactions(base.catalog)] == [(0, 1)]
    assert found(base, 2, {2, 3}) is None, "node 1 may still be at it"
    one = DueBuckets().next_of(ask(), base.catalog, ALL)
    assert refused(begin, ask(2), one, hex_128(0xA3), base.catalog) == "BUSY", "it may have begun meanwhile"
    assert procedures([], base.catalog, None).rows == (
        (None, None, None, "compaction of db.t, bucket 0", "joining segments on n1"),
    )


def test_who_asks_again_has_lost_the_answer():
    base = automatic(MANY)
    began(base)
    began(base, transaction=hex_128(0xA3))
    assert base.catalog.transactions[W2].state is TransactionState.ABORTED
    assert [one.id for one in open_compactions(base.catalog)] == [hex_128(0xA3)]


def test_the_task_names_the_rows_as_they_were_planned():
    base = automatic(MANY)
    one = began(base)
    told = task(ask(), one, f"{W2}-{hex_128(1)}", base.catalog.revision, 1)
    assert told.ticket is not None
    assert [segment for segment, _ in told.ticket.joined] == [
        each.id for each in base.catalog.bucket_segments(TABLE, 0)
    ]
    assert (told.ticket.transaction, told.ticket.revision) == (W2, base.catalog.revision)
    assert (told.size_bytes, told.deletes) == (100 * MANY, base.catalog.tables[TABLE].deletes)


def committed(base, request):
    asked = commit_request(request, compacted_bucket(request, base.catalog))
    base.commit(
        commit_transaction(asked, base.catalog, incarnations=LIVE, seal_keys=KEYS, wall_us=0, compactor=request.node)
    )
    return base.catalog.bucket_segments(TABLE, 0)


def made_in(base, **how):
    return sealed_by_holders(base, segment(1, transaction=W2, rows=10 * MANY, **how))[0]


def test_the_new_segment_takes_the_place_of_the_old_ones():
    base = automatic(MANY)
    began(base)
    made = made_in(base)
    assert [one.id for one in committed(base, end(base, made=made))] == [made.id]
    assert not list(open_compactions(base.catalog))


def test_where_no_row_is_left_there_is_no_new_segment():
    base = automatic(MANY)
    began(base)
    assert committed(base, end(base, made=msgspec.structs.replace(made_in(base), rows=0))) == []


@pytest.mark.parametrize(
    ("fields", "how", "code"),
    [
        ({"node": 2}, {}, "TRANSACTION_UNKNOWN"),
        ({"transaction": W1}, {}, "TRANSACTION_UNKNOWN"),
        ({"transaction": hex_128(7)}, {}, "TRANSACTION_UNKNOWN"),
        ({}, {"bucket": 1}, "BAD_SEGMENT"),
        ({"deletes": 7}, {}, "REWRITE_STALE"),
    ],
)
def test_a_node_ends_only_its_own_compaction(fields, how, code):
    base = automatic(MANY, 1)
    began(base)
    request = end(base, made=made_in(base, **how), **fields)
    before = base.catalog
    assert refused(committed, base, request) == code
    assert base.catalog is before


def test_no_other_node_aborts_it():
    base = automatic(MANY)
    began(base)
    assert compacted_bucket(end(base), base.catalog) == 0
    assert refused(compacted_bucket, end(base, node=2), base.catalog) == "TRANSACTION_UNKNOWN"


def test_no_client_commits_or_writes_in_it_and_no_node_in_that_of_a_client():
    base = automatic(MANY)
    began(base)
    assert refused(commit_as_told, base, made_in(base), transaction=W2) == "TRANSACTION_UNKNOWN"
    opened(base, hex_128(0xA4))

    def admitted(transaction, node, by_itself):
        ticket = WriteTicket(
            cluster_id="c" * 32,
            transaction=transaction,
            segment=f"{transaction}-{hex_128(1)}",
            table=TABLE,
            bucket=0,
            schema_version=1,
            revision=base.catalog.revision,
        )
        try:
            admit_write(ticket, base.catalog, node, by_itself=by_itself)
        except Refused as error:
            return error.code
        return None

    assert admitted(W2, 1, True) is None
    assert admitted(W2, 2, True) == "TRANSACTION_UNKNOWN"
    assert admitted(W2, 1, False) == "TRANSACTION_UNKNOWN"
    assert admitted(hex_128(0xA4), 1, True) == "TRANSACTION_UNKNOWN"
    assert admitted(hex_128(0xA4), 1, False) is None


def test_the_property_has_one_value():
    check_compact("auto")
    for text in ("Auto", "on", ""):
        assert refused(check_compact, text) == "BAD_PROPERTY"
