"""Words of the crash points: one step of a node's way in, cut in one way, and what has to be true after it.

A step is a durable write of the node, a message between it and its coordinator, or a request of the leader to its
store, from the first message to the first lease. A cut is exact: it hits that step, in that life of the directory (its
first process, or one after a process that was killed while it held a lease), and nothing else. The lists of steps are
whole: `crash_steps` compares them with a way in that nobody cuts.
"""

import asyncio
from collections.abc import Callable

from leasehold.core.words import keys
from leasehold.core.words.messages import (
    Allocate,
    AllocateAnswer,
    ChallengeCoordinator,
    ClusterFacts,
    CoordinatorProof,
    Grant,
    Join,
    JoinAnswer,
    JoinWait,
    OpenSession,
    RecoveryAccepted,
    RecoveryFinished,
    RecoveryProgress,
    Renewal,
    RenewalRefused,
    SessionOpened,
    Watched,
    WhoAreYou,
)
from leasehold.ids import Revision
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.sessions import KEEPALIVE_INTERVAL_NS, KEEPALIVE_TIMEOUT_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.cluster import COORDINATOR
from leasehold.testing.requests import RequestFate, is_transaction
from leasehold.testing.vault import VaultDisk
from tests.scenarios.crash_ground import AGAIN, FIRST, Cut, Ground, Strike

STALL_NS = 2 * SECOND_NS
"""How long a write takes that is cut: half of it before it is done, half after."""
SOON_NS = 5 * MILLISECOND_NS
LATE_NS = CALL_TIMEOUT_NS + SECOND_NS
"""Its sender has given up by then, and asked again."""


# ---------------------------------------------------------------- the node's durable writes


IDENTITY = ("CLAIMING", "ALLOCATED", "JOINING", "the incarnation")
WRITES = {
    FIRST: (*IDENTITY, "the coordinators", "the first revisions"),
    AGAIN: ("JOINING", "the incarnation", "the coordinators", "the first revisions"),
}


def stall(disk: VaultDisk, number: int) -> asyncio.Event:
    """Makes this write of the next process, counted from one, take its time; set when it begins."""
    begun = asyncio.Event()
    writes = 0

    def latency_ns() -> int:
        nonlocal writes
        writes += 1
        if writes != number:
            return 0
        begun.set()
        return STALL_NS

    disk.latency_ns = latency_ns
    return begun


def cut_write(number: int, *, done: bool, crash: bool) -> Strike:
    async def strike(where: Ground) -> None:
        begun = stall(where.node.disk, number)
        where.node.start(where.group)
        await where.reached(begun)
        before = where.node.disk.state
        await where.look()
        await asyncio.sleep((3 if done else 1) * STALL_NS / 4 / SECOND_NS)
        await where.look()
        written = where.node.disk.state is not before
        assert written == done, "killed before it was written, or after"
        where.node.disk.latency_ns = lambda: 0
        await where.restart(crash=crash)

    return strike


def write_cuts() -> list[Cut]:
    cuts: list[Cut] = []
    for life, names in WRITES.items():
        for number, name in enumerate(names, 1):
            for who, crash in (("process", False), ("machine", True)):
                for when, done in (("before", False), ("after", True)):
                    strike = cut_write(number, done=done, crash=crash)
                    cuts.append(Cut(f"{who} dies {when} {name} is durable", life, strike))
    return cuts


# ---------------------------------------------------------------- messages


MESSAGES = {
    FIRST: (
        WhoAreYou,
        ClusterFacts,
        ChallengeCoordinator,
        CoordinatorProof,
        Allocate,
        AllocateAnswer,
        Join,
        JoinAnswer,
    ),
    AGAIN: (WhoAreYou, ClusterFacts, ChallengeCoordinator, CoordinatorProof, Join, JoinWait, JoinAnswer),
}
REQUESTS = (WhoAreYou, ChallengeCoordinator, Allocate, Join)


def on_first(where: Ground, kind: type, *delays_ns: int) -> asyncio.Event:
    """The next message of a kind arrives so; set when it is sent."""
    sent = asyncio.Event()

    def fate(_src: str, _dst: str, message: object) -> tuple[int, ...] | None:
        if sent.is_set() or not isinstance(message, kind):
            return None
        sent.set()
        where.late_until_ns = where.cluster.loop.now_ns() + max(delays_ns, default=0) + SECOND_NS
        return delays_ns

    where.cluster.network.fate = fate
    return sent


