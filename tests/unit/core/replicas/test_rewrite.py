"""DELETE as a procedure, what is planned to be rewritten, and what a rewrite's commit compares."""

import msgspec
import pytest
from rpds import HashTrieMap

from leasehold.core.catalog.plan import put
from leasehold.core.catalog.shelf import Shelf
from leasehold.core.data.commit import open_transaction
from leasehold.core.ddl import finish, roll_back
from leasehold.core.replicas.rewrite import hiding, live_deletes, worth_rewriting
from leasehold.core.words import keys
from leasehold.core.words.records import (
    ColumnStatistics,
    Comparison,
    DeleteRecord,
    HorizonRecord,
    SegmentFormat,
    UseState,
)
from leasehold.core.words.statements import DropColumn
from leasehold.errors import NotFound, Refused
from leasehold.limits.statements import CONDITIONS_MAX
from leasehold.limits.upkeep import DELETES_MAX
from tests.unit.core.catalog_words import drop_column, hex_128
from tests.unit.core.data.write_words import (
    TABLE,
    W2,
    asked,
    commit_as_told,
    ground,
    opened,
    refused,
    sealed_by_holders,
    segment,
    written,
)
from tests.unit.core.replicas.rewrite_words import (
    ALL,
    NAME,
    W3,
    bounds,
    commit,
    delete,
    filled,
    new,
    old,
    put_away,
    released,
    replaced,
    run,
)

# ---------------------------------------------------------------- the statement


def test_a_delete_hides_first_and_its_number_stays_used_whatever_becomes_of_it():
    base = filled(ground(), old(1))
    procedure = base.begin(delete(("A", "<", "5"), ("b", "=", "-3")))
    hidden = DeleteRecord(
        table=TABLE,
        number=1,
        state=UseState.PRE_DELETE,
        where=(Comparison(field=1, operator="<", value="5"), Comparison(field=2, operator="=", value="-3")),
    )
    assert base.catalog.deletes[TABLE][1] == hidden
    assert base.catalog.tables[TABLE].deletes == 1
    changes = roll_back(procedure, base.catalog, elapsed_ns=1)
    base.commit(changes)
    assert TABLE not in base.catalog.deletes
    assert roll_back(procedure, base.catalog, elapsed_ns=1) == ()
    run(base, delete(("a", "<", "5")))
    assert list(base.catalog.deletes[TABLE]) == [2]
    assert base.catalog.deletes[TABLE][2].state is UseState.IN_USE


def test_finishing_again_changes_nothing():
    base = filled(ground(), old(1))
    procedure = base.begin(delete(("a", "<", "5")))
    base.commit(finish(procedure, base.catalog))
    assert finish(procedure, base.catalog) == ()


def test_a_delete_that_concerns_no_file_leaves_nothing_behind():
    base = filled(ground(), old(1))
    run(base, delete(("a", ">", "9")))
    assert TABLE not in base.catalog.deletes
    assert base.catalog.tables[TABLE].deletes == 1


@pytest.mark.parametrize(
    ("conditions", "code"),
    [
        ([], "NO_CONDITION"),
        ([("a", "=", "1")] * (CONDITIONS_MAX + 1), "TOO_MANY_CONDITIONS"),
        ([("a", "=", "NULL")], "BAD_VALUE"),
        ([("a", "=", "1.5")], "BAD_VALUE"),
        ([("a", "=", "3000000000")], "BAD_VALUE"),
        ([("nothing", "=", "1")], "NOT_FOUND"),
    ],
)
def test_what_no_delete_can_mean_is_refused(conditions, code):
    base = ground()
    with pytest.raises(Refused) as caught:
        base.begin(delete(*conditions))
    assert caught.value.code == code
    assert caught.value.hint


def test_a_delete_from_what_is_not_there_is_refused():
    base = ground()
    with pytest.raises(NotFound):
        base.begin(delete(("a", "=", "1"), table="other"))


