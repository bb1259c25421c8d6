"""What every target of `restore` must do. A backend subclasses `RestoreSuite` and gives `ground`."""

from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Final, Protocol

import pytest

from leasehold.coordinator.restore import restore
from leasehold.coordinator.stored_catalog import read_catalog
from leasehold.core.membership.generations import end_of
from leasehold.core.words import keys
from leasehold.core.words.lineage import next_lineage
from leasehold.core.words.operations import KeyValue
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError
from leasehold.ids import Revision
from leasehold.limits.membership import GENERATION_GAP
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.contract import MetaStorage
from leasehold.metastorage.restore_target import RestoreTarget
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from tests.backup_words import CLUSTER_ID, WALL_S, begin, commit, database, file_of, messages_of

LONGEST_NS: Final = 7 * SECOND_NS


class RestoreGround(Protocol):
    """A place that is empty at first."""

    def target(self) -> RestoreTarget: ...

    async def open(self) -> MetaStorage:
        """What a coordinator finds there."""
        ...

    async def content(self) -> object:
        """All that is there, to compare."""
        ...


class Saved:
    """A meta storage, and the file of its backup."""

    def __init__(self, storage: MemoryMetaStorage, file: Path) -> None:
        self.storage = storage
        self.file = file

    async def restore(
        self, target: RestoreTarget, *, newest: bool = False, on_progress: Callable[[int, int], None] = lambda *_: None
    ) -> int:
        """The generation after it."""
        longest_ns = None if newest else LONGEST_NS
        done = await restore(self.file, target, wall_s=WALL_S, longest_lease_ns=longest_ns, on_progress=on_progress)
        return 1 if done.begun is None else done.begun.cluster.generation


async def whole(storage: MetaStorage, revision: Revision | None = None) -> list[KeyValue]:
    return list((await storage.range(keys.WATCH_START, keys.WATCH_END, revision=revision, limit=1_000)).items)


async def changed_at(storage: MetaStorage, revision: Revision) -> object:
    async with aclosing(storage.watch(keys.WATCH_START, keys.WATCH_END, revision)) as batches:
        return await anext(batches)


