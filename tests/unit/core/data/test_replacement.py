"""Writes that replace rows: what their plans name, and what their commits compare."""

import msgspec
import pytest

from leasehold.core.data import filters
from leasehold.core.data.replacement import begun_by, replaced_by, still_there
from leasehold.core.data.scan_plan import plan_scan
from leasehold.core.ddl import finish, roll_back
from leasehold.core.words.messages import FieldFilter, Filter, PlanScan
from leasehold.core.words.statements import Literal, TableName
from leasehold.errors import NotFound, Refused
from leasehold.limits.statements import REPLACED_VALUES_MAX
from tests.unit.core.catalog_words import drop_column, hex_128, rename
from tests.unit.core.data.write_words import (
    TABLE,
    W2,
    commit_as_told,
    ground,
    opened,
    refused,
    sealed_by_holders,
    segment,
    written,
)
from tests.unit.core.replicas.rewrite_words import bounds, delete, filled, new, old, replaced, run

LOW, MIDDLE, HIGH = (old(number, bounds(a=span, b=(1, 9))) for number, span in ((1, (1, 3)), (2, (3, 7)), (3, (8, 9))))
FROM_THREE, FIVE = (("a", ">=", "3"),), (("a", "=", "5"),)


def asked(*where):
    filters = tuple(
        Filter(column=column, operator=operator, values=tuple(Literal("number", one) for one in values))
        for column, operator, *values in where
    )
    return PlanScan(cluster_id=None, name="db.t", columns=None, where=filters, replaces=True)


def planned(base, *where):
    """The segments that have to be read, and those all of whose rows go."""
    made = plan_scan(asked(*where), base.catalog)
    return {one.id for one in made.segments}, {one.segment for one in made.whole}


def covers(base, *where):
    return plan_scan(asked(*where), base.catalog).where


def ids(*segments):
    return {one.id for one in segments}


def commit(base, *segments, replaces=(), where=(), transaction=W2, deletes=0):
    told = sealed_by_holders(base, *segments)
    more = {"replaces": replaced(*replaces), "covers": where, "deletes": deletes}
    return commit_as_told(base, *told, transaction=transaction, **more)


@pytest.fixture
def base():
    made = filled(ground(), LOW, MIDDLE, HIGH)
    return opened(made, W2)


def test_a_plan_tells_segments_that_go_as_a_whole_from_those_with_rows_to_keep(base):
    assert planned(base) == (set(), ids(LOW, MIDDLE, HIGH))
    assert planned(base, *FROM_THREE) == (ids(LOW), ids(MIDDLE, HIGH))
    assert planned(base, *FIVE) == (ids(MIDDLE), set())
    assert planned(base, ("a", ">", "3"), ("b", ">=", "1")) == (ids(MIDDLE), ids(HIGH))
    assert planned(base, ("a", "IS NULL")) == (set(), set())


def test_a_plan_waits_for_statements_that_may_give_rows_back(base):
    procedure = base.begin(delete(("a", "=", "5")))
    with pytest.raises(Refused) as caught:
        planned(base, *FIVE)
    assert caught.value.code == "UNDER_WAY"
    base.commit(roll_back(procedure, base.catalog, elapsed_ns=1))
    assert planned(base, *FIVE) == (ids(MIDDLE), set())
    procedure = base.begin(drop_column("b"))
    with pytest.raises(Refused) as caught:
        planned(base)
    assert caught.value.code == "UNDER_WAY"
    base.commit(finish(procedure, base.catalog))
    assert planned(base) == (set(), ids(LOW, MIDDLE, HIGH))


def test_a_write_may_replace_many_values(base):
    values = [str(one) for one in range(REPLACED_VALUES_MAX)]
    assert planned(base, ("a", "IN", *values)) == (ids(LOW, MIDDLE, HIGH), set())
    assert commit(base, replaces=(LOW, MIDDLE, HIGH), where=covers(base, ("a", "IN", *values)))
    with pytest.raises(Refused) as caught:
        planned(base, ("a", "IN", *values, "-1"))
    assert caught.value.code == "TOO_MANY_CONDITIONS"


