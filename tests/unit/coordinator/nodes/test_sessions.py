"""A node's session at the leader: what it reports wrongly does not end it, what waits for it is bounded."""

import asyncio
import logging

import pytest

from leasehold.coordinator.nodes import sessions
from leasehold.coordinator.nodes.leases import Leasing
from leasehold.coordinator.nodes.proofs import Membership
from leasehold.coordinator.nodes.queues import Outbox, ReportQueue
from leasehold.coordinator.nodes.sessions import Sessions
from leasehold.coordinator.nodes.topology import Topology
from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS, first_records
from leasehold.coordinator.upkeep.retention import Retaining
from leasehold.coordinator.writer import Writer
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.lease.grantor import Grantor
from leasehold.core.lease.grants import registrations
from leasehold.core.membership.identity import hash_secret
from leasehold.core.words import keys
from leasehold.core.words.messages import (
    OpenSession,
    SegmentsHeld,
    SegmentsMissing,
    SessionOpened,
    SurrenderAccepted,
    TableCleaned,
    Watched,
)
from leasehold.core.words.operations import Change, RevisionChanges, Txn
from leasehold.core.words.records import NodeRecord
from leasehold.errors import Indefinite, Refused
from leasehold.limits.lease import LEASE_DURATION_NS
from leasehold.limits.replication import SEGMENTS_PER_REPORT_MAX
from leasehold.limits.sessions import SESSION_QUEUE_MESSAGES_MAX, SESSION_REVISIONS_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from leasehold.wire.clock import BoottimeClock
from tests.scenarios.admission_words import at_a_desk

CLUSTER = "c" * 32
SESSION = "5" * 32


class Stream:
    """The leader's end of a session."""

    def __init__(self):
        self.incoming = asyncio.Queue()
        self.sent = []

    async def send(self, message):
        self.sent.append(message)

    async def receive(self):
        return await self.incoming.get()

    async def close(self):
        pass


def held(*segments):
    return SegmentsHeld(node=1, incarnation=1, session=SESSION, table=7, bucket=0, segments=segments)


def cleaned(table):
    return TableCleaned(node=1, incarnation=1, session=SESSION, table=table)


async def serve(acknowledge, *messages):
    """Serves one session with these messages, then ends it in order."""
    node = NodeRecord(
        id=1,
        name="n",
        address="a:1",
        token_hash=b"",
        incarnation=1,
        nonce=None,
        session_hash=hash_secret(SESSION),
        removed=False,
        member=True,
    )
    catalog = Catalog().changed([*first_records(CLUSTER, DEFAULT_SETTINGS), put(keys.node(1), node)])
    clock = BoottimeClock()
    grantor = Grantor(
        term=1,
        floor=0,
        settings=DEFAULT_SETTINGS,
        largest_outstanding_ns=LEASE_DURATION_NS,
        registered=registrations([node]),
        hash_session=hash_secret,
        leads_until_ns=clock.now_ns() + 60 * SECOND_NS,
        now_ns=clock.now_ns(),
    )
    storage = MemoryMetaStorage(MemoryStore())
    stream = Stream()
    done = asyncio.Event()
    left = len(messages)

    async def counted(message):
        nonlocal left
        try:
            await acknowledge(message)
        finally:
            left -= 1
            if message == messages[-1]:
                done.set()

    stream.incoming.put_nowait(OpenSession(cluster_id=CLUSTER, node=1, incarnation=1, session=SESSION, watch_from=1))
    for message in messages:
        stream.incoming.put_nowait(message)
    leasing = Leasing(grantor, clock)
    leadership = await storage.campaign("c1")
    writer = Writer(storage, leadership, catalog, lambda *_: None, clock.now_ns, clock.wall_us)
    served = Sessions(
        storage,
        1,
        lambda: catalog,
        counted,
        clock=clock,
        leasing=leasing,
        topology=Topology(writer, leasing, clock, lambda _: None),
        retaining=Retaining(storage, leadership, writer, clock),
        live_keys=lambda: 0,
        prove=Membership(None).prove,
    )
    try:
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            task = group.create_task(served.serve(stream))
            await done.wait()
            stream.incoming.put_nowait(None)
            await task
    finally:
        leasing.stop()
        await storage.close()


async def test_a_report_that_is_declined_is_logged_and_the_session_goes_on(caplog: pytest.LogCaptureFixture):
    taken = []

    async def acknowledge(message):
        if message.table == 8:
            raise Refused("no such table", code="NOT_FOUND")
        taken.append(message.table)

    with caplog.at_level(logging.WARNING, logger=sessions.__name__):
        await serve(acknowledge, cleaned(8), cleaned(9))
    assert taken == [9]
    assert [record.getMessage() for record in caplog.records] == [
        "the report of node 1 about table 8 was refused: no such table (NOT_FOUND)"
    ]


async def test_reports_that_wait_are_taken_together_so_that_they_share_a_transaction():
    together, most = 0, 0

    async def acknowledge(_message):
        nonlocal together, most
        together += 1
        most = max(most, together)
        for _ in range(10):  # passes of the loop: a commit takes some
            await asyncio.sleep(0)
        together -= 1

    await serve(acknowledge, *(cleaned(number) for number in range(20)))
    assert most >= 10, "the first may have gone alone, while the others came"


async def test_a_report_with_an_unknown_outcome_ends_the_session():
    async def acknowledge(message):
        raise Indefinite("the coordinator stops")

    with pytest.raises(ExceptionGroup) as caught:
        await serve(acknowledge, cleaned(8))
    assert caught.group_contains(Indefinite)


