"""A leader's logins in virtual time, on a store with users whose passwords are their names."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import msgspec
import pytest

from leasehold.coordinator.people.logins import Logins
from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS, first_records, read_catalog
from leasehold.coordinator.writer import Writer
from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.messages import LoggedIn, Login
from leasehold.core.words.operations import Change, Txn
from leasehold.core.words.records import PrincipalKind, PrincipalRecord, UseState
from leasehold.errors import WrongPassword
from leasehold.ids import ClusterId, PrincipalId
from leasehold.limits.units import SECOND_NS
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.entropy import SeededEntropy
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from leasehold.testing.passwords import QuickPasswords

PASSWORD_S = 0.05


class CountedPasswords(QuickPasswords):
    """Takes PASSWORD_S for each, and notes how many there are at once."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0
        self.asked: list[str | None] = []

    async def matches(self, password_hash: str | None, password: str) -> bool:
        self.asked.append(password_hash)
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(PASSWORD_S)
        self.now -= 1
        return await super().matches(password_hash, password)


class Ground:
    """A leader's logins on a store with the users u, v .. whose passwords are their names."""

    def __init__(self, writer: Writer, loop: VirtualLoop, random: Random) -> None:
        self.writer = writer
        self.loop = loop
        self.clock = SimulatedClock(loop)
        self.passwords = CountedPasswords()
        self.entropy = SeededEntropy(random)
        self.logins = self.another()

    def another(self) -> Logins:
        """Those of the next leader."""
        return Logins(self.writer, self.clock, self.passwords, self.entropy, self.clock.wall_us)

    async def write(self, *changes: Change) -> None:
        await self.writer.submit(lambda _: changes)

    async def user(self, number: int, name: str, **fields: object) -> PrincipalRecord:
        record = PrincipalRecord(
            id=PrincipalId(number),
            name=name,
            kind=PrincipalKind.USER,
            state=UseState.IN_USE,
            password_hash=await self.passwords.hashed(name),
            roles=(),
        )
        record = msgspec.structs.replace(record, **fields)
        await self.write(put(keys.principal(record.id), record))
        return record

    async def log_in(self, user: str = "u", password: str | None = None) -> LoggedIn:
        return await self.logins.log_in(Login(cluster_id=None, user=user, password=password or user))

    async def took_s(self, wrong: Awaitable[object]) -> float:
        """How long a wrong password takes to be told, without the work on it."""
        began_ns = self.loop.now_ns()
        with pytest.raises(WrongPassword):
            await wrong
        return (self.loop.now_ns() - began_ns) / SECOND_NS - PASSWORD_S


def over_a_store(scenario: Callable[[Ground], Awaitable[None]]) -> Callable[[], None]:
    """The scenario as a test in virtual time."""

    async def main(random: Random) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        storage = MemoryMetaStorage(MemoryStore())
        leadership = await storage.campaign("c1")
        await storage.txn(Txn(then=first_records(ClusterId("c" * 32), DEFAULT_SETTINGS)))
        writer = Writer(storage, leadership, await read_catalog(storage), lambda *_: None, loop.now_ns, lambda: 0)
        async with asyncio.TaskGroup() as group:
            run = group.create_task(writer.run())
            ground = Ground(writer, loop, random)
            await ground.user(1, "u")
            await ground.user(2, "v")
            await scenario(ground)
            run.cancel()
        await storage.close()

    def test() -> None:
        run_virtual(main, 1)

    test.__name__ = scenario.__name__
    return test