def fare(kind: type, *delays_ns: int) -> Strike:
    """Nobody dies: the message is lost, doubled or late."""

    async def strike(where: Ground) -> None:
        sent = on_first(where, kind, *delays_ns)
        where.node.start(where.group)
        await where.reached(sent)

    return strike


def node_dies(kind: type, *delays_ns: int) -> Strike:
    """While the message is under way, to it or from it."""

    async def strike(where: Ground) -> None:
        sent = on_first(where, kind, *delays_ns)
        where.node.start(where.group)
        await where.reached(sent)
        await where.restart()

    return strike


def leader_dies(kind: type, *delays_ns: int) -> Strike:
    async def strike(where: Ground) -> None:
        sent = on_first(where, kind, *delays_ns)
        where.node.start(where.group)
        await where.reached(sent)
        await where.restart_leader()

    return strike


def both_die(kind: type, *delays_ns: int) -> Strike:
    async def strike(where: Ground) -> None:
        sent = on_first(where, kind, *delays_ns)
        where.node.start(where.group)
        await where.reached(sent)
        await where.restart_leader()
        await where.restart()

    return strike


def message_cuts() -> list[Cut]:
    cuts: list[Cut] = []
    for life, kinds in MESSAGES.items():
        for kind in kinds:
            ways: dict[str, Strike] = {
                "is lost": fare(kind),
                "comes twice": fare(kind, SOON_NS, 2 * SOON_NS),
                "comes again late": fare(kind, SOON_NS, LATE_NS),
                "comes late": fare(kind, LATE_NS),
                "is lost, the leader dies": leader_dies(kind),
                "comes, the leader dies": leader_dies(kind, SOON_NS),
                "is lost, node and leader die": both_die(kind),
                "comes, the node dies": node_dies(kind, SOON_NS),
            }
            if kind in REQUESTS:
                ways["comes late, the node dies"] = node_dies(kind, LATE_NS)
                ways["comes twice and late, the node dies"] = node_dies(kind, SOON_NS, LATE_NS)
            cuts += [Cut(f"{kind.__name__} {way}", life, strike) for way, strike in ways.items()]
    return cuts


SAID = (OpenSession, Renewal, RecoveryProgress, RecoveryFinished)
STREAM = (*SAID, SessionOpened, Watched, RenewalRefused, RecoveryAccepted, Grant)
"""What goes over the session until the first lease, in either life; nothing there is lost or doubled while it lasts."""


def stream_ends(kind: type, how: str) -> Strike:
    """The first session ends while the first message of a kind is under way on it, and what was sent behind it."""

    async def strike(where: Ground) -> None:
        seen = asyncio.Event()
        src, dst = where.node.name, COORDINATOR

        def predicate(message: object) -> bool:
            if isinstance(message, kind):
                seen.set()
            return isinstance(message, kind)

        network = where.cluster.network
        hold = network.hold(*((src, dst) if kind in SAID else (dst, src)), predicate)
        where.node.start(where.group)
        await where.reached(seen)
        match how:
            case "the node dies":
                await where.restart()
            case "the leader dies":
                await where.restart_leader()
            case "the way between them is cut":
                network.partition(src, dst)
                await asyncio.sleep((KEEPALIVE_TIMEOUT_NS + KEEPALIVE_INTERVAL_NS) / SECOND_NS)
                network.heal(src, dst)
        network.release(hold)

    return strike


def stream_cuts() -> list[Cut]:
    return [
        Cut(f"{kind.__name__} is under way, {how}", life, stream_ends(kind, how))
        for life in (FIRST, AGAIN)
        for kind in STREAM
        for how in ("the node dies", "the leader dies", "the way between them is cut")
    ]


# ---------------------------------------------------------------- the leader's requests to its store


TRANSACTIONS = {FIRST: (Allocate, Join, RecoveryFinished), AGAIN: (Join, RecoveryFinished)}
READS = {FIRST: ("history", "status"), AGAIN: ("get", "history", "status")}
"""The history at what the vault holds, if it holds anything; what the session follows, and the newest revision."""


