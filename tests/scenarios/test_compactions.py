"""Compactions at a coordinator: what is forgotten, and what is held for whom."""

import asyncio
from contextlib import aclosing

import msgspec

from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS
from leasehold.core.words import keys
from leasehold.core.words.messages import Watched, WatchFailed
from leasehold.errors import Refused
from leasehold.limits.metastorage import COMPACTION_INTERVAL_NS, RETENTION_HOLD_NS
from leasehold.limits.units import SECOND_NS
from leasehold.testing.requests import RequestFate
from tests.scenarios.admission_words import at_a_desk
from tests.scenarios.snapshot_words import told

FEW = msgspec.structs.replace(DEFAULT_SETTINGS, retention_revisions=100)
SHORT = msgspec.structs.replace(DEFAULT_SETTINGS, retention_ns=100 * SECOND_NS)
LOOKED_NS = 2 * COMPACTION_INTERVAL_NS
"""By then the leader has looked what may be forgotten."""


async def settled(desk):
    """Long enough after its election, a leader knows what is held."""
    await desk.sleep(RETENTION_HOLD_NS + LOOKED_NS)


def test_a_leader_compacts_by_itself_what_is_more_than_is_to_be_kept():
    async def scenario(desk):
        await desk.write(200)
        await desk.sleep(RETENTION_HOLD_NS - SECOND_NS)
        assert await desk.minimum() == 1, "an older leader may have promised something to somebody"
        await settled(desk)
        assert await desk.minimum() == desk.catalog.revision - 100
        await desk.write(50)
        await desk.sleep(LOOKED_NS)
        assert await desk.minimum() == desk.catalog.revision - 100

    at_a_desk(scenario, settings=FEW)


def test_a_leader_compacts_by_itself_what_is_older_than_is_to_be_kept():
    async def scenario(desk):
        await desk.write(5)
        await desk.sleep(LOOKED_NS)
        old = desk.catalog.revision
        await desk.sleep(50 * SECOND_NS)
        await desk.write(5)
        await desk.sleep(40 * SECOND_NS)
        assert await desk.minimum() < old
        await desk.sleep(60 * SECOND_NS)
        assert old <= await desk.minimum() <= desk.catalog.revision
        await desk.sql("ALTER CLUSTER SET retention = '1s'")
        await desk.sleep(2 * LOOKED_NS)
        assert await desk.minimum() == desk.catalog.revision

    at_a_desk(scenario, settings=SHORT)


def test_a_compaction_that_is_declined_is_tried_again():
    async def scenario(desk):
        await desk.write(150)
        undisturbed = desk.storage.before
        declined = 0

        async def busy(request):
            nonlocal declined
            await asyncio.sleep(0)
            if request == "compact" and declined < 3:
                declined += 1
                raise Refused("too many requests wait", code="BUSY", hint="ask again later")
            return RequestFate.ANSWERED

        desk.storage.before = busy
        await settled(desk)
        await desk.sleep(5 * COMPACTION_INTERVAL_NS)
        desk.storage.before = undisturbed
        assert declined == 3
        assert await desk.minimum() == desk.catalog.revision - 100

    at_a_desk(scenario, settings=FEW)


def test_a_watch_that_compaction_has_overtaken_is_told_so():
    async def scenario(desk):
        node = await desk.node()
        await desk.write(200)
        await settled(desk)
        line, opened = await node.open(watch_from=1)
        assert opened.minimum == await desk.minimum() > 1
        assert opened.live_keys == len((await desk.storage.range(keys.WATCH_START, keys.WATCH_END, limit=1_000)).items)
        assert await line.hear(WatchFailed, Watched) == WatchFailed(code="COMPACTED", minimum=opened.minimum)

    at_a_desk(scenario, settings=FEW)


def test_R3_what_follows_a_snapshot_is_held_until_the_next_session_has_delivered_it():
    async def scenario(desk):
        node = await desk.node()
        await settled(desk)
        async with aclosing(desk.coordinator.stream(node.snapshot())) as stream:
            at = (await anext(stream)).revision
            await desk.write(300)
            await desk.sleep(LOOKED_NS)
            assert await desk.minimum() <= at, "its pages are read at that revision"
            await told(stream)
        await desk.sleep(RETENTION_HOLD_NS - 2 * LOOKED_NS)
        assert await desk.minimum() <= at, "so long a node may take to apply it"
        line, opened = await node.open(watch_from=at + 1)
        assert opened.minimum <= at + 1
        revision = at
        while revision < opened.latest:
            revision = (await line.hear(Watched, WatchFailed)).batch.revision
        await desk.sleep(LOOKED_NS)
        assert await desk.minimum() == desk.catalog.revision - 100, "nothing is held any more"

    at_a_desk(scenario, settings=FEW)


def test_R3_a_node_that_never_comes_back_for_the_rest_holds_it_no_longer_than_the_ttl():
    async def scenario(desk):
        node = await desk.node()
        await settled(desk)
        await told(desk.coordinator.stream(node.snapshot()))
        await desk.write(300)
        await desk.sleep(RETENTION_HOLD_NS + LOOKED_NS)
        assert await desk.minimum() == desk.catalog.revision - 100

    at_a_desk(scenario, settings=FEW)


def test_R3_a_new_leader_keeps_what_the_old_one_held():
    async def scenario(desk):
        node = await desk.node()
        await settled(desk)
        at = (await told(desk.coordinator.stream(node.snapshot())))[0].revision
        await desk.write(300)
        await desk.another_leads()
        await desk.sleep(RETENTION_HOLD_NS - SECOND_NS)
        assert await desk.minimum() <= at
        line, opened = await node.open(watch_from=at + 1)
        assert opened.minimum <= at + 1
        assert isinstance(await line.hear(Watched, WatchFailed), Watched)

    at_a_desk(scenario, settings=FEW)