def test_a_table_has_a_largest_number_of_deletes_that_its_files_wait_for():
    base = filled(ground(), old(1), old(2, bounds(a=(100, 200), b=(1, 9))))
    for number in range(DELETES_MAX):
        run(base, delete(("a", "=", str(1 + number % 9))))
    with pytest.raises(Refused) as caught:
        base.begin(delete(("a", "=", "1")))
    assert caught.value.code == "TOO_MANY_DELETES"
    assert "compact db.t" in caught.value.hint
    base.commit(put_away(base, old(1)))
    run(base, delete(("a", "=", "150")))
    assert len(base.catalog.deletes[TABLE]) == DELETES_MAX + 1, "a scan may still read what was replaced"
    released(base, old(1))
    assert len(base.catalog.deletes[TABLE]) == 1


def test_a_column_that_tells_which_rows_are_gone_is_not_dropped():
    base = run(filled(ground(), old(1)), delete(("a", "=", "3")))
    assert refused(base.begin, drop_column("a")) == "COLUMN_IN_USE"
    base.commit(put_away(base, old(1)))
    assert refused(base.begin, drop_column("a")) == "COLUMN_IN_USE"
    released(base, old(1))
    assert base.begin(drop_column("a")) is not None


# ---------------------------------------------------------------- planning


def test_what_deletes_concern_is_worth_rewriting_and_nothing_else():
    base = filled(ground(), old(1), old(2, bounds(a=(100, 200), b=(1, 9))))
    assert worth_rewriting(base.catalog.tables[TABLE], base.catalog) == ()
    run(base, delete(("a", ">", "150")))
    (found,) = worth_rewriting(base.catalog.tables[TABLE], base.catalog)
    assert found.id == old(2).id
    assert [one.number for one in hiding(TABLE, found, base.catalog)] == [1]
    assert [one.number for one in live_deletes(base.catalog.tables[TABLE], base.catalog)] == [1]


def test_a_segment_of_an_older_format_is_worth_rewriting():
    base = filled(ground(), old(1), old(2, format=SegmentFormat.COLUMN_NAMES))
    (found,) = worth_rewriting(base.catalog.tables[TABLE], base.catalog)
    assert (found.id, found.format) == (old(2).id, SegmentFormat.COLUMN_NAMES)


@pytest.mark.parametrize(
    ("low", "high", "nulls", "horizon_us", "worth"),
    [
        (0, 100, 0, 9, False),
        (0, 100, 0, 10, True),
        (0, 100, 0, 1000, True),
        (0, 100, 0, -5, False),
        (5, 5, 0, 5, False),
        (5, 5, 0, 6, True),
        (5, 5, 9, 6, True),
        (None, None, 10, 6, False),
    ],
)
def test_a_segment_is_worth_it_once_a_tenth_of_it_has_expired(low, high, nulls, horizon_us, worth):
    base = ground()
    table = msgspec.structs.replace(base.catalog.tables[TABLE], time_column=1, ttl_ns=1)
    base.put(keys.table(TABLE), table)
    statistics = (ColumnStatistics(field=1, nulls=nulls, minimum=low, maximum=high),)
    filled(base, old(1, statistics))
    base.put(keys.horizon(TABLE), HorizonRecord(table=TABLE, horizon_us=horizon_us))
    assert bool(worth_rewriting(base.catalog.tables[TABLE], base.catalog)) is worth