def test_old_rows_go_and_new_rows_come_in_one_transaction(base):
    base.commit(commit(base, new(4), replaces=(MIDDLE,), where=covers(base, *FIVE)))
    assert {one.id for one in base.catalog.bucket_segments(TABLE, 0)} == ids(LOW, HIGH, new(4))
    assert base.catalog.replaced.one((TABLE, 0), MIDDLE.id), "scans that were planned before go on in it"
    assert base.catalog == base.restored()


def test_rows_that_were_added_meanwhile_are_a_conflict_where_they_are_covered(base):
    where = covers(base, *FIVE)
    third = opened(base, hex_128(0xA3))
    more = segment(7, transaction=hex_128(0xA3), statistics=bounds(a=(4, 6), b=(1, 9)))
    third.commit(commit_as_told(base, *sealed_by_holders(base, more), transaction=hex_128(0xA3)))
    assert refused(commit, base, new(4), replaces=(MIDDLE,), where=where) == "CONFLICT"
    assert refused(commit, base, new(4), where=()) == "CONFLICT", "all rows are covered"
    assert commit(base, new(4), replaces=(MIDDLE,), where=None), "who does not cover does not look"
    assert commit(base, new(4), replaces=(HIGH,), where=covers(base, ("a", ">", "7")))
    assert commit(base, new(4), replaces=(MIDDLE, more), where=where)


def test_many_values_are_read_once_however_many_buckets_and_segments_there_are(monkeypatch):
    base = opened(filled(ground(buckets=8), LOW, MIDDLE, HIGH), W2)
    read = []
    of_one = filters.may_fulfil
    monkeypatch.setattr(filters, "may_fulfil", lambda *about: read.append(about) or of_one(*about))
    where = covers(base, ("a", "IN", *map(str, range(2, 9))))
    assert len(read) == 2, "which segments may have rows, and which have no others"
    read.clear()
    assert refused(commit, base, new(4), where=where) == "CONFLICT"
    assert len(read) == 1


def test_an_empty_table_is_covered_too():
    base = opened(ground(), W2)
    assert commit(base, new(4), where=())
    filled(base, LOW)
    assert refused(commit, base, new(4), where=()) == "CONFLICT"


def test_rows_that_were_taken_meanwhile_are_found(base):
    where = covers(base, *FIVE)
    run(base, delete(("a", "=", "5")))
    assert refused(commit, base, new(4), replaces=(MIDDLE,), where=where) == "REWRITE_STALE"
    base.commit(commit(base, new(4), replaces=(MIDDLE,), where=where, deletes=1))
    opened(base, hex_128(0xA3))
    again = segment(5, transaction=hex_128(0xA3), statistics=bounds(a=(5, 5), b=(1, 9)))
    how = {"replaces": (MIDDLE,), "where": None, "deletes": 1, "transaction": hex_128(0xA3)}
    assert refused(commit, base, again, **how) == "REWRITE_STALE"


def test_a_column_of_the_conditions_that_was_dropped_is_a_conflict(base):
    where = covers(base, ("b", "=", "5"))
    run(base, drop_column("b"))
    alone = new(4, bounds(a=(1, 9)))
    assert refused(commit, base, alone, replaces=(LOW, MIDDLE, HIGH), where=where) == "CONFLICT"


@pytest.mark.parametrize("values", [(), ("1", "2"), ("x",)])
def test_conditions_that_no_leader_has_planned_are_refused(base, values):
    field = base.catalog.table(TableName("db", "t")).fields[0]
    odd = (FieldFilter(field=field, operator="=", values=values),)
    with pytest.raises(Refused) as caught:
        commit(base, new(4), replaces=(MIDDLE,), where=odd)
    assert caught.value.code == "BAD_MESSAGE"


def test_what_was_there_at_the_first_plan_is_there_at_the_second(base):
    first = plan_scan(asked(*FIVE), base.catalog)
    begun = begun_by(first, asked(*FIVE).where)
    assert begun.seen == ids(MIDDLE)
    assert still_there(begun, first, first.facts) == first
    run(base, rename("b", "c"))
    again = plan_scan(asked(*FIVE), base.catalog)
    assert still_there(begun, again, first.facts) == again
    base.commit(commit(base, segment(7, transaction=W2, statistics=bounds(a=(4, 6), b=(1, 9))), where=None))
    more = plan_scan(asked(*FIVE), base.catalog)
    with pytest.raises(Refused, match="further ones were added"):
        still_there(begun, more, first.facts)
    old_ones = still_there(msgspec.structs.replace(begun, isolation="snapshot"), more, first.facts)
    assert {one.id for one in old_ones.segments} == ids(MIDDLE)