async def test_a_report_too_large_for_one_transaction_is_taken_in_parts(caplog: pytest.LogCaptureFixture):
    taken = []

    async def acknowledge(message):
        if len(message.segments) > 2 or "huge" in message.segments:
            raise Refused("it would write too much at once", code="TOO_LARGE")
        taken.extend(message.segments)

    segments = ("a", "b", "huge", "c", "d", "e", "f")
    with caplog.at_level(logging.WARNING, logger=sessions.__name__):
        await serve(acknowledge, held(*segments))
    assert taken == ["a", "b", "c", "d", "e", "f"]
    assert len(caplog.records) == 1


@pytest.mark.parametrize("kind", [SegmentsHeld, SegmentsMissing])
def test_a_report_of_more_segments_than_a_node_sends_at_once_is_refused_unworked(kind):
    async def scenario(desk):
        node = await desk.node()
        line, _ = await node.open()
        before = desk.catalog.revision
        segments = tuple(f"{number:032x}-{0:032x}" for number in range(SEGMENTS_PER_REPORT_MAX + 1))
        speaker = {"node": node.id, "incarnation": node.incarnation, "session": node.session}
        line.say(kind(**speaker, table=2, bucket=0, segments=segments))
        async with asyncio.timeout(10):
            await line.ended.wait()
        assert line.error.code == "BAD_MESSAGE"
        assert desk.catalog.revision == before

    at_a_desk(scenario)


def test_a_store_that_fails_is_no_fault_of_the_node_whose_session_asks_it():
    async def scenario(desk):
        node = await desk.node()

        async def busy():
            raise Refused("too many requests wait", code="BUSY")

        undisturbed, desk.storage.status = desk.storage.status, busy
        line = node.connect()
        line.say(node.opening())
        await line.ended.wait()
        desk.storage.status = undisturbed
        assert isinstance(line.error, Indefinite)

        async def broken(*_args):
            raise Refused("the disk can't be read", code="EIO")
            yield

        undisturbed, desk.storage.watch = desk.storage.watch, broken
        line = node.connect()
        line.say(node.opening())
        await line.ended.wait()
        desk.storage.watch = undisturbed
        assert isinstance(line.error, Indefinite)

    at_a_desk(scenario)


def test_only_the_open_stream_of_a_node_gives_up_what_it_holds(monkeypatch):
    """A revision is made at one pass of the loop after the other while a newer stream, which watches from the first
    revision on, takes the place of an older one, which has seen all."""
    told = []
    monkeypatch.setattr(Retaining, "followed", lambda *_: told.clear())
    monkeypatch.setattr(Retaining, "delivered", lambda _self, _node, revision: told.append(revision))

    async def scenario(desk):
        node = await desk.node()
        await desk.write(3)
        _, opened = await node.open()
        await desk.sleep(SECOND_NS)
        assert told[-1] >= opened.latest
        for passes in range(12):
            line = node.connect()
            line.say(node.opening(watch_from=1))
            for _ in range(passes):
                await asyncio.sleep(0)
            desk.store.commit(Txn(then=(Change(keys.dropped(passes), b"what no leader looks at"),)))
            await line.hear(SessionOpened)
            await desk.sleep(SECOND_NS)
            assert told == sorted(set(told)), "the older stream tells nothing beside the newer one"
            assert told[-1] == desk.store.newest

    at_a_desk(scenario)


# ---------------------------------------------------------------- what waits for a node


def revision(number, size=0):
    return Watched(batch=RevisionChanges(number, (Change(b"k", b"v" * size),)))


async def waits(put):
    """Whether a put is still waiting once everything else has run."""
    for _ in range(3):
        await asyncio.sleep(0)
    return not put.done()


async def test_revisions_wait_by_their_bytes_and_grants_do_not():
    outbox = Outbox(revisions_bytes_max=1_000)
    await outbox.put_in_turn(revision(1, 2_000))  # larger than the limit, alone: it must go out some day
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        second = group.create_task(outbox.put_in_turn(revision(2, 600)))
        assert await waits(second)
        outbox.put(SurrenderAccepted())
        assert await outbox.get() == revision(1, 2_000)
        await second
        third = group.create_task(outbox.put_in_turn(revision(3, 600)))
        assert await waits(third)
        assert await outbox.get() == SurrenderAccepted()
        assert await waits(third)
        assert await outbox.get() == revision(2, 600)
        await third
    assert await outbox.get() == revision(3, 600)


async def test_many_small_revisions_leave_room_for_grants():
    outbox = Outbox()
    for number in range(SESSION_REVISIONS_MAX):
        await outbox.put_in_turn(revision(number))
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        late = group.create_task(outbox.put_in_turn(revision(SESSION_REVISIONS_MAX)))
        assert await waits(late)
        outbox.put(SurrenderAccepted())
        await outbox.get()
    for _ in range(SESSION_QUEUE_MESSAGES_MAX - SESSION_REVISIONS_MAX - 1):
        outbox.put(SurrenderAccepted())
    with pytest.raises(asyncio.QueueFull):
        outbox.put(SurrenderAccepted())


async def test_what_a_node_reports_waits_outside_by_its_bytes():
    reports = ReportQueue(bytes_max=1_000)
    await reports.put(held("a" * 2_000))  # larger than the limit, alone: it is to be taken some day
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        second = group.create_task(reports.put(held("b" * 600)))
        assert await waits(second)
        first = await reports.get()
        assert await waits(second), "it is being worked at"
        reports.done(first)
        await second
        third = group.create_task(reports.put(held("c" * 600)))
        assert await waits(third)
        reports.done(await reports.get())
        await third
        everything = group.create_task(reports.all_done())
        assert await waits(everything)
        reports.done(await reports.get())
