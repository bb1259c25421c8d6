"""Plans of scans of the past, from the history of a real meta storage."""

import msgspec
import pytest

from leasehold.coordinator.data.plans import Plans
from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS, first_records, read_catalog
from leasehold.coordinator.user_turns import UserTurns
from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.commit_times import encode_commit_time
from leasehold.core.words.messages import PlanChanges, PlanScan
from leasehold.core.words.operations import Change, Txn
from leasehold.core.words.records import (
    ColumnStatistics,
    Comparison,
    DeleteRecord,
    ReplacedRecord,
    SegmentFormat,
    UseState,
    Widening,
)
from leasehold.core.words.statements import TableName
from leasehold.errors import Indefinite, LeaseholdError, Refused
from leasehold.metastorage.sqlite import SqliteMetaStorage
from leasehold.sql.parse import parse
from leasehold.sql.where import read_where
from leasehold.testing.threads import NoThreads
from tests.unit.core.catalog_words import segment
from tests.unit.core.ddl_words import ground

T = TableName("db", "t")


class Present:
    """Stands for the writer of a leader that writes nothing meanwhile."""

    def __init__(self, catalog, now_us=None):
        self.catalog = catalog
        self.now_us = now_us

    async def settled(self):
        pass

    def commit_time_us(self):
        return self.now_us

    async def revision_until(self, time_us):
        return self.catalog.revision


class History:
    """A table `db.t (a INT, b INT)` and what happens to it, a revision each."""

    def __init__(self, storage):
        self.storage = storage
        catalog = ground(*map(parse, ("CREATE DATABASE db", "CREATE TABLE db.t (a INT, b INT)"))).catalog
        self.table = catalog.table(T)
        self.begin = (
            *first_records("c" * 32, DEFAULT_SETTINGS),
            *(put(keys.node(one.id), one) for one in catalog.nodes.values()),
            *(put(keys.database(one.id), one) for one in catalog.databases.values()),
        )
        self.made = (
            put(keys.table(self.table.id), self.table),
            *(put(keys.bucket(*key), one) for key, one in catalog.buckets.items()),
        )
        self.count = 0
        self.now_us = None
        """Without it no commit time is kept."""

    async def commit(self, *changes):
        self.count += 1
        own = [Change(keys.LINEAGE, b"%032d" % self.count)]
        if self.now_us is not None:
            own.append(Change(keys.COMMIT_TIME, encode_commit_time(self.now_us)))
        return (await self.storage.txn(Txn(then=(*(one for one in changes if one.key != keys.LINEAGE), *own)))).revision

    async def add(self, number):
        one = segment(self.table.id, number)
        return await self.commit(put(keys.segment(one.table, one.bucket, one.id), one))

    async def replace(self, number, by):
        """A rewrite, of which the old file is kept for a while."""
        old, new = segment(self.table.id, number), segment(self.table.id, by)
        return await self.commit(
            Change(keys.segment(old.table, old.bucket, old.id), None),
            put(keys.replaced(old.table, old.bucket, old.id), ReplacedRecord(segment=old)),
            put(keys.segment(new.table, new.bucket, new.id), new),
        )

    async def release(self, number):
        old = segment(self.table.id, number)
        return await self.commit(Change(keys.replaced(old.table, old.bucket, old.id), None))

    async def plan(self, as_of, **more):
        present = Present(await read_catalog(self.storage), self.now_us)
        plans = Plans(self.storage, UserTurns(NoThreads(), lambda: 0), present)
        return await plans.plan(
            PlanScan(**{"cluster_id": None, "name": "db.t", "columns": None, "as_of": as_of, **more}), None
        )

    async def refused(self, code, as_of=None, **more):
        with pytest.raises(Refused) as caught:
            await self.plan(as_of, **more)
        assert caught.value.code == code
        return caught.value

    async def numbers(self, as_of, **more):
        return [int(one.id[:32], 16) for one in (await self.plan(as_of, **more)).segments]

    async def too_old(self, as_of):
        """The revision that the error names."""
        return int((await self.refused("TOO_OLD", as_of)).hint.rsplit(" ", 1)[-1])


