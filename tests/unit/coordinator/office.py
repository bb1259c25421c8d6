"""A leader's statements without a network: its writer, leases and procedures over a store in memory, on virtual time.

One node is registered, and reports nothing by itself: after an election it may hold a lease for a while, so a barrier
waits for it, until `silent` says that it does not any more.
"""

import asyncio

import msgspec

from leasehold.coordinator.nodes.leases import Leasing
from leasehold.coordinator.runtime import Coordinator
from leasehold.coordinator.statements.preparation import ParsedStatement
from leasehold.coordinator.statements.procedures import Procedures
from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS, first_records, read_catalog
from leasehold.coordinator.user_turns import UserTurns
from leasehold.coordinator.writer import Writer
from leasehold.core.catalog.plan import put
from leasehold.core.lease.grantor import Grantor
from leasehold.core.lease.grants import registrations
from leasehold.core.membership.identity import hash_secret
from leasehold.core.words import keys
from leasehold.core.words.messages import Receipt, Renewal, Rows
from leasehold.core.words.operations import Txn
from leasehold.core.words.records import LoginRecord, NodeRecord
from leasehold.errors import Indefinite
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.metastorage.contract import LeadershipLost
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.loop import run_virtual
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from leasehold.testing.passwords import QuickPasswords
from leasehold.testing.threads import NoThreads
from leasehold.wire.entropy import SystemEntropy

LOGIN = b"1" * 32
"""Of the first object that a cluster gets, where that is a user."""
LONG_NS = 10 * SECOND_NS
"""By then every lease has ended that was out when a leader was elected, and what ends behind an answer is written."""
SESSION = "5" * 32
NODE = NodeRecord(
    id=1,
    name="n1",
    address="n1:1",
    token_hash=b"t",
    incarnation=1,
    nonce=None,
    session_hash=hash_secret(SESSION),
    removed=False,
    member=True,
)
DRAINED = msgspec.structs.replace(
    NODE,
    id=2,
    name="n2",
    address="n2:1",
    token_hash=b"u",
    incarnation=0,
    session_hash=None,
    member=False,
    draining=True,
)
"""It has never joined, so nothing waits for it."""


class Office:
    """One term, put together as `coordinator/leader.py` does."""

    def __init__(self, storage, leadership, catalog, clock, group):
        self.storage = storage
        self.clock = clock
        self.group = group
        grantor = Grantor(
            term=leadership.term,
            floor=catalog.revision,
            settings=catalog.settings,
            largest_outstanding_ns=catalog.largest_lease.duration_ns,
            registered=registrations(catalog.nodes.values()),
            hash_session=hash_secret,
            leads_until_ns=leadership.deadline_ns(),
            now_ns=clock.now_ns(),
        )
        self.leasing = Leasing(grantor, clock)
        self.leasing.committed(catalog)
        self.writer = Writer(storage, leadership, catalog, self.committed, clock.now_ns, clock.wall_us)
        self.procedures = Procedures(
            storage,
            self.writer,
            self.leasing,
            clock,
            group,
            UserTurns(NoThreads(), clock.now_ns),
            wall_us=clock.wall_us,
            serving=lambda: [1],
            hashed=self.hashed,
        )
        self.on_commit = []
        self.requests = 0
        self.lineages = {catalog.revision: catalog.lineage}
        self.moved = asyncio.Event()
        """Set at each revision."""

    def committed(self, batch, catalog):
        self.lineages[batch.revision] = catalog.lineage
        self.leasing.committed(catalog)
        for hear in self.on_commit:
            hear(batch, catalog)
        self.moved.set()

    async def hashed(self, password):
        return f"hash of {password}"

    @property
    def catalog(self):
        return self.writer.catalog

    async def sleep(self, duration_ns):
        await self.clock.sleep_until(self.clock.now_ns() + duration_ns)

    async def silent(self):
        """Until no node holds a lease any more."""
        await self.sleep(LONG_NS)

    def renew(self, applied=None):
        """The node has applied all there is, or `applied`, and asks for its lease; what it is answered."""
        replies = []
        applied = applied or self.catalog.revision
        self.requests += 1
        renewal = Renewal(
            node=1,
            incarnation=1,
            session=SESSION,
            request=self.requests,
            applied=applied,
            lineage=self.lineages[applied],
        )
        self.leasing.renew(renewal, replies.append)
        return replies

    async def execute(self, asked):
        """The receipt, or what is raised."""
        async for message in self.procedures.execute(asked):
            if isinstance(message, Receipt):
                return message
        raise AssertionError("it ended without an answer")

    async def log_in(self, user):
        """A login of the user, as `ParsedStatement` has it."""
        login = user.encode().ljust(32)
        record = LoginRecord(token_hash=login, user=self.catalog.find_principal(user).id, order=0)
        await self.writer.submit(lambda _: (put(keys.login(login), record),))
        return login

    async def outcome(self, statement):
        async for message in self.procedures.outcome(statement):
            if isinstance(message, Receipt):
                return message
        raise AssertionError("it ended without an answer")

    async def cancel(self, number):
        """The rows, or what is raised."""
        async for message in self.procedures.cancel(number):
            if isinstance(message, Rows):
                return message
        raise AssertionError("it ended without an answer")

    async def number(self, statement):
        """The number of its procedure, once its first transaction is durable and it waits for its barrier."""
        while statement not in self.catalog.statements:
            self.moved.clear()
            await self.moved.wait()
        await self.sleep(MILLISECOND_NS)
        return self.catalog.statements[statement].order


