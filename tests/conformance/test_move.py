"""Meta storages moved from files to logs and back, and what stands in the way."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from leasehold.coordinator.migrate import migrate
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.records import CheckpointRow, LogFillingRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, LeaseholdError
from leasehold.ids import ClusterId, EntryId, ObjectId
from leasehold.metastorage.copyable import StoredContent
from leasehold.metastorage.file_move import FileMoveTarget
from leasehold.metastorage.log.log import CHECKPOINT, FORMAT, HEAD, Log
from leasehold.metastorage.log.move import LogSource
from leasehold.metastorage.log.sqlite_replica import SqliteReplicaPlace
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.metastorage.log.store import StoredValue, Swap
from leasehold.metastorage.move import MovePlan
from leasehold.metastorage.sqlite import FILE_NAME
from leasehold.testing.requests import RequestFate, undisturbed
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from tests.backup_words import commit, database
from tests.conformance.move_suite import MoveFaultSuite
from tests.conformance.move_words import (
    FilePlace,
    MemoryLogPlace,
    coordinator_error,
    draw_id,
    facts,
    fill,
    moved,
    opened,
    refusal,
)


class TestFileToLog(MoveFaultSuite):
    @pytest.fixture
    async def source(self, tmp_path: Path) -> FilePlace:
        place = FilePlace(tmp_path / "coordinator")
        await fill(place)
        return place

    @pytest.fixture
    def target(self, tmp_path: Path) -> MemoryLogPlace:
        return MemoryLogPlace(tmp_path, "etcd://127.0.0.1:1/target")

    @pytest.fixture
    def other(self, tmp_path: Path) -> MemoryLogPlace:
        return MemoryLogPlace(tmp_path, "etcd://127.0.0.1:1/other")

    @pytest.fixture
    def like_other(self, tmp_path: Path) -> MemoryLogPlace:
        return MemoryLogPlace(tmp_path, "etcd://127.0.0.1:1/like")

    @pytest.fixture
    def empty(self, tmp_path: Path) -> FilePlace:
        return FilePlace(tmp_path / "empty")

    async def test_the_lock_keeps_coordinators_out_and_a_coordinator_keeps_a_move_out(
        self, source: FilePlace, target: MemoryLogPlace
    ) -> None:
        async with opened(source):
            error = await refusal(moved(source, target))
        assert (error.code, error.exit_code) == (ErrorCode.BAD_DIRECTORY, 3)
        assert "in use by process" in error.text
        assert await target.content() == {}
        end = source.source()
        await end.claim()
        error = await coordinator_error(source)
        await end.close()
        assert isinstance(error, BadDirectory)
        assert "in use by process" in error.text

    async def test_a_damaged_file_does_not_move(self, source: FilePlace, target: MemoryLogPlace) -> None:
        path = source.directory / FILE_NAME
        with contextlib.closing(sqlite3.connect(path)) as file:
            file.execute("UPDATE kv SET value = x'00' WHERE key = (SELECT max(key) FROM kv WHERE key LIKE 'c/data%')")
            file.execute("DELETE FROM kv WHERE revision = (SELECT max(revision) - 3 FROM kv)")
            file.commit()
        before = await source.content()
        error = await refusal(moved(source, target))
        assert (error.code, error.exit_code) == (ErrorCode.CORRUPT, 3)
        assert await source.content() == before
        assert await target.content() == {}

    async def test_the_old_directory_is_not_for_a_coordinator_of_the_store(
        self, source: FilePlace, target: MemoryLogPlace
    ) -> None:
        await moved(source, target)
        place = SqliteReplicaPlace(source.directory)
        error = await refusal(ReplicatedMetaStorage.open(Log(target.store()), place, BoottimeClock(), SystemEntropy()))
        assert error.code == ErrorCode.META_MOVED
        assert "empty --dir" in error.hint
        assert target.where in error.hint

    async def test_what_is_not_what_was_read_does_not_become_a_log(
        self, source: FilePlace, target: MemoryLogPlace
    ) -> None:
        """The store loses a row on the way, and the hash of the chunk with it."""

        def lose(swap: Swap) -> None:
            for key in swap.puts:
                if key.startswith("entry/"):
                    stored = target.kept.values[key]
                    target.kept.values[key] = StoredValue(value=stored.value[:-9] + bytes(9), version=stored.version)

        target.kept.on_swap.append(lose)
        error = await refusal(moved(source, target))
        assert error.code == ErrorCode.CORRUPT
        assert await coordinator_error(source) is None
        assert (await coordinator_error(target)).code == ErrorCode.META_UNFINISHED
        target.kept.on_swap.clear()
        await moved(source, target)

    async def test_a_log_that_another_cluster_fills_is_left_to_it(
        self, source: FilePlace, target: MemoryLogPlace
    ) -> None:
        filling = LogFillingRecord(cluster_id=ClusterId("d" * 32), run=EntryId("e" * 32))
        target.kept.swap(Swap(unchanged={}, puts={HEAD: encode(filling)}))
        before = await target.content()
        error = await refusal(moved(source, target))
        assert (error.code, error.exit_code) == (ErrorCode.META_UNFINISHED, 3)
        assert await target.content() == before
        assert await coordinator_error(source) is None
        error = await coordinator_error(target)
        assert error is not None

    async def test_a_store_without_room_is_refused(self, source: FilePlace, target: MemoryLogPlace) -> None:
        target.kept.quota_bytes = 100_000
        error = await refusal(moved(source, target))
        assert error.code == ErrorCode.STORE_FULL
        assert await target.content() == {}
        assert await coordinator_error(source) is None

    async def test_a_store_that_fills_up_leaves_the_source_in_use(
        self, source: FilePlace, target: MemoryLogPlace
    ) -> None:
        def full(swap: Swap) -> None:
            target.kept.is_full = any(key.startswith("entry/") for key in swap.puts)

        target.kept.on_swap.append(full)
        error = await refusal(moved(source, target))
        assert error.code == ErrorCode.STORE_FULL
        assert await coordinator_error(source) is None
        assert (await coordinator_error(target)).code == ErrorCode.META_UNFINISHED
        target.kept.on_swap.clear()
        target.kept.is_full = False
        await moved(source, target)
        assert await coordinator_error(target) is None

    async def test_what_an_interrupted_run_has_written_is_replaced_by_what_is_there_now(
        self, source: FilePlace, target: MemoryLogPlace, tmp_path: Path
    ) -> None:
        """Until the file is marked, its coordinator may go on."""
        left: list[MemoryLogPlace] = []

        async def keep(request: str) -> RequestFate:
            if request.startswith(("get entry/", "page entry")):
                left.append(target.copy(tmp_path / "target"))
            return RequestFate.ANSWERED

        copy = source.copy(tmp_path / "copy")
        target.before = keep
        await moved(copy, target)
        begun = left[-1]
        assert sum(key.startswith("entry/") for key in begun.kept.values) > 1
        async with opened(source) as storage:
            leadership = await storage.campaign("c1")
            await commit(storage, database(90))
            await storage.compact((await storage.status()).latest, leadership.fence())
            before = await facts(storage)
        await moved(source, begun)
        assert not any(key.startswith(("entry/", "part/")) for key in begun.kept.values), "there is no history any more"
        async with opened(begun) as storage:
            assert await facts(storage) == before
            await storage.campaign("c2")
            await commit(storage, database(91))

    async def test_a_move_that_is_not_finished_keeps_both_places(
        self, source: FilePlace, target: MemoryLogPlace, other: MemoryLogPlace
    ) -> None:
        async def cut_off(request: str) -> RequestFate:
            is_last = request.startswith(f"swap {HEAD} {CHECKPOINT}")
            return RequestFate.LOST_BEFORE if is_last else RequestFate.ANSWERED

        def full(swap: Swap) -> None:
            target.kept.is_full = any(key.startswith("entry/") for key in swap.puts)

        async def check_kept() -> None:
            for place, code in ((source, ErrorCode.META_MOVED), (target, ErrorCode.META_UNFINISHED)):
                error = await coordinator_error(place)
                assert error is not None
                assert (error.code, "leasehold meta migrate" in error.hint) == (code, True)

        target.before = cut_off
        assert (await refusal(moved(source, target))).code == ErrorCode.UNREACHABLE
        target.before = undisturbed
        await check_kept()
        error = await refusal(moved(source, other))
        assert (error.code, await other.content()) == (ErrorCode.META_MOVED, {})
        assert f"is being moved to {target.where}" in error.text
        target.kept.on_swap.append(full)
        assert (await refusal(moved(source, target))).code == ErrorCode.STORE_FULL
        target.kept.on_swap.clear()
        target.kept.is_full = False
        await check_kept()
        await moved(source, target)
        assert await coordinator_error(target) is None

    async def test_the_leader_of_the_log_can_write_a_checkpoint(
        self, source: FilePlace, target: MemoryLogPlace
    ) -> None:
        await moved(source, target)
        chunks = [key for key in target.kept.values if key.startswith("chunk/")]
        async with opened(target) as storage:
            assert isinstance(storage, ReplicatedMetaStorage)
            leadership = await storage.campaign("c2")
            await commit(storage, database(92))
            await storage.compact((await storage.status()).latest, leadership.fence())
            storage.upkeep.log_bytes_min = 0
            fence = await Log(target.store()).term()
            assert fence is not None
            await storage.upkeep.tidy(fence)
            before = await facts(storage)
        assert chunks
        assert not any(key in target.kept.values for key in chunks), "a newer checkpoint has taken their place"
        async with opened(target) as storage:
            assert await facts(storage) == before

    async def test_a_reservation_that_happens_late_is_known_as_its_own(
        self, source: FilePlace, target: MemoryLogPlace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("leasehold.testing.requests.LATE_S", 0)
        fates, happened = iter([RequestFate.LATE]), asyncio.Event()

        async def late(request: str) -> RequestFate:
            if not request.startswith(f"swap {FORMAT} {HEAD}"):
                return RequestFate.ANSWERED
            fate = next(fates, RequestFate.ANSWERED)
            if fate is RequestFate.ANSWERED:
                await happened.wait()  # what is late happens after the look of the second try
            return fate

        target.kept.on_swap.append(lambda _: happened.set())
        target.before = late
        await moved(source, target)

    async def test_a_second_run_takes_over_from_one_that_hangs(
        self, source: FilePlace, target: MemoryLogPlace, tmp_path: Path
    ) -> None:
        """As after a crash, while a request of the first run is still on its way."""
        copy = source.copy(tmp_path / "copy")
        taken_over = False

        async def overtaken(request: str) -> RequestFate:
            nonlocal taken_over
            if request.startswith("swap entry/") and not taken_over:
                taken_over = True
                target.before = undisturbed
                await moved(copy, target)
            return RequestFate.ANSWERED

        target.before = overtaken
        error = await refusal(moved(source, target))
        assert error.code == ErrorCode.RUNNING
        async with opened(target) as storage:
            assert (await storage.status()).cluster_id is not None


class TestLogToFile(MoveFaultSuite):
    @pytest.fixture
    async def source(self, tmp_path: Path) -> MemoryLogPlace:
        place = MemoryLogPlace(tmp_path, "etcd://127.0.0.1:1/source")
        await fill(place)
        return place

    @pytest.fixture
    def target(self, tmp_path: Path) -> FilePlace:
        return FilePlace(tmp_path / "target")

    @pytest.fixture
    def other(self, tmp_path: Path) -> FilePlace:
        return FilePlace(tmp_path / "other")

    @pytest.fixture
    def like_other(self, tmp_path: Path) -> FilePlace:
        return FilePlace(tmp_path / "like")

    @pytest.fixture
    def empty(self, tmp_path: Path) -> MemoryLogPlace:
        return MemoryLogPlace(tmp_path, "etcd://127.0.0.1:1/empty")

    async def test_a_log_on_which_a_coordinator_leads_does_not_move(
        self, source: MemoryLogPlace, target: FilePlace
    ) -> None:
        async with opened(source) as storage:
            leadership = await storage.campaign("c1")
            beating = asyncio.ensure_future(leadership.hold(lambda _: None))
            end = LogSource(Log(source.store()), source.where, source.fresh(), BoottimeClock())
            error = await refusal(migrate(end, target.target(), draw_id=draw_id))
            beating.cancel()
            await asyncio.wait({beating})
        assert (error.code, error.exit_code) == (ErrorCode.STILL_LED, 3)
        assert "c1 leads" in error.text
        assert not target.directory.exists()
        assert await coordinator_error(source) is None

    async def test_a_coordinator_that_leads_meanwhile_keeps_the_log(
        self, source: MemoryLogPlace, target: FilePlace
    ) -> None:
        async def lead(request: str) -> RequestFate:
            if request == f"swap {HEAD}":
                source.before = undisturbed
                async with opened(source) as storage:
                    await storage.campaign("c2")
            return RequestFate.ANSWERED

        source.before = lead
        error = await refusal(moved(source, target))
        assert error.code == ErrorCode.STILL_LED
        assert not (target.directory / FILE_NAME).exists()
        assert await coordinator_error(source) is None

    async def test_of_two_moves_to_different_places_the_first_that_marks_the_log_goes_on(
        self, source: MemoryLogPlace, target: FilePlace, other: FilePlace
    ) -> None:
        async def overtake(request: str) -> RequestFate:
            if request == f"swap {HEAD}":
                source.before = undisturbed
                await moved(source, other)
            return RequestFate.ANSWERED

        source.before = overtake
        error = await refusal(moved(source, target))
        assert (error.code, f"has moved to {other.directory}" in error.text) == (ErrorCode.META_MOVED, True)
        assert not (target.directory / FILE_NAME).exists()
        assert await coordinator_error(other) is None

    async def test_a_coordinator_that_hung_can_write_nothing_any_more(
        self, source: MemoryLogPlace, target: FilePlace
    ) -> None:
        async with opened(source) as storage:
            await storage.campaign("c1")
            await moved(source, target)  # as if the process had hung for all that time
            with pytest.raises(LeaseholdError) as raised:
                await commit(storage, database(99))
            assert "has moved" in raised.value.text
            await refusal(storage.confirm())  # it ends with that
            error = await refusal(storage.confirm())
            assert (error.code, "has moved" in error.text) == (ErrorCode.META_MOVED, True)

    @pytest.mark.parametrize("is_lost", [False, True], ids=["altered", "lost"])
    async def test_a_damaged_log_does_not_move(
        self, source: MemoryLogPlace, target: FilePlace, *, is_lost: bool
    ) -> None:
        key = max(key for key in source.kept.values if key.startswith("entry/"))
        stored = source.kept.values[key]
        source.kept.values[key] = StoredValue(value=stored.value[:-9] + bytes(9), version=stored.version)
        if is_lost:
            source.kept.swap(Swap(unchanged={}, deletes=(key,)))
        before = await source.content()
        error = await refusal(moved(source, target))
        assert (error.code, error.exit_code) == (ErrorCode.CORRUPT, 3)
        assert await source.content() == before
        assert not target.directory.exists()

    async def test_a_row_that_is_lost_on_the_way_is_noticed(self, source: MemoryLogPlace, target: FilePlace) -> None:
        class LosingContent(StoredContent):
            async def history(self) -> AsyncGenerator[tuple[CheckpointRow, ...]]:
                async for rows in super().history():
                    yield tuple(row for row in rows if row.key != keys.database(ObjectId(71)))

        class LosingTarget(FileMoveTarget):
            async def take(self, plan: MovePlan, content: StoredContent, **hooks: Any) -> None:
                await super().take(plan, LosingContent(content.storage, content.minimum, content.newest), **hooks)

        end, losing = source.source(), LosingTarget(target.directory, target.directory.mkdir)
        error = await refusal(migrate(end, losing, draw_id=draw_id))
        await end.close()
        assert (error.code, "not what was read" in error.text) == (ErrorCode.CORRUPT, True)
        assert not (target.directory / FILE_NAME).exists()
        assert await coordinator_error(source) is None

    async def test_a_directory_in_use_is_refused(self, source: MemoryLogPlace, target: FilePlace) -> None:
        before = await source.content()
        async with opened(target):
            error = await refusal(moved(source, target))
        assert "in use by process" in error.text
        assert await source.content() == before
