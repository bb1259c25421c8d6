"""A member of a local store that lost its data, or can't use it, is taken in again, whatever interrupts that.

The members run without coordinators here, so that many cases are cheap.
"""

import asyncio
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from leasehold.cli.config import coordinator_config
from leasehold.cli.shared_store import shared_store
from leasehold.errors import Indefinite, Refused
from leasehold.limits.units import SECOND_NS
from leasehold.local.etcd import PROGRAM_VARIABLE
from leasehold.local.members import ENGINES, LocalMembers
from leasehold.local.patience import ProcessPatience
from leasehold.local.process import Process
from leasehold.local.rejoin import MemberStart
from leasehold.metastorage.etcd.client import EtcdClient
from leasehold.metastorage.etcd.messages import (
    MEMBER_LIST,
    MEMBER_REMOVE,
    EtcdMember,
    EtcdMessage,
    MemberRemoveRequest,
)
from leasehold.metastorage.location import parse_location
from leasehold.metastorage.log.log import HEAD
from leasehold.metastorage.log.store import MISSING, Swap
from leasehold.wire.clock import BoottimeClock, sleep_ns
from tests.e2e.waiting import wait_until
from tests.etcd_cluster import etcd_program
from tests.few import few

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

ENGINE_NAMES = few(1, ["etcd", "zookeeper"])
CLOCK = BoottimeClock()


def some_patience() -> ProcessPatience:
    return ProcessPatience(120 * SECOND_NS, sleep_ns, lambda _: None, CLOCK.now_ns)


class Store:
    """Three members, and a number that their clients count up."""

    def __init__(self, directory: Path, engine: str) -> None:
        self.members = LocalMembers(directory)
        self.members.draw(ENGINES[engine], 3)
        self.all = self.members.processes()
        self.engine = engine
        self.directory = directory
        self._counted = 0

    def start(self, *names: str) -> None:
        MemberStart(self.members, some_patience()).start([self[name] for name in names] or self.all)

    def __getitem__(self, name: str) -> Process:
        return next(one for one in self.all if one.name == name)

    def kill(self, name: str) -> None:
        self[name].signal(signal.SIGKILL)
        self[name].wait_until_gone()

    def lose(self, name: str) -> None:
        self.kill(name)
        shutil.rmtree(self[name].directory)

    def count(self) -> None:
        """Reads the number, which has to be the one that was written last, and writes the next."""
        asyncio.run(self._count())

    async def _count(self) -> None:
        settings = self.members.settings()
        config = coordinator_config(None, {"dir": self.directory, **settings})
        store = shared_store(config, parse_location(settings["meta"]), CLOCK)
        try:
            async with asyncio.timeout(60):
                while True:
                    with suppress(Indefinite):
                        found = await store.get(HEAD)
                        break
            assert (found and int(found.value)) == (self._counted or None)
            self._counted += 1
            value, version = str(self._counted).encode(), MISSING if found is None else found.version
            while True:
                with suppress(Indefinite):
                    if await store.swap(Swap(unchanged={HEAD: version}, puts={HEAD: value})) is None:
                        found = await store.get(HEAD)  # a try without an answer has happened
                        assert found is not None
                        assert found.value == value
                    break
        finally:
            await store.close()

    async def etcd_members(self, removed: str | None = None) -> tuple[EtcdMember, ...]:
        """The members as the cluster of etcd has them; one is removed after that."""
        client = EtcdClient(self.members.access(self.all), CLOCK, try_ns=2 * SECOND_NS)
        try:
            listed = await client.read(MEMBER_LIST, EtcdMessage())
            for one in listed.members:
                if one.name == removed:
                    await client.write(MEMBER_REMOVE, MemberRemoveRequest(id=one.id))
            return listed.members
        finally:
            await client.close()