def test_a_plan_looks_through_the_statistics_of_a_segment_once_and_ends_when_it_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It holds all segments against all DELETEs, while the leader grants leases."""
    base = filled(ground(), *(old(number) for number in range(1, 6)))
    for number in range(10):
        run(base, delete(("b", "=", "9"), ("a", "=", str(number)), ("b", ">", "1")))
    table, looks, found = base.catalog.tables[TABLE], [0], list(base.catalog.bucket_segments(TABLE, 0))

    class Counted(tuple[ColumnStatistics, ...]):
        def __iter__(self):
            looks[0] += 1
            return super().__iter__()

    counted = {one.id: msgspec.structs.replace(one, statistics=Counted(one.statistics)) for one in found}
    segments = Shelf(HashTrieMap({(TABLE, 0): HashTrieMap(counted)}))
    catalog = msgspec.structs.replace(base.catalog, segments=segments)
    found = list(catalog.bucket_segments(TABLE, 0))
    assert [one.id for one in worth_rewriting(table, catalog)] == [one.id for one in found]
    assert looks == [len(found)]
    assert [one.id for one in worth_rewriting(table, catalog, segments_max=2)] == [one.id for one in found[:2]]
    assert looks == [len(found) + 2]


def test_nothing_is_planned_while_something_is_hidden_that_may_come_back():
    base = filled(ground(), old(1))
    for statement in (delete(("a", "=", "1")), DropColumn(table=NAME, column="b")):
        procedure = base.begin(statement)
        assert refused(worth_rewriting, base.catalog.tables[TABLE], base.catalog) == "UNDER_WAY"
        base.commit(roll_back(procedure, base.catalog, elapsed_ns=1))
    base.put(keys.horizon(TABLE), HorizonRecord(table=TABLE, horizon_us=1, hidden_us=2))
    assert refused(worth_rewriting, base.catalog.tables[TABLE], base.catalog) == "UNDER_WAY"


# ---------------------------------------------------------------- the commit


def test_a_rewrite_replaces_segments_and_keeps_them_for_scans_under_way():
    base = run(filled(ground(), old(1), old(2)), delete(("a", "=", "3")))
    opened(base, W2)
    changes = commit(base, new(3), transaction=W2, replaces=replaced(old(1)), deletes=1)
    kept = written(changes)[keys.replaced(TABLE, 0, old(1).id)].segment
    assert (kept.id, kept.sha256, kept.statistics) == (old(1).id, old(1).sha256, ())
    base.commit(changes)
    assert {one.id: one.deletes for one in base.catalog.bucket_segments(TABLE, 0)} == {old(2).id: 0, new(3).id: 1}
    assert base.catalog.replaced.one((TABLE, 0), old(1).id).segment == kept
    assert base.catalog == base.restored()
    assert commit(base, new(3), transaction=W2, replaces=replaced(old(1)), deletes=1) == (), "told again"
    assert worth_rewriting(base.catalog.tables[TABLE], base.catalog)[0].id == old(2).id


def test_what_changed_since_the_plan_is_found_by_the_commit():
    base = run(filled(ground(), old(1), old(2)), delete(("a", "=", "3")))
    opened(base, W2)

    def rewritten(*segments, deletes=1, replaces=None):
        how = {"transaction": W2, "deletes": deletes, "replaces": replaced(old(1)) if replaces is None else replaces}
        return refused(commit, base, *segments, **how)

    assert rewritten(new(3), deletes=0) == "REWRITE_STALE"
    assert rewritten(new(3), deletes=2) == "REWRITE_STALE"
    assert rewritten(new(3), replaces=replaced(old(7))) == "REWRITE_STALE"
    assert rewritten(new(3), replaces=replaced(old(1), old(1))) == "BAD_SEGMENT"
    assert rewritten(new(3, bounds(a=(1, 9)))) == "REWRITE_STALE", "b was hidden while the rows were read"
    base.commit(roll_back(base.begin(delete(("a", "=", "4"))), base.catalog, elapsed_ns=1))
    assert rewritten(new(3)) == "REWRITE_STALE", "rows may have been hidden that are back"
    assert commit(base, new(3), transaction=W2, replaces=replaced(old(1)), deletes=2)


def test_a_column_dropped_since_the_rows_were_read_is_found_too():
    base = run(filled(ground(), old(1)), delete(("a", "=", "3")))
    opened(base, W2)
    run(base, drop_column("b"))
    assert refused(commit, base, new(3), transaction=W2, replaces=replaced(old(1)), deletes=1) == "SCHEMA_CHANGED"
    alone = new(3, bounds(a=(1, 9)))
    assert commit(base, alone, transaction=W2, replaces=replaced(old(1)), deletes=1), "read without it"


def test_of_two_rewrites_one_wins():
    base = run(filled(ground(), old(1)), delete(("a", "=", "3")))
    opened(base, W2)
    base.commit(commit(base, new(3), transaction=W2, replaces=replaced(old(1)), deletes=1))
    third = "d" * 32
    opened(base, third)
    again = segment(4, transaction=third, statistics=ALL)
    assert refused(commit, base, again, transaction=third, replaces=replaced(old(1)), deletes=1) == "REWRITE_STALE"


def test_a_node_that_lacked_only_what_was_replaced_is_in_sync_again():
    base = filled(ground(), old(1, holders=segment(1, 1, 2).holders), old(2, holders=segment(2, 1, 2, 3).holders))
    assert set(base.catalog.buckets[TABLE, 0].in_sync) == {1, 2}
    run(base, delete(("a", "=", "3")))
    opened(base, W2)
    base.commit(commit(base, new(3), transaction=W2, replaces=replaced(old(1)), deletes=1))
    assert set(base.catalog.buckets[TABLE, 0].in_sync) == {1, 2, 3}
    opened(base, "e" * 32)
    lame = segment(5, 1, transaction="e" * 32, statistics=ALL)
    base.commit(commit(base, lame, transaction="e" * 32, replaces=replaced(old(2)), deletes=1))
    assert set(base.catalog.buckets[TABLE, 0].in_sync) == {1}


# ---------------------------------------------------------------- giving up what is lost


def with_lost(base, *segments):
    """Their holders are struck out, as those that were removed by force are."""
    filled(base, *segments)
    entries = [base.catalog.segments[TABLE, one.bucket][one.id] for one in segments]
    base.commit(
        [put(keys.segment(TABLE, one.bucket, one.id), msgspec.structs.replace(one, holders=())) for one in entries]
    )
    return base


def forgetting(base, *segments, new=(), transaction=W2):
    opened(base, transaction)
    told = sealed_by_holders(base, *new)
    return commit_as_told(base, *told, transaction=transaction, replaces=replaced(*segments), forgets=True)


def test_lost_segments_are_forgotten_whatever_was_deleted_since_and_the_bucket_is_whole_again():
    base = with_lost(ground(buckets=1), old(1))
    run(base, delete(("a", "<", "5")))
    base.put(keys.bucket(TABLE, 0), msgspec.structs.replace(base.catalog.buckets[TABLE, 0], in_sync=()))
    changes = written(forgetting(base, old(1)))
    assert changes[keys.segment(TABLE, 0, old(1).id)] is None
    assert not any(key.startswith(keys.REPLACED) for key in changes), "no scan can read it"
    assert changes[keys.bucket(TABLE, 0)].in_sync == base.catalog.buckets[TABLE, 0].replicas
    assert changes[keys.transaction(W2)].rows == 0


def test_what_a_node_holds_is_not_forgotten_nor_half_of_what_was_asked_for():
    base = with_lost(ground(), old(1))
    base.commit(open_transaction(asked(W3), base.catalog))
    base.commit(commit(base, segment(2, transaction=W3), transaction=W3))
    assert refused(forgetting, base, old(1), segment(2, transaction=W3)) == "NOT_LOST"
    assert old(1).id in base.catalog.segments[TABLE, 0]
    base.commit(forgetting(base, old(1)))
    assert refused(forgetting, base, old(1), transaction=hex_128(0xA4)) == "NOT_LOST", "it is not there any more"


def test_who_forgets_writes_nothing():
    base = with_lost(ground(), old(1))
    assert refused(forgetting, base, old(1), new=(new(2),)) == "BAD_SEGMENT"
