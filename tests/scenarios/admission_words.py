"""Words that the scenarios of admission share: a coordinator on virtual time, and nodes made by hand that talk to it.

A node here does what a test says and nothing by itself, so that each interleaving can be written down.
"""

import asyncio

from leasehold.coordinator.runtime import Coordinator
from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS, first_records
from leasehold.core.membership.identity import CAPABILITIES
from leasehold.core.words import keys
from leasehold.core.words.lineage import GENESIS, next_lineage
from leasehold.core.words.messages import (
    Allocate,
    AskIncarnation,
    AskSnapshot,
    AskStatus,
    Execute,
    Grant,
    Join,
    JoinAnswer,
    JoinWait,
    OpenSession,
    RecoveryAccepted,
    RecoveryFinished,
    Renewal,
    RenewalRefused,
    SessionOpened,
    Surrender,
    SurrenderAccepted,
)
from leasehold.core.words.operations import Change, Txn
from leasehold.errors import LeaseholdError, Unreachable
from leasehold.limits.membership import TOPOLOGY_GRACE_NS, TOPOLOGY_LOOK_NS
from leasehold.limits.messages import PROTOCOL_VERSION
from leasehold.limits.units import SECOND_NS
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.entropy import SeededEntropy
from leasehold.testing.loop import run_virtual
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from leasehold.testing.passwords import QuickPasswords
from leasehold.testing.threads import NoThreads
from tests.scenarios.bad_words import until
from tests.stored import stored_catalog

GONE_NS = TOPOLOGY_GRACE_NS + 2 * TOPOLOGY_LOOK_NS
"""By then whoever is gone has left the logical topology."""

CLUSTER_ID = "c" * 32


class Over(Exception):
    """The scenario has come to its end."""


class Line:
    """The leader's end of a session with a node that is made by hand."""

    def __init__(self):
        self._incoming = asyncio.Queue()
        self._sent = asyncio.Queue()
        self.error = None
        self.ended = asyncio.Event()

    async def send(self, message):
        self._sent.put_nowait(message)

    async def receive(self):
        message = await self._incoming.get()
        if isinstance(message, LeaseholdError):
            raise message
        return message

    async def close(self):
        pass

    def say(self, message):
        """The node sends a message; None ends the stream in order, an error breaks it."""
        self._incoming.put_nowait(message)

    async def hear(self, *kinds):
        """The next message of these kinds; others are passed over."""
        async with asyncio.timeout(600):
            while True:
                message = await self._sent.get()
                if isinstance(message, kinds):
                    return message

    def heard(self):
        """All that has come and was not taken."""
        return [self._sent.get_nowait() for _ in range(self._sent.qsize())]


class Desk:
    """One coordinator at a time, over a store that outlives it."""

    def __init__(self, random, group, settings):
        self.entropy = SeededEntropy(random)
        self.group = group
        self.settings = settings
        self.store = MemoryStore()
        self.clock = SimulatedClock(asyncio.get_running_loop(), offset_ns=SECOND_NS)

    async def open(self):
        await MemoryMetaStorage(self.store).txn(Txn(then=first_records(CLUSTER_ID, self.settings)))
        await self.lead()
        return self

    async def lead(self):
        """A coordinator takes office."""
        self.storage = MemoryMetaStorage(self.store)
        self.coordinator = Coordinator(
            name="c1",
            storage=self.storage,
            clock=self.clock,
            passwords=QuickPasswords(),
            entropy=self.entropy,
            threads=NoThreads(),
            statement_threads=NoThreads(),
        )
        self._life = self.group.create_task(self.coordinator.run())
        await until(lambda: self.coordinator.leader)

    async def another_leads(self, *changes):
        """The coordinator dies, and one that knows nothing but the store takes its place. These changes were the last
        that the older one wrote."""
        self._life.cancel()
        await asyncio.wait([self._life])
        self.storage.sever()
        if changes:
            ordered = sorted(changes, key=lambda one: one.key)
            lineage = next_lineage(self.catalog.lineage, ordered)
            self.store.commit(Txn(then=(*ordered, Change(keys.LINEAGE, lineage))))
        await self.lead()

    @property
    def leader(self):
        return self.coordinator.leader

    @property
    def catalog(self):
        """As the store holds it."""
        return stored_catalog(self.store)

    def held(self, node):
        return self.leader.grantor.held(node.id)

    async def sleep(self, duration_ns):
        await self.clock.sleep_until(self.clock.now_ns() + duration_ns)

    async def status(self):
        """By the name of each node, as the cluster's status has it."""
        answer = await self.coordinator.call(AskStatus())
        return {one.name: one for one in answer.nodes}

    async def sql(self, text):
        """Runs a statement to its last answer."""
        return await self.ask(Execute(cluster_id=None, statement=self.entropy.hex_128(), text=text))

    async def ask(self, request):
        """The same, asked in these words."""
        answers = [message async for message in self.coordinator.stream(request)]
        return answers[-1]

    async def write(self, times=1):
        """So many revisions that concern nobody here."""
        for _ in range(times):
            await self.sql(f"CREATE DATABASE d{self.entropy.hex_128()[:12]}")

    async def minimum(self):
        """MM."""
        return (await self.storage.status()).minimum

    async def compact_beyond(self):
        """Somebody compacts up to the newest revision, which two elections have brought beyond LM."""
        for _ in range(2):
            await self.another_leads()
        await self.storage.compact(self.store.newest)
        assert await self.minimum() == self.catalog.revision + 2

    async def node(self, name="n1", **fields):
        """A node with an id, which has joined."""
        one = Node(self, name)
        await one.register()
        await one.join(**fields)
        return one

    async def member(self, name="n1"):
        """A node in the logical topology, with a lease, and its line."""
        one = await self.node(name)
        line, opened = await one.open()
        required = await one.enter(line, opened.latest)
        await one.renew(line, required)
        return one, line