class RestoreSuite:
    @pytest.fixture
    def ground(self) -> RestoreGround:
        raise NotImplementedError

    @pytest.fixture
    async def saved(self, tmp_path: Path) -> Saved:
        storage = MemoryMetaStorage(MemoryStore())
        await begin(storage, databases=50)
        (tmp_path / "backup").write_bytes(file_of(await messages_of(storage)))
        return Saved(storage, tmp_path / "backup")

    async def test_the_newest_state_goes_on_as_it_was(self, saved: Saved, ground: RestoreGround) -> None:
        before = await saved.storage.status()
        assert await saved.restore(ground.target(), newest=True) == 1
        storage = await ground.open()
        try:
            status = await storage.status()
            assert (status.cluster_id, status.latest, status.minimum) == (CLUSTER_ID, before.latest, before.latest)
            assert await whole(storage) == await whole(saved.storage)
            # A node that lacks this one revision replays it, and one that has it can prove its history.
            assert await changed_at(storage, before.latest) == await changed_at(saved.storage, before.latest)
            leadership = await storage.campaign("c1")
            assert leadership.term > GENERATION_GAP
            await commit(storage, database(99))
            assert (await storage.status()).latest == (await changed_at(storage, Revision(before.latest + 1))).revision
        finally:
            await storage.close()

    async def test_the_next_generation_begins_with_the_revision_after_it(
        self, saved: Saved, ground: RestoreGround
    ) -> None:
        before = await read_catalog(saved.storage)
        assert await saved.restore(ground.target()) == WALL_S
        storage = await ground.open()
        try:
            assert await whole(storage, before.revision) == await whole(saved.storage)
            batch = await changed_at(storage, Revision(before.revision + 1))
            catalog = await read_catalog(storage)
            assert batch.revision == catalog.revision == before.revision + 1
            assert catalog.lineage == next_lineage(before.lineage, batch.changes)
            assert catalog.cluster is not None
            assert catalog.cluster.generation == WALL_S
            assert catalog.cluster.strangers
            end = end_of(catalog.cluster, before.cluster.generation)
            assert (end.revision, end.lineage) == (before.revision, before.lineage)
            assert catalog.largest_lease.duration_ns == LONGEST_NS
            assert catalog.counters.next_node > GENERATION_GAP
            assert {one.name for one in catalog.nodes.values()} == {"node-1", "node-2"}
            leader = await storage.leader()
            assert (leader.generation, leader.holder) == (WALL_S, "")
            leadership = await storage.campaign("c1")
            assert leadership.term == leader.term + 1 > GENERATION_GAP
            await commit(storage, database(99))
            found = await storage.get(keys.LINEAGE)
            assert found.modified > catalog.revision
        finally:
            await storage.close()

    async def test_a_state_whose_revision_is_not_known_begins_with_the_new_generation(
        self, saved: Saved, ground: RestoreGround
    ) -> None:
        before = await read_catalog(saved.storage)
        await restore(saved.file, ground.target(), wall_s=WALL_S, longest_lease_ns=LONGEST_NS, is_replayable=False)
        storage = await ground.open()
        try:
            status = await storage.status()
            assert status.minimum == status.latest == before.revision + 1
            batch = await changed_at(storage, status.latest)
            catalog = await read_catalog(storage)
            assert catalog.cluster.generation == WALL_S
            assert catalog.lineage == next_lineage(before.lineage, batch.changes), "a node at the one before goes on"
            changed = {change.key: change.value for change in batch.changes}
            expected = {one.key: one.value for one in await whole(saved.storage)} | changed
            assert {one.key: one.value for one in await whole(storage)} == expected
            assert (await storage.campaign("c1")).term > GENERATION_GAP
            await commit(storage, database(99))
            assert (await storage.status()).latest > status.latest
        finally:
            await storage.close()

    async def test_what_is_restored_is_there_after_another_start(self, saved: Saved, ground: RestoreGround) -> None:
        await saved.restore(ground.target())
        storage = await ground.open()
        await storage.campaign("c1")
        await commit(storage, database(99))
        catalog = await read_catalog(storage)
        await storage.close()
        storage = await ground.open()
        assert await read_catalog(storage) == catalog
        await storage.close()

    async def test_a_meta_storage_that_is_there_is_refused_and_left_as_it_is(
        self, saved: Saved, ground: RestoreGround
    ) -> None:
        await saved.restore(ground.target())
        before = await ground.content()
        for newest in (True, False):
            with pytest.raises(LeaseholdError) as raised:
                await saved.restore(ground.target(), newest=newest)
            assert raised.value.code == ErrorCode.META_STORAGE_EXISTS
            assert raised.value.exit_code == 3
        assert await ground.content() == before

    async def test_a_new_meta_storage_without_a_cluster_is_refused_too(
        self, saved: Saved, ground: RestoreGround
    ) -> None:
        storage = await ground.open()
        await storage.close()
        before = await ground.content()
        with pytest.raises(LeaseholdError) as raised:
            await saved.restore(ground.target())
        assert raised.value.code == ErrorCode.META_STORAGE_EXISTS
        assert await ground.content() == before

    async def test_one_that_is_made_while_it_is_restored_stays(self, saved: Saved, ground: RestoreGround) -> None:
        """Two restores at the same time: one of them is done, the other is refused."""
        target, other = ground.target(), ground.target()
        await target.check(0)
        await saved.restore(other, newest=True)
        before = await ground.content()
        with pytest.raises(LeaseholdError) as raised:
            await saved.restore(target)
        assert raised.value.code == ErrorCode.META_STORAGE_EXISTS
        assert await ground.content() == before

    @pytest.mark.parametrize("cut", [0, 1, 100, -40, -1])
    async def test_a_file_that_is_cut_or_altered_writes_nothing(
        self, saved: Saved, ground: RestoreGround, cut: int
    ) -> None:
        before, blob = await ground.content(), saved.file.read_bytes()
        altered = bytearray(blob)
        altered[cut] ^= 1
        for wrong in (blob[:cut], bytes(altered)):
            saved.file.write_bytes(wrong)
            with pytest.raises(LeaseholdError) as raised:
                await saved.restore(ground.target())
            assert raised.value.exit_code == 3
        assert await ground.content() == before

    async def test_a_file_that_changes_while_it_is_read_makes_no_meta_storage(
        self, saved: Saved, ground: RestoreGround
    ) -> None:
        blob = bytearray(saved.file.read_bytes())
        blob[-1] ^= 1

        class Changing:
            """The file is replaced between the two times that it is read."""

            def __init__(self, target: RestoreTarget) -> None:
                self._target = target
                self.write = target.write

            async def check(self, size_bytes: int) -> None:
                await self._target.check(size_bytes)
                saved.file.write_bytes(blob)

        with pytest.raises(LeaseholdError) as raised:
            await saved.restore(Changing(ground.target()))
        assert raised.value.code == ErrorCode.CORRUPT
        await self.can_begin_anew(saved, ground)

    async def can_begin_anew(self, saved: Saved, ground: RestoreGround) -> None:
        """Nothing is there that a coordinator would serve, and the next restore takes place."""
        saved.file.write_bytes(file_of(await messages_of(saved.storage)))
        assert await saved.restore(ground.target()) == WALL_S
        storage = await ground.open()
        assert (await storage.status()).cluster_id == CLUSTER_ID
        await storage.close()

    async def test_a_clock_that_was_set_back_is_refused(self, saved: Saved, ground: RestoreGround) -> None:
        before = await ground.content()
        for longest_ns in (None, LONGEST_NS):
            with pytest.raises(LeaseholdError) as raised:
                await restore(saved.file, ground.target(), wall_s=1_000, longest_lease_ns=longest_ns)
            assert raised.value.code == ErrorCode.CLOCK_SET_BACK
        assert await ground.content() == before

    async def test_it_tells_how_far_it_is(self, saved: Saved, ground: RestoreGround) -> None:
        told: list[tuple[int, int]] = []
        await saved.restore(ground.target(), on_progress=lambda keys_written, of: told.append((keys_written, of)))
        count = len(await whole(saved.storage))
        assert told[-1] == (count, count)
