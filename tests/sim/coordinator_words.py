"""Words that the tests of several coordinators share: a whole simulated cluster, its leader, and requests to each."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from leasehold.core.words.messages import Execute, Message, Receipt
from leasehold.core.words.records import Outcome
from leasehold.ids import LoginToken, StatementId
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.testing.cluster import CLIENT, SimulatedCluster, SimulatedCoordinator
from leasehold.testing.loop import run_virtual

Scenario = Callable[[SimulatedCluster, asyncio.TaskGroup], Awaitable[None]]


class Over(Exception):
    pass


def simulate(
    scenario: Scenario, *, seed: int = 1, nodes: int = 3, coordinators: int = 3, given: tuple[int, ...] = ()
) -> None:
    """Runs a scenario. Nodes know all coordinators, or those whose numbers are `given`."""

    async def main(random: Random) -> None:
        cluster = SimulatedCluster(random, nodes=nodes, coordinators=coordinators)
        try:
            cluster.given = tuple(cluster.addresses[number] for number in given) or None
            async with asyncio.TaskGroup() as group:
                await cluster.start(group)
                await scenario(cluster, group)
                raise Over
        except* Over:
            pass

    run_virtual(main, seed)


def the_leader(cluster: SimulatedCluster) -> SimulatedCoordinator:
    leading = cluster.leading
    assert leading is not None
    return leading


def followers(cluster: SimulatedCluster) -> list[SimulatedCoordinator]:
    return [one for one in cluster.coordinators if one.leader is None]


async def run(cluster: SimulatedCluster, text: str, login: LoginToken | None = None) -> Receipt:
    answer = await cluster.sql(text) if login is None else await as_user(cluster, text, login)
    assert isinstance(answer, Receipt)
    assert answer.outcome is Outcome.COMMITTED
    return answer


async def as_user(cluster: SimulatedCluster, text: str, login: LoginToken) -> Message:
    return await ask(cluster, the_leader(cluster), execute(cluster, text, login))


async def ask(cluster: SimulatedCluster, coordinator: SimulatedCoordinator, request: Message) -> Message:
    connection = cluster.network.host(CLIENT).connect(coordinator.address)
    try:
        return await connection.call(request, timeout_ns=CALL_TIMEOUT_NS)
    finally:
        await connection.close()


def execute(cluster: SimulatedCluster, text: str, login: LoginToken | None = None) -> Execute:
    return Execute(cluster_id=None, statement=StatementId(cluster.entropy.hex_128()), text=text, login=login)


def term_of(cluster: SimulatedCluster) -> int:
    leading = cluster.leading
    return 0 if leading is None or leading.leader is None else leading.leader.grantor.term


def all_serve_under(cluster: SimulatedCluster, term: int) -> bool:
    return all((passed := node.guard()) and passed.lease.term == term for node in cluster.nodes)
