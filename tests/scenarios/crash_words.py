"""Words of the crash points: one step of a node's way in, cut in one way, and what has to be true after it.

A step is a durable write of the node, a message between it and its coordinator, or a transaction of the leader. A cut
is exact: it hits that step, in that life of the directory (its first process, or one after a process that was killed
while it held a lease), and nothing else.
"""

import asyncio

from leasehold.core import keys
from leasehold.core.messages import (
    Allocate,
    AllocateAnswer,
    ClusterFacts,
    Join,
    JoinAnswer,
    JoinWait,
    OpenSession,
    SessionOpened,
    WhoAreYou,
)
from leasehold.ids import Revision
from leasehold.limits import CALL_TIMEOUT_NS, MILLISECOND_NS, SECOND_NS
from leasehold.testing.cluster import COORDINATOR
from leasehold.testing.metastorage import Fate
from leasehold.testing.vault import VaultDisk
from tests.scenarios.crash_ground import AGAIN, FIRST, Cut, Ground, Strike

STALL_NS = 2 * SECOND_NS
"""How long a write takes that is cut: half of it before it is done, half after."""
SOON_NS = 5 * MILLISECOND_NS
LATE_NS = CALL_TIMEOUT_NS + SECOND_NS
"""Its sender has given up by then, and asked again."""


# ---------------------------------------------------------------- the node's durable writes


WRITES = {
    FIRST: ("CLAIMING", "ALLOCATED", "JOINING", "the incarnation"),
    AGAIN: ("JOINING", "the incarnation"),
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
        before = await where.look()
        await asyncio.sleep((3 if done else 1) * STALL_NS / 4 / SECOND_NS)
        after = await where.look()
        assert (after != before) == done, "killed before it was written, or after"
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
    FIRST: (WhoAreYou, ClusterFacts, Allocate, AllocateAnswer, Join, JoinAnswer),
    AGAIN: (WhoAreYou, ClusterFacts, Join, JoinWait, JoinAnswer),
}
REQUESTS = (WhoAreYou, Allocate, Join)


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


def stream_dies(kind: type, who: str) -> Strike:
    """The first session's opening is under way, or its answer."""

    async def strike(where: Ground) -> None:
        seen = asyncio.Event()
        src, dst = where.node.name, COORDINATOR

        def predicate(message: object) -> bool:
            if isinstance(message, kind):
                seen.set()
            return isinstance(message, kind)

        hold = where.cluster.network.hold(*((src, dst) if kind is OpenSession else (dst, src)), predicate)
        where.node.start(where.group)
        await where.reached(seen)
        await (where.restart() if who == "node" else where.restart_leader())
        where.cluster.network.release(hold)

    return strike


def stream_cuts() -> list[Cut]:
    return [
        Cut(f"{kind.__name__} is under way, the {who} dies", life, stream_dies(kind, who))
        for life in (FIRST, AGAIN)
        for kind in (OpenSession, SessionOpened)
        for who in ("node", "leader")
    ]


# ---------------------------------------------------------------- the leader's transactions


TRANSACTIONS = {FIRST: (Allocate, Join), AGAIN: (Join,)}


def arm_store(where: Ground, kind: type, fate: Fate) -> asyncio.Event:
    """The transaction that decides the first request of a kind fares so; set when it is about to be run."""
    asked, reached = False, asyncio.Event()

    def hear(_src: str, _dst: str, message: object) -> None:
        nonlocal asked
        asked = asked or isinstance(message, kind)

    async def before(request: str) -> Fate:
        await asyncio.sleep(0)
        if request != "txn" or not asked or reached.is_set():
            return Fate.ANSWERED
        reached.set()
        return fate

    where.cluster.network.fate = hear
    for one in where.cluster.coordinators:
        one.before = before
    return reached


def transaction_lost(kind: type, fate: Fate) -> Strike:
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

        def hear(_src: str, _dst: str, message: object) -> None:
            nonlocal asked_at
            if isinstance(message, kind) and asked_at is None:
                asked_at = store.newest

        async def before(request: str) -> Fate:
            await asyncio.sleep(0)
            if request == "txn" and asked_at is not None and not done:
                at.set()
                await asyncio.Event().wait()
            return Fate.ANSWERED

        async def after(request: str) -> None:
            if request == "txn" and asked_at is not None:
                at.set()
                await asyncio.Event().wait()

        where.cluster.network.fate = hear
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
                ("is lost", Fate.LOST_BEFORE),
                ("has its answer lost", Fate.LOST_AFTER),
                ("comes late", Fate.LATE),
            ):
                cuts.append(Cut(f"{name} {what}", life, transaction_lost(kind, fate), coordinators=2))
    return cuts


CUTS = (*write_cuts(), *message_cuts(), *stream_cuts(), *transaction_cuts())