@pytest.fixture
async def history(tmp_path):
    storage = await SqliteMetaStorage.open(tmp_path / "meta.db")
    made = History(storage)
    await made.commit(*made.begin)
    await made.commit(*made.made)
    yield made
    await storage.close()


async def test_the_past_is_grouped_by_what_was_done_to_the_table_since(history):
    table = history.table
    sound = {"format": SegmentFormat.FIELD_IDS, "deletes": 0}
    bounds = [
        ColumnStatistics(field=number, nulls=0, minimum=low, maximum=9) for number, low in ((1, 0), (1, 5), (2, 0))
    ]
    for number, known in ((1, bounds[0]), (2, bounds[1])):
        one = msgspec.structs.replace(segment(table.id, number, **sound), statistics=(known, bounds[2]))
        then = await history.commit(put(keys.segment(one.table, one.bucket, one.id), one))
    wide = msgspec.structs.replace(table.fields[0], type="BIGINT")
    today = msgspec.structs.replace(
        table,
        fields=(wide, table.fields[1]),
        schema_version=2,
        deletes=1,
        widened=(Widening(field=wide.id, before=2, type="INT"),),
    )
    low = DeleteRecord(
        table=table.id,
        number=1,
        state=UseState.IN_USE,
        where=(Comparison(field=wide.id, operator="<", value="3"),),
    )
    await history.commit(put(keys.table(table.id), today), put(keys.delete(table.id, 1), low))
    plan = await history.plan(then, grouped=True)
    assert [one.type for one in plan.fields] == ["INT", "INT"]
    assert [(one.deletes, one.columns[0].type) for one in plan.grouped.groups] == [((1,), "INT"), ((), "INT")]
    assert [one.type for one in plan.grouped.fields] == ["BIGINT"], "the value of the DELETE may need it"
    assert all(one.statistics == () for one in plan.segments)
    assert (await history.plan(then)).grouped is None


async def test_a_scan_of_the_past_has_the_segments_of_its_revision(history):
    first, second = await history.add(1), await history.add(2)
    assert await history.numbers(first) == [1]
    assert await history.numbers(second) == [1, 2]
    assert (await history.plan(first)).as_of == first
    assert (await history.plan(first)).facts.revision == second, "it is read on the present view"


async def test_what_a_rewrite_has_replaced_is_there_until_it_is_released(history):
    before = await history.add(1)
    after = await history.replace(1, by=2)
    assert await history.numbers(before) == [1]
    assert await history.numbers(after) == [2]
    await history.release(1)
    assert await history.numbers(after) == [2]
    assert await history.too_old(before) == after


async def test_a_revision_that_is_not_kept_is_refused_with_the_oldest(history):
    first, second, third = [await history.add(number) for number in (1, 2, 3)]
    await history.storage.compact(second)
    assert await history.too_old(first) == second
    assert await history.numbers(second) == [1, 2]
    await history.replace(1, by=4)
    await history.release(1)
    assert await history.too_old(first) == await history.too_old(third) == third + 1


async def test_the_oldest_revision_of_a_table_is_told_only_while_the_table_has_the_name(history):
    first, second = await history.add(1), await history.add(2)
    await history.storage.compact(second)
    present = Present(await read_catalog(history.storage))
    plans = Plans(history.storage, UserTurns(NoThreads(), lambda: 0), present)
    oldest = plans._oldest

    async def renamed_meanwhile(*asked, **more):
        found = await oldest(*asked, **more)
        other = msgspec.structs.replace(history.table, id=history.table.id + 1)
        hidden = msgspec.structs.replace(history.table, name="old")
        changes = [put(keys.table(one.id), one) for one in (hidden, other)]
        present.catalog = present.catalog.changed(changes)
        return found

    plans._oldest = renamed_meanwhile
    with pytest.raises(Indefinite) as caught:
        await plans.plan(PlanScan(cluster_id=None, name="db.t", columns=None, as_of=first), None)
    assert caught.value.code == "BUSY"


