"""What every engine of a log must do while its members die, pause and lose their quorum. An adapter subclasses
`LogStoreFaultsSuite` and gives `three`."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import ClassVar, Protocol

import pytest

from leasehold.errors import Indefinite, Unreachable
from leasehold.limits.log import STORE_TRY_NS
from leasehold.limits.units import MILLISECOND_NS
from leasehold.metastorage.access import StoreAccess
from leasehold.metastorage.log.store import MISSING, LogStore, Swap
from tests.conformance.store_words import until_it_answers

PATIENT_NS = 60_000 * MILLISECOND_NS


class Server(Protocol):
    """One member's process."""

    address: str

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class Members(Protocol):
    """Three members, by the names that they have in `LogStore.members`."""

    servers: Mapping[str, Server]

    def store(self, prefix: str, access: StoreAccess | None = None, *, try_ns: int = STORE_TRY_NS) -> LogStore: ...


class Appender:
    """Appends numbered entries under a head, as a leader does. It looks after each answer that is not known."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self.head = 0
        self._version = MISSING
        self.unknown = 0
        self.acknowledged: list[int] = []

    async def append(self) -> None:
        number = self.head + 1
        text = b"%d" % number
        puts = {"log/head": text, f"entry/{number:06}": text}
        try:
            versions = await self._store.swap(Swap(unchanged={"log/head": self._version}, puts=puts))
        except Indefinite:
            self.unknown += 1
            await self._look()
            return
        if versions is None:  # an append of which nothing was known has happened after it was looked for
            assert self.unknown > 0
            await self._look()
            return
        self.acknowledged.append(number)
        self.head, self._version = number, versions["log/head"]

    async def append_times(self, count: int) -> None:
        """Until so many further ones were acknowledged."""
        wanted = len(self.acknowledged) + count
        async with asyncio.timeout(60):
            while len(self.acknowledged) < wanted:
                await self.append()

    async def _look(self) -> None:
        try:
            found = await self._store.get("log/head")
        except Indefinite:
            return
        if found is not None:
            assert int(found.value) >= self.head, "what was acknowledged is gone"
            self.head, self._version = int(found.value), found.version


async def names(store: LogStore, directory: str) -> list[int]:
    found: list[str] = []
    while page := await store.page(directory, f"{found[-1]}0" if found else "", limit=1000):
        found += [name for name, _ in page]
    return [int(name) for name in found]


def at(members: Members, *servers: Server, prefix: str = "other", try_ns: int = STORE_TRY_NS) -> LogStore:
    """A client of these members only, which are asked in this order."""
    return members.store(prefix, StoreAccess(endpoints=tuple(one.address for one in servers)), try_ns=try_ns)


async def leader(members: Members, store: LogStore) -> Server:
    while True:
        found = [one.name for one in await store.members() if one.leads]
        if len(found) == 1:
            return members.servers[found[0]]
        await until_it_answers(store)


async def until_back(members: Members, server: Server) -> None:
    """Returns once this member answers."""
    store = at(members, server)
    await until_it_answers(store)
    await store.close()


class LogStoreFaultsSuite:
    engine: ClassVar[str]
    """As errors call it."""

    @pytest.fixture
    async def store(self, three: Members, request: pytest.FixtureRequest) -> AsyncIterator[LogStore]:
        store = three.store(request.node.name)
        await until_it_answers(store)
        yield store
        await store.close()

    async def test_appends_go_on_while_members_die_and_pause(self, three: Members, store: LogStore) -> None:
        appender = Appender(store)
        await appender.append_times(20)
        one = await leader(three, store)
        one.kill()
        await appender.append_times(20)
        one.start()
        await until_back(three, one)
        two = await leader(three, store)
        two.pause()
        await appender.append_times(20)
        two.resume()
        for server in three.servers.values():
            server.pause()
            await appender.append_times(5)
            server.resume()
        entries = await names(store, "entry")
        assert entries == [*range(1, entries[-1] + 1)], "each happened once, in order"
        assert {*appender.acknowledged} <= {*entries}
        assert len(appender.acknowledged) == len({*appender.acknowledged}) == 55 + 20
        assert len(entries) - len(appender.acknowledged) <= appender.unknown <= 20

    async def test_without_a_quorum_nothing_is_answered_until_it_is_back(self, three: Members, store: LogStore) -> None:
        assert await store.swap(Swap(unchanged={}, puts={"log/head": b"1"})) is not None
        one, two, last = three.servers.values()
        one.kill()
        two.kill()
        with pytest.raises(Indefinite):  # it may be sent before the last member knows that it is alone
            await store.swap(Swap(unchanged={}, puts={"log/head": b"2"}))
        with pytest.raises(Unreachable) as caught:
            await store.get("log/head")
        assert f"{one.address}: nothing listens there (connection refused)" in caught.value.text
        assert f"{last.address}: {self.engine} answers: no leader" in caught.value.text
        await self.alone(store, last)
        one.start()
        two.start()
        await until_it_answers(store)
        found = await store.get("log/head")
        assert found is not None
        assert found.value in (b"1", b"2")

    async def alone(self, store: LogStore, last: Server) -> None:
        """What a member tells that is alone."""
        raise NotImplementedError

    async def test_a_watch_survives_its_member(self, three: Members, store: LogStore) -> None:
        for server in three.servers.values():
            others = [one for one in three.servers.values() if one is not server]
            watcher = at(three, server, *others, prefix="watched")
            writer = at(three, *others, prefix="watched", try_ns=PATIENT_NS)
            watch = watcher.watch("log/head")
            async with asyncio.timeout(60):
                await anext(watch)
                server.kill()
                for _ in range(5):  # the first wakes may be of a watch that was opened again
                    await until_it_answers(writer)
                    assert await writer.swap(Swap(unchanged={}, puts={"log/head": b"x"})) is not None
                    await anext(watch)
            await watch.aclose()
            await watcher.close()
            await writer.close()
            server.start()
            await until_back(three, server)
