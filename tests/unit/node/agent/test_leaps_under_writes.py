"""A node that leaps while writes go on: what the old stream still brings, and how often it leaps."""

import copy

import pytest

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import SnapshotEnd, Watched, WatchFailed
from leasehold.node.agent.published import Published
from leasehold.testing.streams import Kind
from tests.scenarios.bad_words import until
from tests.unit.node.scripted_leader import with_a_leader


def leased(ground):
    return ground.published.lease.deadline_ns > ground.clock.now_ns()


def brought_at_the_leap(ground, message):
    """What a process shows its views by, where the watch of the stream that is about to end has the message there in
    the step in which the node leaps; and how often it had."""
    came = []

    class Leaping(Published):
        def publish(self, view):
            leaps = view.revision > self.view.revision + 1
            super().publish(view)
            if leaps:
                for stream in ground.network.streams:
                    stream.client.take(Kind.DATA, encode(message))
                    came.append(message)

    return Leaping, came


@pytest.mark.parametrize("what", ["a later revision", "its end"])
def test_R10_what_the_old_stream_brings_after_the_leap_is_left_to_the_next_one(what):
    """The revisions between were passed over during the leap: applied on the snapshot, a later one would not follow."""

    async def scenario(ground, group):
        for table in range(1, 4):
            ground.history.put(table)
        ground.leader.minimum = 3
        later, end = Watched(batch=five_revisions(ground)[4]), WatchFailed(code="FUTURE_REVISION", minimum=3)
        published, came = brought_at_the_leap(ground, later if what == "a later revision" else end)
        ground.start(group, published=published)
        await until(lambda: leased(ground))
        assert came
        assert [one.watch_from for one in ground.leader.opened] == [1, 4]
        assert ground.leader.asked_snapshots == 1
        for _ in range(2):
            ground.history.put(4)
        await ground.leader.push()
        await until(lambda: ground.shown == 5)

    with_a_leader(scenario)


def five_revisions(ground):
    """The history as it will be after two more."""
    future = copy.deepcopy(ground.history)
    for _ in range(2):
        future.put(4)
    return future.batches


@pytest.mark.parametrize("cut", [False, True], ids=["on one stream", "the next stream breaks too"])
def test_R3_few_keys_that_change_fast_need_one_snapshot(cut):
    """While it takes the snapshot more revisions are made than keys are live; it replays them all the same."""

    async def scenario(ground, group):
        leader, history = ground.leader, ground.history

        def busy():
            for _ in range(20):
                history.put(1)

        async def slowly(request):
            async for message in leader.sound(request):
                if isinstance(message, SnapshotEnd):
                    busy()
                yield message

        busy()
        leader.live_keys = 3
        leader.snapshots = [slowly] * 5
        if cut:
            leader.on_finished = [lambda _: None]
        ground.start(group)
        if cut:
            await until(lambda: ground.shown == 40)
            busy()
            ground.cut()
        await until(lambda: leased(ground))
        assert leader.asked_snapshots == 1
        assert ground.shown == history.latest

    with_a_leader(scenario)