async def test_changes_have_the_commit_times_that_are_kept(history):
    async def add(number, time_us):
        history.now_us = time_us
        one = segment(history.table.id, number, commit=history.count + 1)
        one = msgspec.structs.replace(one, number=number)
        added = await history.commit(put(keys.segment(one.table, one.bucket, one.id), one))
        assert added == one.commit
        return added

    async def changes(since, until=None):
        plans = Plans(history.storage, UserTurns(NoThreads(), lambda: 0), Present(await read_catalog(history.storage)))
        request = PlanChanges(cluster_id=None, name="db.t", columns=None, since=since, until=until)
        plan = await plans.plan(request, None)
        return [(one.revision, one.committed_us) for one in plan.commits], plan.until

    begin = history.count
    times = [None, 1_000, 2_000, 3_000]
    made = [await add(number, time) for number, time in enumerate(times, start=1)]
    told = list(zip(made, times, strict=True))
    assert await changes(begin) == (told, made[-1])
    assert await changes(made[0], made[2]) == (told[1:3], made[2])
    await history.storage.compact(made[2])
    forgotten = [(one, None) for one in made[:2]]
    assert await changes(begin) == (forgotten + told[2:], made[-1])


async def test_before_the_table_was_there(history):
    assert await history.too_old(1) == 2
    assert await history.numbers(2) == []


async def test_a_revision_that_does_not_exist_yet(history):
    newest = await history.add(1)
    with pytest.raises(Refused) as caught:
        await history.plan(newest + 1)
    assert caught.value.code == "FUTURE_REVISION"
    assert str(newest) in caught.value.text


async def test_the_columns_are_those_of_the_revision_but_for_dropped_ones(history):
    before = await history.add(1)
    a, b = history.table.fields
    renamed = (msgspec.structs.replace(a, name="c", type="BIGINT"), b)
    await history.commit(put(keys.table(history.table.id), msgspec.structs.replace(history.table, fields=renamed)))
    assert [(one.name, one.type) for one in (await history.plan(before)).fields] == [("a", "INT"), ("b", "INT")]
    where = read_where("a = 1")
    assert [one.field.type for one in (await history.plan(before, where=where)).where] == ["INT"]
    with pytest.raises(LeaseholdError) as caught:
        await history.plan(before, columns=("c",))
    assert caught.value.code == "NOT_FOUND"
    dropped = (msgspec.structs.replace(a, state=UseState.PRE_DELETE), b)
    await history.commit(put(keys.table(history.table.id), msgspec.structs.replace(history.table, fields=dropped)))
    with pytest.raises(Refused) as caught:
        await history.plan(before)
    assert caught.value.code == "COLUMN_DROPPED"
    assert [one.name for one in (await history.plan(before, columns=("b",))).fields] == ["b"]
    with pytest.raises(Refused) as caught:
        await history.plan(before, columns=("b",), where=where)
    assert caught.value.code == "COLUMN_DROPPED", "how many segments are left out tells of its values"


async def test_there_is_no_revision_before_the_first(history):
    assert await history.too_old(-1) == await history.too_old(0) == 2


async def test_a_table_that_was_dropped_is_not_there_for_the_hint(history):
    first = await history.add(1)
    hidden = msgspec.structs.replace(history.table, state=UseState.PRE_DELETE)
    await history.commit(put(keys.table(history.table.id), hidden))
    back = await history.commit(put(keys.table(history.table.id), history.table))
    assert await history.numbers(first) == [1]
    assert await history.too_old(back - 1) == back


async def test_plans_that_hold_conditions_against_segments_leave_the_loop(history):
    """So do those of the past."""
    first = await history.add(1)
    catalog, ran = await read_catalog(history.storage), []

    class Noting(NoThreads):
        async def run(self, compute):
            ran.append(compute)
            return await super().run(compute)

    plans = Plans(history.storage, UserTurns(Noting(), lambda: 0), Present(catalog))
    for more in ({"where": read_where("a = 1")}, {"as_of": first}, {}):
        await plans.plan(PlanScan(**{"cluster_id": None, "name": "db.t", "columns": None, **more}), None)
    assert len(ran) == 2


