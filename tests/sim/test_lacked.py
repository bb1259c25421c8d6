"""Segments whose only holder has no file of them: they count as lost, and nobody gives them up by mistake."""

from leasehold.core.words.messages import ClusterStatus, NodeRemoved, RemoveNode, Rows
from leasehold.ids import NodeId
from leasehold.limits.scrub import SCRUB_EVERY_MIN_NS
from leasehold.testing.cluster import SimulatedNode
from leasehold.testing.disk import SegmentDisk
from tests.sim.data_words import Ground, simulate


async def counted(ground: Ground, node: NodeId) -> tuple[int | None, int | None, int | None, int]:
    """The segments that lack copies, that are lost, that the node alone holds, and that it alone should hold."""
    status: ClusterStatus = await ground.cluster.status()
    (one,) = (each for each in status.nodes if each.id == node)
    lacked = sum(each.segments for each in status.lacked if each.node == node)
    return status.segments_short, status.segments_lost, one.segments_alone, lacked


async def comes_to(ground: Ground, node: NodeId, expected: tuple[int, int, int, int]) -> None:
    told: list[object] = []
    while told[-1:] != [expected]:
        assert len(told) < 60, told[-1]
        told.append(await counted(ground, node))
        await ground.clock.sleep_until(ground.clock.now_ns() + 500_000_000)


async def wiped(ground: Ground, node: SimulatedNode) -> SegmentDisk:
    """It comes back without its segments; the disk that it had."""
    await node.kill()
    before, node.data.disk = node.data.disk, SegmentDisk()
    node.start(ground.group)
    await ground.wait_for(node.guard)
    return before


def test_what_only_one_node_should_hold_counts_as_lost_once_it_says_that_it_has_no_file() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=1)
        await ground.write(20)
        (record,) = ground.manifest()
        (number,) = record.holders
        node = ground.node(number)
        assert await counted(ground, number) == (0, 0, 0, 0)
        disk = await wiped(ground, node)
        await comes_to(ground, number, (1, 1, 0, 1))
        assert ground.manifest() == [record], "the manifest still names it, so the rows are not given up"
        await ground.cluster.kill_coordinator()
        await ground.cluster.start_coordinator(ground.group)
        await comes_to(ground, number, (1, 1, 0, 1))

        await node.kill()
        node.data.disk = disk
        node.start(ground.group)
        await ground.wait_for(node.guard)
        assert await counted(ground, number) == (0, 0, 0, 0), "it has been brought back"
        assert await ground.read()

    simulate(scenario)


def test_what_only_one_node_holds_counts_as_lost_while_its_disk_can_t_read_it() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=1)
        await ground.cluster.sql("ALTER CLUSTER SET scrub_every = '1m'")
        await ground.write(20)
        (record,) = ground.manifest()
        (number,) = record.holders
        disk = ground.node(number).data.disk
        disk.failing = True
        await ground.clock.sleep_until(ground.clock.now_ns() + SCRUB_EVERY_MIN_NS)
        await comes_to(ground, number, (1, 1, 0, 1))
        disk.failing = False
        await ground.clock.sleep_until(ground.clock.now_ns() + SCRUB_EVERY_MIN_NS)
        await comes_to(ground, number, (0, 0, 0, 0))
        assert await ground.read()

    simulate(scenario)


def test_what_another_node_would_hold_too_counts_once_and_is_lost_by_a_removal_as_well() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=2)
        (in_sync,) = ground.in_sync()
        first, away = (ground.node(one) for one in in_sync)
        await away.kill()
        await ground.write(20)
        assert await counted(ground, in_sync[0]) == (1, 0, 1, 0)
        shown = await ground.cluster.sql("SHOW NODES")
        assert isinstance(shown, Rows)
        short = {row[0]: row[shown.columns.index("segments_short")] for row in shown.rows}
        assert short == dict.fromkeys(short, 0) | dict.fromkeys(in_sync, 1), "of each node that it is to be on"
        await wiped(ground, first)
        await comes_to(ground, in_sync[0], (1, 1, 0, 1))
        await first.kill()
        assert await counted(ground, in_sync[0]) == (1, 1, 0, 1), "as it has said last"
        request = RemoveNode(cluster_id=None, name=first.name, force=True)
        await ground.cluster.ask(request, NodeRemoved)
        status = await ground.cluster.status()
        assert (status.segments_short, status.segments_lost) == (1, 1)

    simulate(scenario)


def test_what_is_dropped_does_not_count() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=1)
        await ground.write(20)
        (number,) = ground.manifest()[0].holders
        await wiped(ground, ground.node(number))
        await comes_to(ground, number, (1, 1, 0, 1))
        await ground.cluster.sql("DROP TABLE d.t")
        assert await counted(ground, number) == (0, 0, 0, 0)

    simulate(scenario)
