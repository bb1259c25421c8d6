"""Everything of a leader that lets rows expire goes by the wall clock as far as it is believed."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from leasehold.coordinator.leader import Leader
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import AskStatus, ClusterStatus, Execute, Receipt
from leasehold.core.words.operations import Change
from leasehold.core.words.records import DatabaseRecord, HorizonRecord, UseState
from leasehold.ids import ObjectId, StatementId
from leasehold.limits.units import SECOND_NS
from leasehold.limits.upkeep import HOUSEKEEPING_INTERVAL_NS
from leasehold.testing.clock import WALL_START_US, SimulatedClock
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from tests.stored import stored_catalog
from tests.unit.coordinator.office import coordinator_over
from tests.unit.core.data.test_horizons import table

PASSES_S = 3 * HOUSEKEEPING_INTERVAL_NS / SECOND_NS
JUMP_US = 40 * 86_400_000_000
TTL_US = 10_000_000
DATABASE, TABLE = ObjectId(1), ObjectId(2)


class JumpingClock(SimulatedClock):
    """Of a machine whose wall clock is ahead by `ahead_us`."""

    ahead_us = 0

    def true_us(self) -> int:
        return super().wall_us()

    def wall_us(self) -> int:
        return self.true_us() + self.ahead_us


def while_the_clock_is_ahead(look: Callable[[Leader, JumpingClock, MemoryStore], Awaitable[None]]) -> None:
    """With a leader of a table with a TTL whose wall clock was right until housekeeping came by, and then jumped."""
    database = DatabaseRecord(id=DATABASE, name="d", state=UseState.IN_USE)
    horizon = HorizonRecord(table=TABLE, horizon_us=WALL_START_US - TTL_US)

    async def main(_random: Random) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock = JumpingClock(loop)
        store = MemoryStore()
        storage = MemoryMetaStorage(store)
        records = (
            Change(keys.database(DATABASE), encode(database)),
            table(TABLE),
            Change(keys.horizon(TABLE), encode(horizon)),
        )
        coordinator = await coordinator_over(storage, clock, records)
        running = asyncio.ensure_future(coordinator.run())
        await asyncio.sleep(PASSES_S)
        assert coordinator.leader is not None
        clock.ahead_us = JUMP_US
        await look(coordinator.leader, clock, store)
        running.cancel()
        await asyncio.wait([running])

    run_virtual(main, 1)


def hidden_before_us(store: MemoryStore) -> int:
    return stored_catalog(store).horizons[TABLE].horizon_us


def test_housekeeping_hides_no_rows_by_a_clock_that_has_jumped_and_the_status_tells_of_it() -> None:
    async def look(leader: Leader, clock: JumpingClock, store: MemoryStore) -> None:
        before_us = hidden_before_us(store)
        await asyncio.sleep(PASSES_S)
        assert before_us < hidden_before_us(store) <= clock.true_us() - TTL_US
        status = await leader.call(AskStatus())
        assert isinstance(status, ClusterStatus)
        assert status.clock_ahead_ns == JUMP_US * 1_000

    while_the_clock_is_ahead(look)


def test_a_statement_that_shortens_a_ttl_hides_no_rows_by_a_clock_that_has_jumped() -> None:
    async def look(leader: Leader, clock: JumpingClock, store: MemoryStore) -> None:
        text = "ALTER TABLE d.t2 SET TBLPROPERTIES ('ttl' = '5s')"
        async for answer in leader.stream(Execute(cluster_id=None, statement=StatementId("1" * 32), text=text)):
            if isinstance(answer, Receipt):
                assert hidden_before_us(store) <= clock.true_us() - TTL_US // 2
                return
        raise AssertionError("it ended without a receipt")

    while_the_clock_is_ahead(look)