def on_arrival(where: Ground, kind: type, hear: Callable[[], None]) -> None:
    """Whenever a message of a kind comes from the node, on a session or not."""

    def look(message: object) -> bool:
        if isinstance(message, kind):
            hear()
        return False

    for one in where.cluster.coordinators:
        where.cluster.network.hold(where.node.name, one.name, look)


def arm_store(where: Ground, kind: type, fate: RequestFate) -> asyncio.Event:
    """The transaction that decides the first request of a kind fares so; set when it is about to be run."""
    asked, reached = False, asyncio.Event()

    def hear() -> None:
        nonlocal asked
        asked = True

    async def before(request: str) -> RequestFate:
        await asyncio.sleep(0)
        if not is_transaction(request) or not asked or reached.is_set():
            return RequestFate.ANSWERED
        reached.set()
        return fate

    on_arrival(where, kind, hear)
    for one in where.cluster.coordinators:
        one.before = before
    return reached


def transaction_lost(kind: type, fate: RequestFate) -> Strike:
    async def strike(where: Ground) -> None:
        reached = arm_store(where, kind, fate)
        where.node.start(where.group)
        await where.reached(reached)

    return strike


def leader_dies_at_transaction(kind: type, *, done: bool) -> Strike:
    async def strike(where: Ground) -> None:
        at = asyncio.Event()
        (one,) = where.cluster.coordinators
        store = where.cluster.store
        asked_at: int | None = None

        def hear() -> None:
            nonlocal asked_at
            if asked_at is None:
                asked_at = store.newest

        async def before(request: str) -> RequestFate:
            await asyncio.sleep(0)
            if request == "txn" and asked_at is not None and not done:
                at.set()
                await asyncio.Event().wait()
            return RequestFate.ANSWERED

        async def after(request: str) -> None:
            if request == "txn" and asked_at is not None:
                at.set()
                await asyncio.Event().wait()

        on_arrival(where, kind, hear)
        one.before, one.after = before, after
        where.node.start(where.group)
        await where.reached(at)
        assert asked_at is not None
        wrote = [change.key for batch in store.since(Revision(asked_at)) for change in batch.changes]
        assert any(key.startswith(keys.NODES) for key in wrote) == done
        await where.restart_leader()

    return strike


def transaction_cuts() -> list[Cut]:
    cuts: list[Cut] = []
    for life, kinds in TRANSACTIONS.items():
        for kind in kinds:
            name = f"the transaction of {kind.__name__}"
            for when, done in (("before", False), ("after", True)):
                cuts.append(Cut(f"leader dies {when} {name}", life, leader_dies_at_transaction(kind, done=done)))
            for what, fate in (
                ("is lost", RequestFate.LOST_BEFORE),
                ("has its answer lost", RequestFate.LOST_AFTER),
                ("comes late", RequestFate.LATE),
                ("comes twice", RequestFate.DOUBLED),
            ):
                cuts.append(Cut(f"{name} {what}", life, transaction_lost(kind, fate), coordinators=2))
    return cuts


def cut_read(request: str, *, leader_dies: bool) -> Strike:
    """The first one has no answer, or its leader dies before it has one."""

    async def strike(where: Ground) -> None:
        (one,) = where.cluster.coordinators
        reached = asyncio.Event()

        async def before(asked: str) -> RequestFate:
            await asyncio.sleep(0)
            if asked != request or reached.is_set():
                return RequestFate.ANSWERED
            reached.set()
            if leader_dies:
                await asyncio.Event().wait()
            return RequestFate.LOST_BEFORE

        one.before = before
        where.node.start(where.group)
        await where.reached(reached)
        if leader_dies:
            await where.restart_leader()

    return strike


def read_cuts() -> list[Cut]:
    return [
        Cut(f"the leader's {request} {way}", life, cut_read(request, leader_dies=leader_dies))
        for life, requests in READS.items()
        for request in requests
        for way, leader_dies in (("has no answer", False), ("is under way, the leader dies", True))
    ]


CUTS = (*write_cuts(), *message_cuts(), *stream_cuts(), *transaction_cuts(), *read_cuts())
