"""What was changed in a table: the rows before and the changes since make the rows of now (`core/data/changes.py`)."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.data import changes
from leasehold.core.data.changes import changed, plan_changes, released
from leasehold.core.data.scan_plan import PlanLimits
from leasehold.core.words import keys
from leasehold.core.words.messages import PlanChanges
from leasehold.core.words.operations import Change
from leasehold.errors import NotFound, Refused
from tests.unit.core.data.test_following import Table as Followed
from tests.unit.core.data.test_following import refused
from tests.unit.core.data.write_words import TABLE


class Table(Followed):
    """With changes, and the rows of its present."""

    @property
    def revision(self):
        return self.base.catalog.revision

    def changed(self, since, **how):
        return changed(self.request(since, **how), self.record, self.base.catalog)

    def request(self, since, **how):
        return PlanChanges(cluster_id=None, name="db.t", columns=None, since=since, **how)

    def rows_changed(self, since, **how):
        """By row how often it came, or went."""
        found = Counter()
        for commit in self.changed(since, **how):
            for one in commit.added:
                found.update(self.rows[one.id])
            for one in commit.taken:
                found.subtract(self.rows[one.id])
        return {row: count for row, count in found.items() if count}

    def present(self):
        return Counter(row for one in self.visible() for row in self.rows[one])

    def release(self, *names):
        entries = [self.base.catalog.replaced.one((TABLE, 0), one) for one in names]
        self.base.commit(released(entries, self.base.catalog))


def test_appended_rows_came():
    table = Table()
    since = table.revision
    table.commit([1], [2])
    table.commit([3])
    assert [len(one.added) for one in table.changed(since)] == [2, 1]
    assert table.rows_changed(since) == {1: 1, 2: 1, 3: 1}
    assert table.rows_changed(table.revision) == {}


def test_each_commit_has_its_revision_and_the_end_is_kept_to():
    table = Table()
    since = table.revision
    table.commit([1])
    first = table.revision
    table.commit([2])
    assert [one.revision for one in table.changed(since)] == [first, table.revision]
    assert table.rows_changed(since, until=first) == {1: 1}
    assert table.rows_changed(first) == {2: 1}


def test_commits_of_one_revision_are_never_told_apart():
    """Else a reader who goes on from that revision would lack one of them."""
    table = Table()
    since = table.revision
    table.commit([1])
    (second,) = table.commit([2])
    first_revision = table.changed(since)[0].revision
    record = table.base.catalog.segments.one((TABLE, 0), second)
    table.base.put(keys.segment(TABLE, 0, second), msgspec.structs.replace(record, commit=first_revision))
    (told,) = table.changed(since)
    assert (told.revision, len(told.added)) == (first_revision, 2)


def test_a_replaced_row_went_and_the_new_one_came():
    table = Table()
    old = table.commit([1, 2])
    since = table.revision
    table.commit([3], [2], replaces=old, kept=1)
    assert table.rows_changed(since) == {1: -1, 3: 1}
    assert len(table.changed(since)) == 1


def test_a_commit_that_only_takes_rows_is_a_change():
    table = Table()
    old = table.commit([1, 2])
    since = table.revision
    table.commit(replaces=old)
    assert table.rows_changed(since) == {1: -1, 2: -1}


def test_a_rewrite_changes_nothing_and_hides_nothing():
    table = Table()
    before = table.revision
    old = table.commit([1], [2])
    since = table.revision
    table.rewrite(*old)
    assert table.changed(since) == []
    assert table.rows_changed(before) == {1: 1, 2: 1}
    table.commit([3], replaces=table.visible())
    assert table.rows_changed(since) == {1: -1, 2: -1, 3: 1}
    assert table.rows_changed(before) == {3: 1}


def test_what_is_released_leaves_no_gap():
    table = Table()
    old = table.commit([1])
    since = table.revision
    table.commit([2], replaces=old)
    after = table.revision
    table.release(*table.kept())
    assert refused(table.changed, since) == "TOO_OLD"
    assert table.changed(after) == []


def test_a_table_that_was_dropped_forgets_what_was_replaced_all_the_same():
    table = Table()
    table.commit([2], replaces=table.commit([1]))
    entries = [table.base.catalog.replaced.one((TABLE, 0), one) for one in table.kept()]
    table.base.commit([Change(keys.table(TABLE), None)])
    assert [one.value for one in released(entries, table.base.catalog)] == [None]


def test_deleted_rows_can_be_read_by_nobody():
    table = Table()
    table.commit([1])
    since = table.revision
    table.base.put(keys.table(TABLE), msgspec.structs.replace(table.record, deleted=since + 1))
    table.commit([2])
    assert refused(table.changed, since) == "ROWS_TAKEN_AWAY"
    assert table.rows_changed(since, ignores_deletes=True) == {2: 1}
    assert table.rows_changed(since, until=since) == {}
    assert table.rows_changed(table.record.deleted) == {2: 1}


@pytest.mark.parametrize("bound", ["since", "until"])
def test_a_revision_that_is_still_to_come(bound):
    table = Table()
    asked = {"since": table.revision, bound: table.revision + 1}
    assert refused(table.changed, **asked) == "FUTURE_REVISION"


def test_a_reader_who_goes_on_is_told_of_another_table_and_another_history():
    table = Table()
    assert table.changed(table.revision, table=TABLE, generation=0 or table.now().generation) == []
    with pytest.raises(NotFound) as caught:
        table.changed(table.revision, table=99)
    assert caught.value.code == "TABLE_DROPPED"
    assert refused(table.changed, table.revision, table=TABLE, generation=77) == "ROWS_TAKEN_AWAY"


def test_a_plan_has_the_commits_that_one_message_can_hold():
    table = Table()
    name = str(table.base.catalog.table_name(table.record))
    since = table.revision
    for number in range(6):
        table.commit([number])
    request = msgspec.structs.replace(table.request(since), name=name)
    whole = plan_changes(request, table.base.catalog)
    assert (len(whole.commits), whole.until) == (6, table.revision)
    size = len(msgspec.json.encode(whole))
    part = plan_changes(request, table.base.catalog, PlanLimits(bytes_max=size // 2))
    assert 0 < len(part.commits) < 6
    assert part.until == part.commits[-1].revision
    rest = plan_changes(msgspec.structs.replace(request, since=part.until), table.base.catalog)
    assert part.commits + rest.commits == whole.commits
    assert refused(plan_changes, request, table.base.catalog, PlanLimits(bytes_max=1)) == "TOO_MANY_SEGMENTS"


def test_a_plan_has_as_many_commits_as_times_are_looked_up(monkeypatch):
    monkeypatch.setattr(changes, "CHANGES_COMMITS_MAX", 2)
    table = Table()
    name = str(table.base.catalog.table_name(table.record))
    since = table.revision
    for number in range(5):
        table.commit([number])
    seen = []
    while since < table.revision:
        plan = plan_changes(msgspec.structs.replace(table.request(since), name=name), table.base.catalog)
        assert len(plan.commits) <= 2
        seen += plan.commits
        since = plan.until
    assert tuple(seen) == tuple(table.changed(seen[0].revision - 1))
    assert len(seen) == 5


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 3)),
        st.tuples(st.just("rewrite"), st.integers(1, 3)),
        st.tuples(st.just("replace"), st.integers(1, 3)),
        st.tuples(st.just("release"), st.integers(1, 2)),
        st.just(("look", 0)),
    ),
    max_size=25,
)


@given(STEPS)
def test_the_rows_before_with_the_changes_since_are_the_rows_of_now(steps):
    """From each revision at which somebody has looked, or the reader is told that they are not kept any more."""
    table, drawn = Table(), 0
    looks = [(table.revision, Counter())]
    for step, size in [*steps, ("look", 0)]:
        match step:
            case "append":
                table.commit(*([drawn + place] for place in range(size)))
                drawn += size
            case "rewrite" if table.visible():
                table.rewrite(*table.visible()[:size])
            case "replace" if table.visible():
                names = table.visible()[:size]
                stay = [row for one in names for row in table.rows[one] if row % 2]
                table.commit([drawn], *([stay] if stay else []), replaces=names, kept=int(bool(stay)))
                drawn += 1
            case "release" if table.kept():
                table.release(*table.kept()[:size])
            case "look":
                looks.append((table.revision, table.present()))
    for number, (since, rows) in enumerate(looks):
        for until, expected in looks[number:]:
            try:
                changes = table.rows_changed(since, until=until)
            except Refused as error:
                assert error.code == "TOO_OLD"
                assert since < table.record.changes_from
                continue
            after = Counter(rows)
            after.update(changes)
            assert +after == expected