def later(base, begun):
    """A second plan, as a client asks for it."""
    return plan_scan(msgspec.structs.replace(asked(*FIVE), follows=begun.since), base.catalog)


def compacted(base, *old_ones, transaction=W2, number=7):
    """Their rows are in another segment."""
    opened(base, transaction)
    made = segment(number, transaction=transaction, statistics=bounds(a=(1, 9), b=(1, 9)))
    told = sealed_by_holders(base, made)
    more = {"replaces": replaced(*old_ones), "kept": 1, "keeps_rows": True}
    base.commit(commit_as_told(base, *told, transaction=transaction, **more))
    return made


def test_rows_that_a_compaction_has_put_elsewhere_are_still_there(base):
    first = plan_scan(asked(*FIVE), base.catalog)
    begun = begun_by(first, asked(*FIVE).where)
    made = compacted(base, LOW, MIDDLE)
    second = later(base, begun)
    assert second.stayed
    assert {one.segment for one in replaced_by(still_there(begun, second, first.facts))} == {made.id}


def test_who_has_read_whole_segments_needs_them_as_they_were(base):
    first = plan_scan(asked(*FIVE), base.catalog)
    begun = msgspec.structs.replace(begun_by(first, asked(*FIVE).where), keeps=False)
    assert still_there(begun, later(base, begun), first.facts)
    compacted(base, LOW, MIDDLE)  # LOW has rows that the write has not read
    assert later(base, begun).stayed
    with pytest.raises(Refused, match="are in other files"):
        still_there(begun, later(base, begun), first.facts)


def test_rows_that_were_added_and_compacted_are_a_conflict(base):
    first = plan_scan(asked(*FIVE), base.catalog)
    begun = begun_by(first, asked(*FIVE).where)
    added = segment(7, transaction=W2, statistics=bounds(a=(4, 6), b=(1, 9)))
    base.commit(commit(base, added, where=None))
    compacted(base, MIDDLE, added, transaction=hex_128(0xA5))
    assert not later(base, begun).stayed
    with pytest.raises(Refused, match="they were replaced or deleted"):
        still_there(begun, later(base, begun), first.facts)


def test_rows_that_were_replaced_and_compacted_are_a_conflict(base):
    first = plan_scan(asked(*FIVE), base.catalog)
    begun = begun_by(first, asked(*FIVE).where)
    base.commit(commit(base, replaces=(LOW,), where=None))
    compacted(base, MIDDLE, HIGH, transaction=hex_128(0xA5))
    assert not later(base, begun).stayed
    with pytest.raises(Refused, match="they were replaced or deleted"):
        still_there(begun, later(base, begun), first.facts)


def test_conditions_that_are_about_another_column_since_a_rename_are_a_conflict(base):
    """The new rows were held against the column that had the name when the write began."""
    first = plan_scan(asked(*FIVE), base.catalog)
    begun = begun_by(first, asked(*FIVE).where)
    run(base, rename("a", "c"))
    run(base, rename("b", "a"))
    again = plan_scan(asked(*FIVE), base.catalog)
    with pytest.raises(Refused, match="columns of its conditions were renamed") as caught:
        still_there(msgspec.structs.replace(begun, seen=frozenset()), again, first.facts)
    assert caught.value.code == "CONFLICT"


def test_what_is_no_column_is_refused(base):
    with pytest.raises(NotFound):
        planned(base, ("nothing", "=", "1"))


def test_the_record_of_the_write_counts_all_its_rows(base):
    made = written(commit(base, new(4), new(5), replaces=(MIDDLE,), where=covers(base, *FIVE)))
    assert [one.rows for one in made.values() if getattr(one, "state", None) == "COMMITTED"] == [20]
