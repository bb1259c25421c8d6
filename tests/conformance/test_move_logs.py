"""Logs moved from one name to another."""

from pathlib import Path

import pytest

from leasehold.error_codes import ErrorCode
from leasehold.errors import Unreachable
from leasehold.metastorage.log.log import Log
from leasehold.metastorage.log.sqlite_replica import SqliteReplicaPlace
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.testing.requests import RequestFate, undisturbed
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from tests.conformance.move_suite import MoveFaultSuite
from tests.conformance.move_words import (
    MemoryLogPlace,
    coordinator_error,
    fill,
    moved,
    opened,
    refusal,
)


class TestLogToLog(MoveFaultSuite):
    @pytest.fixture
    async def source(self, tmp_path: Path) -> MemoryLogPlace:
        place = MemoryLogPlace(tmp_path, "etcd://127.0.0.1:1/source")
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
    def empty(self, tmp_path: Path) -> MemoryLogPlace:
        return MemoryLogPlace(tmp_path, "etcd://127.0.0.1:1/empty")

    async def test_to_where_it_is_nothing_moves(self, source: MemoryLogPlace) -> None:
        before = await source.content()
        error = await refusal(moved(source, source))
        assert (error.code, error.exit_code) == (ErrorCode.BAD_SETTINGS, 2)
        assert await source.content() == before

    async def test_a_replica_of_the_old_log_is_not_one_of_the_new_log(
        self, source: MemoryLogPlace, target: MemoryLogPlace
    ) -> None:
        place = SqliteReplicaPlace(source.fresh())
        old = await ReplicatedMetaStorage.open(Log(source.store()), place, BoottimeClock(), SystemEntropy())
        await old.close()
        await moved(source, target)
        for store, code in ((source.store(), ErrorCode.META_MOVED), (target.store(), ErrorCode.OTHER_LOG)):
            error = await refusal(ReplicatedMetaStorage.open(Log(store), place, BoottimeClock(), SystemEntropy()))
            assert error.code == code

    async def test_a_run_beside_another_never_keeps_a_move_from_being_finished(
        self, source: MemoryLogPlace, target: MemoryLogPlace
    ) -> None:
        """Two runs at once: one has filled the target when the other reserves it, and then marks the source. The other
        one ends before it sees that."""
        second = MemoryLogPlace(target.directory / "second", target.where, target.kept)

        async def crash(request: str) -> RequestFate:
            if request.startswith("swap chunk/"):
                raise Unreachable("the second run ends here")
            return RequestFate.ANSWERED

        async def overtaken(request: str) -> RequestFate:
            if request.startswith("swap log/head"):  # the mark
                source.before = undisturbed
                second.before = crash
                assert (await refusal(moved(source, second))).code == ErrorCode.UNREACHABLE
            return RequestFate.ANSWERED

        source.before = overtaken
        assert (await refusal(moved(source, target))).code == ErrorCode.RUNNING
        assert (await coordinator_error(source)).code == ErrorCode.META_MOVED
        assert (await coordinator_error(target)).code == ErrorCode.META_UNFINISHED
        await moved(source, target)
        async with opened(target) as storage:
            assert (await storage.status()).cluster_id is not None
