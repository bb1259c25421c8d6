"""What really happens on a node's way in, from its start to its first lease: what the crash points have to cut."""

from itertools import pairwise

import msgspec

from leasehold.core.words.codec import decode_record
from leasehold.core.words.records import Allocated, Record
from leasehold.testing.requests import RequestFate, undisturbed
from leasehold.testing.vault import VaultDisk, VaultState
from tests.scenarios.crash_ground import Cut, Ground, run_cuts
from tests.scenarios.crash_words import TRANSACTIONS
from tests.scenarios.identity_words import serving

LAST_WRITE = "the first revisions"


class Steps(msgspec.Struct, kw_only=True):
    """In one life of a directory, by the names that the crash points have for them."""

    writes: list[str] = []
    """Of the vault, up to the first revisions."""
    messages: set[str] = set()
    """Both ways, on the session and beside it."""
    transactions: list[str] = []
    """Of the leader, each after which message of the node."""
    reads: set[str] = set()
    """Other requests to its store."""


def uncut(life: str) -> Steps:
    """Nothing is cut: each step is noted."""
    noted: list[Steps] = []

    async def strike(where: Ground) -> None:
        steps, disk = Steps(), where.node.disk
        states = states_before(disk)
        note_messages(where, steps)
        where.node.start(where.group)
        await serving(where.cluster, where.node)
        writes = [named(before, after) for before, after in pairwise((*states, disk.state))]
        steps.writes = writes[: writes.index(LAST_WRITE) + 1]
        noted.append(msgspec.structs.replace(steps, messages={*steps.messages}))
        (one,) = where.cluster.coordinators
        one.before, disk.latency_ns = undisturbed, lambda: 0

    run_cuts(Cut("nothing", life, strike))
    (steps,) = noted
    return steps


def states_before(disk: VaultDisk) -> list[VaultState]:
    """What the vault holds as each write begins, one after the other."""
    states: list[VaultState] = []

    def latency_ns() -> int:
        states.append(disk.state)
        return 0

    disk.latency_ns = latency_ns
    return states


def named(before: VaultState, after: VaultState) -> str:
    """As the crash points call it; the addresses of coordinators may be written as they are."""
    if after.applied != before.applied:
        return LAST_WRITE
    if after.identity == before.identity:
        return "the coordinators"
    record = decode_record(Record, after.identity)
    if isinstance(record, Allocated) and record.incarnation:
        return "the incarnation"
    return type(record).__name__.upper()


def note_messages(where: Ground, steps: Steps) -> None:
    """And what the leader asks its store because of them."""
    asks = {kind.__name__ for kinds in TRANSACTIONS.values() for kind in kinds}
    newest = ""

    def look(message: object) -> bool:
        nonlocal newest
        name = type(message).__name__
        steps.messages.add(name)
        newest = name if name in asks else newest
        return False

    async def before(request: str) -> RequestFate:
        if request == "txn":
            steps.transactions.append(newest)
        else:
            steps.reads.add(request)
        return await undisturbed(request)

    (one,) = where.cluster.coordinators
    where.cluster.network.hold(where.node.name, one.name, look)
    where.cluster.network.hold(one.name, where.node.name, look)
    one.before = before
