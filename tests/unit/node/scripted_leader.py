"""A leader by hand for one agent: it says and keeps back what a test wants, over a history of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.digest import digest_bytes, item_digest
from leasehold.core.words.lineage import GENESIS, next_lineage
from leasehold.core.words.messages import (
    Allocate,
    AllocateAnswer,
    AskSnapshot,
    ClusterFacts,
    Grant,
    Join,
    JoinAnswer,
    JoinWait,
    Message,
    OpenSession,
    RecoveryAccepted,
    RecoveryFinished,
    RecoveryProgress,
    Renewal,
    RenewalRefused,
    SessionOpened,
    SnapshotBegin,
    SnapshotEnd,
    SnapshotPage,
    Surrender,
    SurrenderAccepted,
    Watched,
    WatchFailed,
    WhoAreYou,
)
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import DroppedRecord
from leasehold.ids import ClusterId, Generation, Incarnation, LineageHash, NodeId, ObjectId, Revision, Sequence, Term
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.agent import Agent
from leasehold.node.agent.projection import PROJECTION_LIMITS, ProjectionLimits
from leasehold.node.agent.published import Published
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.entropy import SeededEntropy
from leasehold.testing.loop import run_virtual
from leasehold.testing.network import Network
from leasehold.testing.threads import NoThreads
from leasehold.testing.vault import VaultDisk
from leasehold.wire.ports import Duplex, Vault

CLUSTER = ClusterId("c" * 32)
TERM = Term(5)


class History:
    """Revisions that follow from each other. Table `n` is dropped by `put(n)`, and forgotten by `take_back(n)`."""

    def __init__(self) -> None:
        self.batches: list[RevisionChanges] = []
        self.lineages: list[LineageHash] = [GENESIS]
        self.items: list[dict[bytes, bytes]] = [{}]

    @property
    def latest(self) -> Revision:
        return Revision(len(self.batches))

    def put(self, *tables: int) -> Revision:
        return self.commit(*(Change(keys.dropped(ObjectId(one)), encode(_dropped(one))) for one in tables))

    def take_back(self, *tables: int) -> Revision:
        return self.commit(*(Change(keys.dropped(ObjectId(one)), None) for one in tables))

    def commit(self, *changes: Change) -> Revision:
        lineage = next_lineage(self.lineages[-1], changes)
        whole = tuple(sorted((*changes, Change(keys.LINEAGE, lineage)), key=lambda one: one.key))
        self.batches.append(RevisionChanges(Revision(self.latest + 1), whole))
        items = dict(self.items[-1])
        for change in whole:
            if change.value is None:
                items.pop(change.key, None)
            else:
                items[change.key] = change.value
        self.items.append(items)
        self.lineages.append(lineage)
        return self.latest


def _dropped(table: int) -> DroppedRecord:
    return DroppedRecord(table=ObjectId(table), name=f"d.t{table}", pending=())


class ScriptedLeader:
    """Implements `wire.ports.Service`. The knobs say what it does; `heard` is what it was told on sessions."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.minimum = Revision(1)
        self.live_keys = 1_000
        self.difference = 0
        self.history_known = True
        self.join_waits_ns: list[int] = []
        """What the next joins are told to wait."""
        self.member = False
        self.required: Revision | None = None
        self.on_finished: list[Callable[[RecoveryFinished], Message | None]] = []
        """What to answer the next ones; after these the node is let in."""
        self.snapshots: list[Callable[[AskSnapshot], AsyncIterator[Message]]] = []
        """How the next ones go; after these they are sound."""
        self.heard: list[Message] = []
        self.opened: list[OpenSession] = []
        self.asked_snapshots = 0
        self.incarnation = 0
        self._duplex: Duplex | None = None
        self._next = 0

    def told(self, kind: type[Any]) -> list[Any]:
        """What was heard of that kind."""
        return [one for one in self.heard if isinstance(one, kind)]

    # ------------------------------------------------------------ the service

    async def call(self, request: Message) -> Message:
        match request:
            case WhoAreYou():
                return ClusterFacts(cluster_id=CLUSTER, generation=Generation(1), term=TERM, leader=True)
            case Allocate():
                return AllocateAnswer(node=NodeId(1))
            case Join() if self.join_waits_ns:
                return JoinWait(wait_ns=self.join_waits_ns.pop(0))
            case Join():
                self.incarnation += 1
                self.member = False
                return JoinAnswer(incarnation=Incarnation(self.incarnation), history_known=self.history_known)
            case _:
                raise AssertionError(request)

    async def stream(self, request: Message) -> AsyncIterator[Message]:
        assert isinstance(request, AskSnapshot)
        self.asked_snapshots += 1
        chosen = self.snapshots.pop(0) if self.snapshots else self.sound
        async for message in chosen(request):
            yield message

    async def sound(self, _request: AskSnapshot, *, pages: int = 3) -> AsyncIterator[Message]:
        """A snapshot of the newest revision."""
        revision, items = self.history.latest, sorted(self.history.items[-1].items())
        yield SnapshotBegin(revision=revision, keys=len(items))
        digest = 0
        size = max(1, -(-len(items) // pages))
        for start in range(0, len(items), size):
            for key, value in items[start : start + size]:
                digest ^= item_digest(key, value)
            yield SnapshotPage(items=tuple(Change(*one) for one in items[start : start + size]))
        yield SnapshotEnd(
            revision=revision,
            lineage=self.history.lineages[revision],
            keys=len(items),
            digest=digest_bytes(digest),
        )

    async def session(self, duplex: Duplex) -> None:
        opening = await duplex.receive()
        assert isinstance(opening, OpenSession)
        self.opened.append(opening)
        await duplex.send(
            SessionOpened(
                term=TERM,
                renew_every_ns=SECOND_NS,
                latest=self.history.latest,
                minimum=self.minimum,
                live_keys=self.live_keys,
                catch_up_difference=self.difference,
                member=self.member,
            )
        )
        self._duplex, self._next = duplex, opening.watch_from
        await self.push()
        while (message := await duplex.receive()) is not None:
            self.heard.append(message)
            answer = self.answer(message)
            if answer is not None:
                await duplex.send(answer)

    async def push(self, through: int | None = None) -> None:
        """The watch goes on as far as there are revisions."""
        assert self._duplex is not None
        if self._next < self.minimum:
            await self._duplex.send(WatchFailed(code="COMPACTED", minimum=self.minimum))
            return
        for batch in self.history.batches[self._next - 1 : through]:
            await self._duplex.send(Watched(batch=batch))
            self._next = batch.revision + 1

    async def say(self, message: Message) -> None:
        """On the present session."""
        assert self._duplex is not None
        await self._duplex.send(message)

    def answer(self, message: Message) -> Message | None:
        """What it says to a message of a session, if anything."""
        match message:
            case Renewal(request=request, applied=applied):
                if not self.member or self.required is None or applied < self.required:
                    return RenewalRefused(request=request, code="RECOVERING", text="not a member yet")
                return Grant(
                    request=request,
                    term=TERM,
                    sequence=Sequence(request),
                    duration_ns=3 * SECOND_NS,
                    floor=Revision(0),
                )
            case RecoveryFinished():
                if self.on_finished:
                    return self.on_finished.pop(0)(message)
                return self.let_in()
            case Surrender():
                return SurrenderAccepted()
            case RecoveryProgress():
                return None
            case _:
                return None

    def let_in(self) -> RecoveryAccepted:
        """The node is a member from now on."""
        self.member, self.required = True, self.history.latest
        return RecoveryAccepted(required=self.history.latest)


class Ground:
    """A network, a leader by hand, and one node."""

    def __init__(self, random: Any) -> None:
        loop: Any = asyncio.get_running_loop()
        self.network = Network(loop, random)
        self.history = History()
        self.leader = ScriptedLeader(self.history)
        self.disk = VaultDisk()
        self.vault: Vault | None = None
        """Of the newest process."""
        self.clock = SimulatedClock(loop)
        self.entropy = SeededEntropy(random)
        self.faults: list[BaseException] = []
        self.published = Published()
        self.agent: Agent | None = None

    def make(
        self,
        *,
        coordinators: tuple[str, ...] = ("c1:7000",),
        compares_disk: bool = False,
        limits: ProjectionLimits = PROJECTION_LIMITS,
        published: type[Published] = Published,
    ) -> Agent:
        """A new process on what the disk holds."""
        self.published = published()
        self.vault = self.disk.open()
        self.agent = Agent(
            name="n1",
            address="n1:1",
            coordinators=coordinators,
            vault=self.vault,
            transport=self.network.host("n1"),
            clock=self.clock,
            entropy=self.entropy,
            threads=NoThreads(),
            published=self.published,
            compares_disk=compares_disk,
            directory="/data/n1",
            projection_limits=limits,
        )
        return self.agent

    def start(self, group: asyncio.TaskGroup, **options: Any) -> "asyncio.Task[None]":
        """Runs a new process."""
        return group.create_task(self.make(**options).run())

    async def kill(self, life: "asyncio.Task[None]") -> None:
        """What was written stays."""
        life.cancel()
        await asyncio.wait([life])
        self.disk.kill()

    def cut(self) -> None:
        """Every stream of the node breaks."""
        for stream in list(self.network.streams):
            for end in stream.ends():
                if end.host.name == "n1":
                    end.cut("a short break")

    @property
    def shown(self) -> int:
        """The revision that the node shows."""
        return self.published.view.revision


class Over(Exception):
    pass


def with_a_leader(scenario: Callable[[Ground, asyncio.TaskGroup], Any], *, seed: int = 1) -> None:
    """Runs a scenario to its end, and whatever still runs then is cancelled."""

    async def main(random: Any) -> None:
        ground = Ground(random)
        await ground.network.host("c1").serve("c1:7000", ground.leader, on_fault=ground.faults.append)
        try:
            async with asyncio.TaskGroup() as group:
                await scenario(ground, group)
                raise Over
        except* Over:
            pass
        assert ground.faults == []

    run_virtual(main, seed)
