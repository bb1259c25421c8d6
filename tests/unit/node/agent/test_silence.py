"""A coordinator that hangs while its connections stand: nodes that know another one leave it."""

import asyncio

from leasehold.limits.sessions import COORDINATOR_QUIET_NS, SESSION_IDLE_NS
from leasehold.limits.units import SECOND_NS
from tests.scenarios.bad_words import until
from tests.unit.node.agent.agent_words import leased
from tests.unit.node.scripted_leader import with_a_leader


class Deaf:
    """A stream on which nothing is heard while its coordinator hangs."""

    def __init__(self, duplex, coordinator):
        self._duplex, self._coordinator = duplex, coordinator

    async def receive(self):
        message = await self._duplex.receive()
        await self._coordinator.goes_on.wait()
        return message

    async def send(self, message):
        await self._duplex.send(message)


class Hanging:
    """Answers as the leader, whose catalog it has, until it hangs."""

    def __init__(self, leader):
        self._leader = leader
        self.sessions = 0
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def call(self, request):
        return await self._leader.call(request)

    def stream(self, request):
        return self._leader.stream(request)

    async def session(self, duplex):
        self.sessions += 1
        await self._leader.session(Deaf(duplex, self))


async def served(ground):
    hanging = Hanging(ground.leader)
    await ground.network.host("c2").serve("c2:7000", hanging, on_fault=ground.faults.append)
    return hanging


def test_one_that_hangs_is_left_for_another_one():
    async def scenario(ground, group):
        hanging = await served(ground)
        ground.start(group, coordinators=("c2:7000", "c1:7000"))
        await until(lambda: leased(ground))
        assert (hanging.sessions, len(ground.leader.opened)) == (1, 1)
        hanging.goes_on.clear()
        began_ns = ground.clock.now_ns()
        await until(lambda: len(ground.leader.opened) == 2)
        assert COORDINATOR_QUIET_NS <= ground.clock.now_ns() - began_ns <= COORDINATOR_QUIET_NS + 2 * SECOND_NS
        await until(lambda: leased(ground))
        assert hanging.sessions == 1

    with_a_leader(scenario)


def test_one_that_hangs_before_the_session_is_open_is_left_too():
    async def scenario(ground, group):
        hanging = await served(ground)
        hanging.goes_on.clear()
        ground.start(group, coordinators=("c2:7000", "c1:7000"))
        await until(lambda: leased(ground))
        assert hanging.sessions == 1

    with_a_leader(scenario)


def test_the_only_one_is_not_left():
    async def scenario(ground, group):
        hanging = await served(ground)
        ground.start(group, coordinators=("c2:7000",))
        await until(lambda: leased(ground))
        hanging.goes_on.clear()
        await asyncio.sleep(SESSION_IDLE_NS / SECOND_NS)
        assert hanging.sessions == 1
        hanging.goes_on.set()
        await until(lambda: leased(ground))
        assert hanging.sessions == 1

    with_a_leader(scenario)
