"""Words that the scenarios of node identity share: a cluster to start nodes in, and a registration office alone."""

import asyncio

import pytest

from leasehold.coordinator.nodes.leases import Leasing
from leasehold.coordinator.nodes.registration import Registration
from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS, first_records, read_catalog
from leasehold.coordinator.writer import Writer
from leasehold.core.lease.grantor import Grantor
from leasehold.core.membership.identity import CAPABILITIES, hash_secret
from leasehold.core.words.lineage import GENESIS
from leasehold.core.words.messages import Allocate, Join
from leasehold.core.words.operations import Txn
from leasehold.errors import Refused
from leasehold.limits.units import SECOND_NS
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.cluster import SimulatedCluster
from leasehold.testing.loop import run_virtual
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore

CLUSTER_ID = "c" * 32


class Over(Exception):
    pass


def simulate(scenario, *, seed=1, nodes=1):
    """A cluster whose coordinator runs; nodes are for the scenario to start."""

    async def main(random):
        cluster = SimulatedCluster(random, nodes=nodes)
        try:
            async with asyncio.TaskGroup() as group:
                await cluster.start_coordinator(group)
                await cluster.initialise()
                await scenario(cluster, group)
                raise Over
        except* Over:
            pass

    run_virtual(main, seed)


async def identity(node):
    """What the disk holds, read by nobody's process."""
    vault = node.disk.copy().open()
    return await vault.identity()


async def stored(cluster):
    """What the meta storage holds."""
    return await read_catalog(MemoryMetaStorage(cluster.store))


async def serving(cluster, *nodes):
    await cluster.wait_for(lambda: all(node.guard() for node in nodes))


async def refusal(cluster, node):
    """Runs a process of the node to the refusal that ends it."""
    cluster.revive(node.name)
    with pytest.raises(Refused) as caught:
        await node.run()
    assert caught.value.hint
    return caught.value.code


class Office:
    """A leader's registration and all it stands on, without a network; built inside `run_virtual`."""

    def __init__(self):
        self.store = MemoryStore()
        self.storage = MemoryMetaStorage(self.store)
        self.sent = []

    async def open(self, group):
        leadership = await self.storage.campaign("c1")
        await self.storage.txn(Txn(then=first_records(CLUSTER_ID, DEFAULT_SETTINGS)))
        catalog = await read_catalog(self.storage)
        self.clock = SimulatedClock(asyncio.get_running_loop(), offset_ns=SECOND_NS)
        self.grantor = Grantor(
            term=leadership.term,
            floor=catalog.revision,
            settings=DEFAULT_SETTINGS,
            largest_outstanding_ns=0,
            registered={},
            hash_session=hash_secret,
            leads_until_ns=None,
            now_ns=self.clock.now_ns(),
        )
        leasing = Leasing(self.grantor, self.clock)
        self.writer = Writer(self.storage, leadership, catalog, self._committed, self.clock.now_ns, self.clock.wall_us)
        self.registration = Registration(self.storage, self.writer, leasing, self.clock)
        self.life = group.create_task(self.writer.run())
        return self

    def _committed(self, batch, after):
        self.registration.committed(batch, after)

    def ask(self, *requests):
        """All of them at once; answers, or what was raised."""
        calls = [
            self.registration.join(one) if isinstance(one, Join) else self.registration.allocate(one)
            for one in requests
        ]
        return asyncio.gather(*calls, return_exceptions=True)


def in_an_office(scenario):
    async def main(random):
        try:
            async with asyncio.TaskGroup() as group:
                await scenario(await Office().open(group))
                raise Over
        except* Over:
            pass

    run_virtual(main, 1)


def hex_128(number):
    return f"{number:032x}"


def allocate(token, name="n1", address="h:1"):
    return Allocate(cluster_id=CLUSTER_ID, token=hex_128(token), name=name, address=address)


def join(node=1, token=1, *, nonce, session, previous=0, name="n1"):
    return Join(
        cluster_id=CLUSTER_ID,
        generation=1,
        token=hex_128(token),
        node=node,
        name=name,
        address="h:1",
        previous=previous,
        nonce=hex_128(nonce),
        session=hex_128(session),
        protocol=1,
        applied=0,
        lineage=GENESIS,
        capabilities=CAPABILITIES,
    )