class Node:
    """A node's directory and its process, as far as a coordinator can tell."""

    def __init__(self, desk, name):
        self.desk = desk
        self.name = name
        self.token = desk.entropy.hex_128()
        self.incarnation = 0
        self.requests = 0

    def allocate(self, **fields):
        return Allocate(
            **{"cluster_id": CLUSTER_ID, "token": self.token, "name": self.name, "address": "h:1", **fields}
        )

    async def register(self):
        self.id = (await self.desk.coordinator.call(self.allocate())).node

    def begin(self, **fields):
        """The request of a new process; it shows no history unless told to."""
        self.session = self.desk.entropy.hex_128()
        request = {
            "cluster_id": CLUSTER_ID,
            "generation": 1,
            "token": self.token,
            "node": self.id,
            "name": self.name,
            "address": "h:1",
            "previous": self.incarnation,
            "nonce": self.desk.entropy.hex_128(),
            "session": self.session,
            "protocol": PROTOCOL_VERSION,
            "applied": 0,
            "lineage": GENESIS,
            "capabilities": CAPABILITIES,
        }
        return Join(**{**request, **fields})

    async def ask(self, request):
        """One attempt; what it is answered."""
        answer = await self.desk.coordinator.call(request)
        if isinstance(answer, JoinAnswer):
            self.incarnation = answer.incarnation
        return answer

    async def join(self, **fields):
        """Asks until it is let in."""
        request = self.begin(**fields)
        while isinstance(answer := await self.ask(request), JoinWait):
            await self.desk.sleep(answer.wait_ns)
        return answer

    def adoption(self, **fields):
        return AskIncarnation(**{"cluster_id": CLUSTER_ID, "token": self.token, "node": self.id, **fields})

    def snapshot(self, **fields):
        speaker = {"node": self.id, "incarnation": self.incarnation, "session": self.session}
        return AskSnapshot(**{"cluster_id": CLUSTER_ID, **speaker, **fields})

    def connect(self):
        """A stream on which nothing has been said."""
        line = Line()

        async def serve():
            try:
                await self.desk.coordinator.session(line)
            except LeaseholdError as error:
                line.error = error
            finally:
                line.ended.set()

        self.desk.group.create_task(serve())
        return line

    def opening(self, **fields):
        speaker = {"node": self.id, "incarnation": self.incarnation, "session": self.session}
        return OpenSession(**{"cluster_id": CLUSTER_ID, "watch_from": 1, **speaker, **fields})

    async def open(self, **fields):
        """A session, and the answer to its opening."""
        line = self.connect()
        line.say(self.opening(**fields))
        return line, await line.hear(SessionOpened)

    def finished(self, applied):
        return RecoveryFinished(node=self.id, incarnation=self.incarnation, session=self.session, applied=applied)

    async def enter(self, line, applied):
        """Says that it has recovered; what is required of it."""
        line.say(self.finished(applied))
        return (await line.hear(RecoveryAccepted)).required

    async def lineage(self, applied):
        found = await MemoryMetaStorage(self.desk.store).get(keys.LINEAGE, applied)
        return found.value

    async def renewal(self, applied):
        self.requests += 1
        return Renewal(
            node=self.id,
            incarnation=self.incarnation,
            session=self.session,
            request=self.requests,
            applied=applied,
            lineage=await self.lineage(applied),
        )

    async def renew(self, line, applied=None):
        """Asks for its lease; the answer."""
        line.say(await self.renewal(self.desk.catalog.revision if applied is None else applied))
        return await line.hear(Grant, RenewalRefused)

    async def surrender(self, line):
        line.say(Surrender(node=self.id, incarnation=self.incarnation, session=self.session))
        await line.hear(SurrenderAccepted)

    async def cut(self, line):
        """The stream breaks."""
        line.say(Unreachable("the stream broke"))
        await line.ended.wait()


def at_a_desk(scenario, *, settings=DEFAULT_SETTINGS):
    """Runs `scenario(desk)`."""

    async def main(random):
        try:
            async with asyncio.TaskGroup() as group:
                await scenario(await Desk(random, group, settings).open())
                raise Over
        except* Over:
            pass

    run_virtual(main, 1)
