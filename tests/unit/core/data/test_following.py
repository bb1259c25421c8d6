"""Following a table: each row that is added comes once, and never a gap (`core/data/following.py`)."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.data.following import added, now
from leasehold.core.words import keys
from leasehold.core.words.messages import Replaced
from leasehold.core.words.operations import Change
from leasehold.core.words.records import DeleteRecord, UseState
from leasehold.errors import NotFound, Refused
from tests.unit.core.catalog_words import create_table, hex_128
from tests.unit.core.data.write_words import TABLE, commit_as_told, ground, opened, sealed_by_holders, segment


class Table:
    """A table with commits, and a model of which rows each segment has."""

    def __init__(self):
        self.base = ground(create_table("u"))
        self.rows = {}
        self._drawn = 0

    @property
    def record(self):
        return self.base.catalog.tables[TABLE]

    def now(self):
        return now(self.record, self.base.catalog)

    def added(self, follow, **how):
        return added(follow, self.record, self.base.catalog, **{"ignores_taken": False, **how})

    def rows_added(self, follow):
        return [row for one in self.added(follow) for row in self.rows[one.id]]

    def commit(self, *rows, replaces=(), kept=0, keeps_rows=False):
        """A segment with each of `rows`."""
        self._drawn += 1
        transaction = hex_128(0xC00 + self._drawn)
        opened(self.base, transaction)
        staged = [segment(number, transaction=transaction) for number in range(1, len(rows) + 1)]
        segments = sealed_by_holders(self.base, *staged)
        self.rows.update((one.id, each) for one, each in zip(segments, rows, strict=True))
        told = tuple(Replaced(bucket=0, segment=one) for one in replaces)
        self.base.commit(
            commit_as_told(
                self.base, *segments, transaction=transaction, replaces=told, kept=kept, keeps_rows=keeps_rows
            )
        )
        return [one.id for one in segments]

    def rewrite(self, *names):
        rows = [row for one in names for row in self.rows[one]]
        return self.commit(rows, replaces=names, kept=1, keeps_rows=True)[0]

    def visible(self):
        return sorted(self.base.catalog.segments.get((TABLE, 0), {}))

    def release(self, *names):
        self.base.commit([Change(keys.replaced(TABLE, 0, one), None) for one in names])

    def kept(self):
        return sorted(self.base.catalog.replaced.get((TABLE, 0), {}))

    def delete(self, state=UseState.IN_USE):
        number = self.record.deletes + 1
        self.base.put(keys.delete(TABLE, number), DeleteRecord(table=TABLE, number=number, state=state, where=()))
        self.base.put(keys.table(TABLE), msgspec.structs.replace(self.record, deletes=number))


def refused(call, *args, **how):
    with pytest.raises(Refused) as caught:
        call(*args, **how)
    return caught.value.code


def test_what_is_added_comes_in_the_order_of_its_commits():
    table = Table()
    before = table.now()
    table.commit([1], [2])
    table.commit([3])
    assert table.rows_added(before) == [1, 2, 3]
    assert table.rows_added(table.now()) == []


def test_a_reader_may_stop_between_two_segments_of_a_commit():
    table = Table()
    before = table.now()
    table.commit([1], [2])
    first = table.added(before)[0]
    assert table.rows_added(msgspec.structs.replace(before, number=first.number + 1)) == [2]


def test_what_was_rewritten_comes_as_it_was():
    table = Table()
    old = table.commit([1])
    before = table.now()
    new = table.commit([2], [3])
    table.rewrite(*old, *new)
    assert table.rows_added(before) == [2, 3]
    table.rewrite(*table.visible())
    assert table.rows_added(before) == [2, 3]
    assert table.rows_added(table.now()) == []


@pytest.mark.parametrize("released", [0, 1])
def test_what_was_rewritten_and_is_gone_leaves_no_gap(released):
    table = Table()
    before = table.now()
    new = table.commit([1], [2])
    table.rewrite(*new)
    after = table.now()
    table.release(new[released])
    assert refused(table.added, before) == "TOO_OLD"
    assert table.rows_added(after) == []


def test_rows_that_stay_when_others_are_replaced_are_not_new():
    table = Table()
    old = table.commit([1, 2])
    before = table.now()
    table.commit([3], [2], replaces=old, kept=1)
    assert refused(table.added, before) == "ROWS_TAKEN_AWAY"
    assert [table.rows[one.id] for one in table.added(before, ignores_taken=True)] == [[3]]
    assert table.rows_added(table.now()) == []


def test_a_commit_that_only_takes_rows_is_noticed():
    table = Table()
    old = table.commit([1])
    before = table.now()
    table.commit(replaces=old)
    assert refused(table.added, before) == "ROWS_TAKEN_AWAY"
    assert table.rows_added(table.now()) == []


def test_a_delete_counts_once_it_is_past_its_point_of_no_return():
    table = Table()
    before = table.now()
    table.delete(UseState.PRE_DELETE)
    assert table.added(before) == []
    assert table.now() == before
    table.base.put(keys.delete(TABLE, 1), DeleteRecord(table=TABLE, number=1, state=UseState.IN_USE, where=()))
    assert refused(table.added, before) == "ROWS_TAKEN_AWAY"
    assert table.added(before, ignores_taken=True) == []
    assert table.added(table.now()) == []


def test_a_table_that_was_made_again_is_another_one():
    table = Table()
    with pytest.raises(NotFound) as caught:
        table.added(msgspec.structs.replace(table.now(), table=99))
    assert caught.value.code == "TABLE_DROPPED"


def test_another_generation_may_lack_rows():
    table = Table()
    other = msgspec.structs.replace(table.now(), generation=77)
    assert refused(table.added, other, ignores_taken=True) == "ROWS_TAKEN_AWAY"


@pytest.mark.parametrize(
    ("segments", "kept", "keeps_rows"), [(1, 2, False), (1, 1, False), (1, 0, True), (0, -1, False)]
)
def test_a_commit_tells_no_nonsense_of_its_rows(segments, kept, keeps_rows):
    table = Table()
    names = table.commit([1])
    replaces = () if (kept, keeps_rows) == (1, False) else names
    rows = [[1]] * segments
    assert refused(table.commit, *rows, replaces=replaces, kept=kept, keeps_rows=keeps_rows) == "BAD_SEGMENT"


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 3)),
        st.tuples(st.just("rewrite"), st.integers(1, 3)),
        st.tuples(st.just("release"), st.integers(1, 2)),
        st.just(("look", 0)),
    ),
    max_size=25,
)


@given(STEPS)
def test_each_row_comes_once_or_the_reader_is_told(steps):
    table, follow, seen, drawn = Table(), None, [], 0
    follow = table.now()
    for step, size in [*steps, ("look", 0)]:
        match step:
            case "append":
                table.commit(*([drawn + place] for place in range(size)))
                drawn += size
            case "rewrite" if table.visible():
                table.rewrite(*table.visible()[:size])
            case "release" if table.kept():
                table.release(*table.kept()[:size])
            case "look":
                try:
                    seen += table.rows_added(follow)
                except Refused as error:
                    assert error.code == "TOO_OLD"
                    return
                follow = table.now()
    assert seen == list(range(drawn))