T0_US = 1_800_000_000_000_000
SECOND_US = 1_000_000


async def test_a_time_stands_for_the_newest_revision_that_was_committed_by_then(history):
    revisions = {}
    for number in range(1, 9):
        history.now_us = T0_US + number // 2 * SECOND_US  # two revisions have one time
        revisions[number] = await history.add(number)
    history.now_us += 10 * SECOND_US
    for number in range(2, 9):
        at_us = T0_US + number // 2 * SECOND_US
        last = min(number | 1, 8)
        for time_us, expected in ((at_us, last), (at_us + 1, last), (at_us - 1, (number & ~1) - 1)):
            plan = await history.plan(None, as_of_us=time_us)
            assert plan.as_of == revisions[expected], (number, time_us)
            assert [int(one.id[:32], 16) for one in plan.segments] == list(range(1, expected + 1))


async def test_a_time_in_the_future_is_refused_and_the_present_is_not(history):
    history.now_us = T0_US
    newest = await history.add(1)
    history.now_us += 5
    assert (await history.plan(None, as_of_us=T0_US + 5)).as_of == newest
    error = await history.refused("FUTURE_REVISION", as_of_us=T0_US + 6)
    assert (error.text, error.hint) == (
        "2027-01-15 08:00:00.000006Z is in the future, by the clock of the leader",
        "leave the time out to read the present",
    )


async def test_a_time_before_what_is_kept_is_refused_with_the_oldest(history):
    history.now_us = T0_US
    first, *_ = [await history.add(number) for number in (1, 2, 3)]
    history.now_us = T0_US + SECOND_US
    fourth = await history.add(4)
    await history.storage.compact(fourth)
    error = await history.refused("TOO_OLD", as_of_us=T0_US)
    assert error.text == "the newest revision of 2027-01-15 08:00:00Z is not kept any more"
    assert error.hint == f"the oldest that can be read is revision {fourth}, committed at 2027-01-15 08:00:01Z"
    assert (await history.plan(None, as_of_us=T0_US + SECOND_US)).as_of == fourth
    assert (await history.refused("TOO_OLD", first)).hint == error.hint, "the same for a revision"


async def test_what_a_rewrite_has_replaced_is_too_old_by_its_time_too(history):
    history.now_us = T0_US
    await history.add(1)
    history.now_us += SECOND_US
    after = await history.replace(1, by=2)
    await history.release(1)
    error = await history.refused("TOO_OLD", as_of_us=T0_US)
    assert error.hint == f"the oldest that can be read is revision {after}, committed at 2027-01-15 08:00:01Z"


async def test_revisions_from_before_commit_times_were_kept_are_known_by_their_numbers_alone(history):
    before = await history.add(1)
    history.now_us = T0_US
    error = await history.refused("TOO_OLD", as_of_us=T0_US)
    assert error.text.endswith("is not known: it was committed before commit times were kept")
    first = await history.add(2)
    error = await history.refused("TOO_OLD", as_of_us=T0_US - 1)
    assert error.hint == f"the oldest that can be read is revision {first}, committed at 2027-01-15 08:00:00Z"
    assert (await history.plan(None, as_of_us=T0_US)).as_of == first
    assert await history.numbers(before) == [1]
    assert (await history.refused("TOO_OLD", as_of_us=-1)).code == "TOO_OLD"


async def test_a_revision_and_a_time_are_refused_together(history):
    await history.refused("BAD_MESSAGE", 1, as_of_us=1)


@pytest.mark.parametrize("as_of", [None, 2])
async def test_a_column_that_is_asked_for_twice_is_refused(history, as_of):
    await history.refused("BAD_SCHEMA", as_of, columns=("a", "A"))
