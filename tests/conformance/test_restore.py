"""Backups restored into each kind of meta storage, and into real members of engines; a crash at every point."""

import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from leasehold.coordinator.restore import restore
from leasehold.errors import BadDirectory, LeaseholdError, Unreachable
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.contract import MetaStorage
from leasehold.metastorage.log.log import Log
from leasehold.metastorage.log.restore_target import LogTarget
from leasehold.metastorage.log.sqlite_replica import SqliteReplicaPlace
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.metastorage.log.store import LogStore, StoreFull
from leasehold.metastorage.restore_target import FileTarget, RestoreTarget
from leasehold.metastorage.sqlite import FILE_NAME, SqliteMetaStorage
from leasehold.testing.log_store import KeptLog, MemoryLogStore
from leasehold.testing.requests import RequestFate
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from tests.backup_words import WALL_S, commit, database
from tests.conformance.log_place import PATIENT_NS, EngineCluster
from tests.conformance.restore_suite import LONGEST_NS, RestoreSuite, Saved, whole
from tests.etcd_cluster import EtcdCluster, one_and_three_members
from tests.zookeeper_cluster import ZooKeeperCluster


class FileGround:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def target(self) -> RestoreTarget:
        return FileTarget(self.directory, lambda: self.directory.mkdir(exist_ok=True))

    async def open(self) -> MetaStorage:
        self.directory.mkdir(exist_ok=True)
        return await SqliteMetaStorage.open(self.directory / FILE_NAME)

    async def content(self) -> object:
        # The lock file is none of it: its content is the last process that had it.
        return {path.name: path.read_bytes() for path in self.directory.glob("*") if path.suffix != ".lock"}