class Over(Exception):
    """The work of a term is done."""


async def initialised():
    """A store with a cluster in it."""
    store = MemoryStore()
    storage = MemoryMetaStorage(store)
    await storage.txn(Txn(then=first_records("c" * 32, DEFAULT_SETTINGS)))
    await storage.close()
    return store


async def coordinator_over(storage, clock, records=()):
    """A whole coordinator that does not run yet, over a store in which a new cluster and these records are."""
    await storage.txn(Txn(then=(*first_records("c" * 32, DEFAULT_SETTINGS), *records)))
    return Coordinator(
        name="c1",
        storage=storage,
        clock=clock,
        passwords=QuickPasswords(),
        entropy=SystemEntropy(),
        threads=NoThreads(),
        statement_threads=NoThreads(),
    )


async def term(store, clock, work, *, before=None):
    """Leads until `work(office)` is done, and answers what it answers; None if the leadership ended before."""
    storage = MemoryMetaStorage(store)
    answer = None
    try:
        leadership = await storage.campaign("c1")
        catalog = await read_catalog(storage)
        async with asyncio.TaskGroup() as group:
            office = Office(storage, leadership, catalog, clock, group)
            group.create_task(office.writer.run())
            group.create_task(office.procedures.close_behind())
            if NODE.id not in catalog.nodes:
                login = put(keys.login(LOGIN), LoginRecord(token_hash=LOGIN, user=1, order=0))
                await office.writer.submit(lambda _: (*(put(keys.node(one.id), one) for one in (NODE, DRAINED)), login))
                raise Over
            office.procedures.resume()
            if before is not None:
                storage.before = before(office)
            answer = await work(office)
            raise Over
    except* Over:
        pass
    except* (LeadershipLost, Indefinite):
        pass
    finally:
        storage.sever()
    return answer


def simulated(main):
    """Runs `main(store, clock)` on virtual time."""

    async def begin(_random):
        clock = SimulatedClock(asyncio.get_running_loop())
        store = await initialised()
        await term(store, clock, None)  # registers the node
        return await main(store, clock)

    return run_virtual(begin, 1)


def asked(number, statement, *, timeout_ns=None, text=None, login=LOGIN, size_bytes=0):
    """A request by whoever has logged in so, if there are users."""
    return ParsedStatement(
        id=f"{number:032x}",
        text=text or type(statement).__name__,
        statement=statement,
        size_bytes=size_bytes,
        login=login,
        timeout_ns=timeout_ns,
    )