@pytest.fixture(scope="module", params=ENGINE_NAMES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "etcd":
            patch.setenv(PROGRAM_VARIABLE, str(etcd_program()))
        store = Store(tmp_path_factory.mktemp("members"), request.param)
        try:
            for member in store.all:
                store.members.start(member, is_new=True)
            patience = some_patience()
            store.members.protect(lambda what: patience.wait(what, store.all))
            store.count()
            yield store
        finally:
            for member in store.all:
                store.members.stop(member)


class Cut(Exception):
    """The process that starts a member ends here."""


class CutMembers(LocalMembers):
    """Ends right after one step of a member that is taken in."""

    def __init__(self, store: Store, step: str) -> None:
        super().__init__(store.directory)
        self._store = store
        self._step = step

    def replace(self, process: Process, others: list[Process]) -> None:
        if self._step == "set aside":
            raise Cut
        if self._step == "removed" and self._store.engine == "etcd":
            asyncio.run(self._store.etcd_members(removed=process.name))
            raise Cut
        super().replace(process, others)
        if self._step == "added":
            raise Cut

    def start(self, process: Process, *, is_new: bool) -> None:
        super().start(process, is_new=is_new)
        if self._step == "killed at once":
            process.signal(signal.SIGKILL)
        raise Cut


@pytest.mark.parametrize("step", ["set aside", "removed", "added", "started", "killed at once"])
def test_a_member_is_taken_in_after_a_start_that_ended_after_any_of_its_steps(store: Store, step: str) -> None:
    before = asyncio.run(store.etcd_members()) if store.engine == "etcd" else ()
    store.lose("meta-2")
    with pytest.raises(Cut):
        MemberStart(CutMembers(store, step), some_patience()).start(store.all)
    store.count()
    store.start()
    store.count()
    assert store.members.are_whole()
    if store.engine == "etcd":

        def are_named() -> bool:  # a member tells its name once it takes part
            return {one.name for one in asyncio.run(store.etcd_members())} == {"meta-1", "meta-2", "meta-3"}

        wait_until(are_named)
        after = asyncio.run(store.etcd_members())
        changed = {one.name for one in after} - {old.name for old in before if old.id in {one.id for one in after}}
        assert changed == {"meta-2"}


def test_a_member_whose_directory_was_deleted_while_it_ran_counts_again_when_another_one_fails(store: Store) -> None:
    shutil.rmtree(store["meta-1"].directory)
    store.start()
    assert store.members.are_whole()
    for name in ("meta-2", "meta-3"):
        store.kill(name)
        store.count()
        store.start(name)


def test_damaged_data_is_put_aside(store: Store) -> None:
    store.kill("meta-1")
    data = store["meta-1"].directory / "data"
    (log,) = data.glob("member/wal/*.wal" if store.engine == "etcd" else "version-2/log.*")
    log.write_bytes(log.read_bytes().replace(b"cluster/", b"CLUSTER/"))
    store.start("meta-1")
    assert any((data.parent / "data.damaged").iterdir())
    assert store.members.are_whole()
    store.count()


def test_without_one_of_the_others_it_is_refused_and_all_are_started_together(store: Store) -> None:
    store.kill("meta-3")
    store.lose("meta-1")
    with pytest.raises(Refused, match=r"meta-1 has lost its data, and meta-3, .* does not run") as caught:
        store.start("meta-1")
    assert (caught.value.code, caught.value.hint) == ("NO_QUORUM", "`leasehold up` starts both")
    store.start()
    store.count()
    assert store.members.are_whole()


def test_several_without_data_are_refused_and_nothing_is_changed(store: Store) -> None:
    for name in ("meta-1", "meta-2"):
        store.kill(name)
        (store[name].directory / "data").rename(store[name].directory / "away")
    with pytest.raises(Refused, match="no quorum: meta-1, meta-2") as caught:
        store.start()
    assert caught.value.code == "NO_QUORUM"
    for name in ("meta-1", "meta-2"):
        assert store[name].running() is None
        (store[name].directory / "away").rename(store[name].directory / "data")
    store.start()
    store.count()