class LogGround:
    """A store and the directories of coordinators, each of which begins without a replica."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._opened = 0

    def store(self) -> LogStore:
        raise NotImplementedError

    def target(self) -> RestoreTarget:
        return LogTarget(Log(self.store()), BoottimeClock(), SystemEntropy())

    async def open(self) -> MetaStorage:
        self._opened += 1
        directory = self.directory / f"coordinator-{self._opened}"
        directory.mkdir(parents=True)
        place, clock = SqliteReplicaPlace(directory), BoottimeClock()
        return await ReplicatedMetaStorage.open(Log(self.store()), place, clock, SystemEntropy())

    async def content(self) -> object:
        """But for chunks that nothing names."""
        store = self.store()
        return [await store.page(one, limit=1_000) for one in ("log", "entry", "part")]


class MemoryLogGround(LogGround):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.kept = KeptLog()

    def store(self) -> LogStore:
        return MemoryLogStore(self.kept)


class EngineGround(LogGround):
    def __init__(self, directory: Path, cluster: EngineCluster, request: pytest.FixtureRequest) -> None:
        super().__init__(directory)
        self._cluster = cluster
        self._name = "".join(one if one.isalnum() else "-" for one in request.node.name)
        self._stores: list[LogStore] = []

    def store(self) -> LogStore:
        self._stores.append(self._cluster.store(self._name, try_ns=PATIENT_NS))
        return self._stores[-1]

    async def aclose(self) -> None:
        for one in self._stores:
            await one.close()


class TestFile(RestoreSuite):
    @pytest.fixture
    def ground(self, tmp_path: Path) -> FileGround:
        return FileGround(tmp_path / "coordinator")

    async def test_a_directory_in_use_is_refused(self, saved: Saved, ground: FileGround) -> None:
        storage = await ground.open()
        with pytest.raises(BadDirectory, match="in use by process"):
            await saved.restore(ground.target())
        await storage.close()

    async def test_a_log_of_a_lost_file_is_not_mixed_in(self, saved: Saved, ground: FileGround) -> None:
        ground.directory.mkdir()
        (ground.directory / f"{FILE_NAME}-wal").write_bytes(b"of another file")
        with pytest.raises(LeaseholdError, match="meta storage in"):
            await saved.restore(ground.target())
        assert (ground.directory / f"{FILE_NAME}-wal").read_bytes() == b"of another file"

    async def test_a_link_to_a_disk_that_is_not_mounted_is_a_meta_storage(
        self, saved: Saved, ground: FileGround, tmp_path: Path
    ) -> None:
        ground.directory.mkdir()
        (ground.directory / FILE_NAME).symlink_to(tmp_path / "not mounted" / FILE_NAME)
        with pytest.raises(LeaseholdError, match="meta storage in"):
            await saved.restore(ground.target())
        assert (ground.directory / FILE_NAME).is_symlink()

    async def test_a_crash_at_any_page_leaves_no_meta_storage(
        self, saved: Saved, ground: FileGround, tmp_path: Path
    ) -> None:
        """A copy of the directory as a kill would leave it, whenever the target asks for more and at the end."""
        copies: list[Path] = []

        class Copying(FileTarget):
            async def write(self, state: object, pages: Iterator[object]) -> None:
                def copied() -> Iterator[object]:
                    for page in pages:
                        copy()
                        yield page
                    copy()

                await super().write(state, copied())

        def copy() -> None:
            copies.append(tmp_path / f"copy-{len(copies)}")
            shutil.copytree(ground.directory, copies[-1])

        await saved.restore(Copying(ground.directory, lambda: ground.directory.mkdir(exist_ok=True)))
        assert len(copies) >= 2
        for one in copies:
            killed = FileGround(one)
            storage = await killed.open()
            assert (await storage.status()).cluster_id is None
            await storage.close()
            (one / FILE_NAME).unlink()
            await self.can_begin_anew(saved, killed)
            assert {path.name for path in one.iterdir()} <= {FILE_NAME, f"{FILE_NAME}.lock", f"{FILE_NAME}-wal"}

    async def test_it_is_for_its_owner_alone(self, saved: Saved, ground: FileGround) -> None:
        await saved.restore(ground.target())
        assert (ground.directory / FILE_NAME).stat().st_mode & 0o077 == 0


class TestLog(RestoreSuite):
    @pytest.fixture
    def ground(self, tmp_path: Path) -> MemoryLogGround:
        return MemoryLogGround(tmp_path)

    async def test_a_crash_at_any_request_leaves_no_log(self, saved: Saved, ground: MemoryLogGround) -> None:
        """The store as each request of a restore finds it: the coordinator that looks there finds none, or all."""
        states: list[KeptLog] = []

        async def seen(_request: str) -> RequestFate:
            states.append(ground.kept.copy())
            return RequestFate.ANSWERED

        shared = Log(MemoryLogStore(ground.kept, before=seen))
        await saved.restore(LogTarget(shared, BoottimeClock(), SystemEntropy()))
        assert len(states) >= 4
        for state in states:
            ground.kept.set_back(state)
            assert await ground.content() == [[], [], []]
            await self.can_begin_anew(saved, ground)

    @pytest.mark.parametrize("fate", [RequestFate.LOST_BEFORE, RequestFate.LOST_AFTER, RequestFate.DOUBLED])
    @pytest.mark.parametrize("at", range(5))
    async def test_a_request_without_an_answer_is_sent_again(
        self, saved: Saved, ground: MemoryLogGround, at: int, fate: RequestFate
    ) -> None:
        asked: list[str] = []

        async def lost(request: str) -> RequestFate:
            asked.append(request)
            return fate if len(asked) == at + 1 else RequestFate.ANSWERED

        shared = Log(MemoryLogStore(ground.kept, before=lost))
        assert await saved.restore(LogTarget(shared, BoottimeClock(), SystemEntropy())) == WALL_S
        storage = await ground.open()
        assert await whole(storage, (await saved.storage.status()).latest) == await whole(saved.storage)
        await storage.close()

    async def test_a_coordinator_that_begins_meanwhile_wins(self, saved: Saved, ground: MemoryLogGround) -> None:
        async def racing(request: str) -> RequestFate:
            if request.startswith("swap log/"):
                await (await ground.open()).close()
            return RequestFate.ANSWERED

        shared = Log(MemoryLogStore(ground.kept, before=racing))
        with pytest.raises(LeaseholdError) as raised:
            await saved.restore(LogTarget(shared, BoottimeClock(), SystemEntropy()))
        assert raised.value.code == "META_STORAGE_EXISTS"
        storage = await ground.open()
        assert (await storage.status()).cluster_id is None
        await storage.close()

    async def test_a_store_without_room_is_refused(self, saved: Saved, ground: MemoryLogGround) -> None:
        ground.kept.quota_bytes = 1_000
        with pytest.raises(StoreFull):
            await saved.restore(ground.target())
        assert ground.kept.values == {}

    async def test_the_leader_of_a_restored_log_can_write_a_checkpoint(
        self, saved: Saved, ground: MemoryLogGround
    ) -> None:
        await saved.restore(ground.target())
        storage = await ground.open()
        assert isinstance(storage, ReplicatedMetaStorage)
        leadership = await storage.campaign("c1")
        await commit(storage, *(database(number) for number in range(100, 400)))
        await storage.compact((await storage.status()).latest, leadership.fence())
        storage.upkeep.log_bytes_min = 0
        chunks = [key for key in ground.kept.values if key.startswith("chunk/")]
        fence = await Log(ground.store()).term()
        assert fence is not None
        await storage.upkeep.tidy(fence)
        assert chunks
        assert not any(key in ground.kept.values for key in chunks), "a newer checkpoint has taken their place"
        before = await whole(storage)
        await storage.close()
        storage = await ground.open()
        assert await whole(storage) == before
        await storage.close()


cluster = one_and_three_members()


class TestEtcd(RestoreSuite):
    @pytest.fixture
    async def ground(
        self, cluster: EtcdCluster, tmp_path: Path, request: pytest.FixtureRequest
    ) -> AsyncIterator[EngineGround]:
        async with aclosing(EngineGround(tmp_path, cluster, request)) as ground:
            yield ground


class TestZooKeeper(RestoreSuite):
    @pytest.fixture
    async def ground(
        self, three_zookeepers: ZooKeeperCluster, tmp_path: Path, request: pytest.FixtureRequest
    ) -> AsyncIterator[EngineGround]:
        async with aclosing(EngineGround(tmp_path, three_zookeepers, request)) as ground:
            yield ground


async def test_a_store_that_does_not_answer_is_told() -> None:

    async def silent(_request: str) -> RequestFate:
        return RequestFate.LOST_BEFORE

    shared = Log(MemoryLogStore(KeptLog(), before=silent))
    target = LogTarget(shared, BoottimeClock(), SystemEntropy(), patience_ns=SECOND_NS // 10)
    with pytest.raises(Unreachable, match="does not answer"):
        await target.check(0)


@pytest.mark.parametrize("what", ["missing", "directory", "empty", "unreadable"])
async def test_what_is_no_file_of_a_backup_is_told(tmp_path: Path, what: str) -> None:
    file, ground = tmp_path / "file", FileGround(tmp_path / "coordinator")
    match what:
        case "directory":
            file.mkdir()
        case "empty":
            file.touch()
        case "unreadable":
            file.symlink_to("/proc/self/mem")  # reading its first page fails, whoever reads
        case _:
            pass
    with pytest.raises(LeaseholdError) as raised:
        await restore(file, ground.target(), wall_s=WALL_S, longest_lease_ns=LONGEST_NS)
    assert raised.value.code == ("NO_ACCESS" if what == "unreadable" else "NOT_A_BACKUP")
    assert not ground.directory.exists()
