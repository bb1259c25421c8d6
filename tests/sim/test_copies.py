"""What is on too few nodes is counted from the commit on, whatever happens to nodes and tables."""

from collections import Counter

import pytest

from leasehold.coordinator.replicas import repair
from leasehold.core.replicas.copies import Copies
from leasehold.core.words.messages import NodeRemoved, RemoveNode
from leasehold.testing.simulation import simulate as simulate_random
from tests.sim.data_words import Ground, simulate


class Checked(Copies):
    """Compares what it has kept up with a count of everything, at each revision."""

    revisions = 0
    counted_short = 0

    def committed(self, changes, catalog):
        super().committed(changes, catalog)
        if not self.is_due and self._tallies is not None:
            expected = by_looking_at_all(catalog)
            assert self._tallies == expected, f"revision {catalog.revision}"
            Checked.revisions += 1
            Checked.counted_short += bool(expected)


def by_looking_at_all(catalog):
    """The same, from each entry of the manifest."""
    found: dict[object, Counter[tuple[int, ...]]] = {}
    for bucket in catalog.segments:
        for segment in catalog.segments.passing(bucket):
            holders = sorted(node for node in segment.holders if not catalog.nodes[node].removed)
            if segment.table in catalog.tables and len(holders) < catalog.tables[segment.table].replication:
                found.setdefault(bucket, Counter())[tuple(holders)] += 1
    return found


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    monkeypatch.setattr(repair, "Copies", Checked)
    Checked.revisions = Checked.counted_short = 0


@pytest.mark.parametrize("seeds", [range(1, 3), pytest.param(range(3, 31), marks=pytest.mark.long)], ids=str)
def test_random_clusters_count_what_lacks_copies_at_every_revision(seeds):
    for seed in seeds:
        simulate_random(seed)
    assert Checked.revisions > 100
    assert Checked.counted_short


async def status(ground: Ground):
    told = await ground.cluster.status()
    return told.segments_short, told.segments_lost, {one.id: one.segments_alone for one in told.nodes}


def test_what_was_written_while_a_node_was_away_counts_until_it_has_fetched_it():
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=2)
        assert await status(ground) == (0, 0, {1: 0, 2: 0, 3: 0})
        (in_sync,) = ground.in_sync()
        first, away = (ground.node(one) for one in in_sync)
        await away.kill()
        await ground.write(20)
        told = await ground.cluster.status()
        count = len(ground.manifest())
        assert (told.segments_short, told.segments_lost) == (count, 0)
        by_name = {one.id: one for one in told.nodes}
        assert by_name[first.published.node].segments_alone == count
        assert by_name[in_sync[1]].segments_short == count
        away.start(ground.group)
        await ground.wait_for(lambda: len(ground.manifest()[0].holders) == 2)
        assert await status(ground) == (0, 0, {1: 0, 2: 0, 3: 0})
        assert Checked.counted_short

    simulate(scenario)


def test_what_a_removed_node_held_alone_counts_as_lost():
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=1)
        await ground.write(20)
        count = len(ground.manifest())
        holder = ground.node(ground.manifest()[0].holders[0])
        number = holder.published.node
        assert (await status(ground))[:2] == (0, 0)
        await holder.kill()
        request = RemoveNode(cluster_id=None, name=str(number), force=True)
        await ground.cluster.ask(request, NodeRemoved)
        assert (await status(ground))[:2] == (count, count)

    simulate(scenario)
