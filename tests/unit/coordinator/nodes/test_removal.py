"""Censuses of a removal: how many there are, by what changes while the node's lease is waited for."""

import msgspec
import pytest

from leasehold.coordinator.nodes.removal import Removal
from leasehold.core.words.messages import NodeRemoved, RemoveNode
from leasehold.errors import Refused
from leasehold.limits.units import MILLISECOND_NS
from leasehold.testing.threads import NoThreads
from tests.unit.coordinator.office import NODE, asked
from tests.unit.coordinator.statement_cases import TABLE, U
from tests.unit.coordinator.statements.procedure_words import office_test


class Threads(NoThreads):
    """Each work is a census."""

    def __init__(self):
        self.censuses = 0

    async def run(self, compute):
        self.censuses += 1
        return await super().run(compute)


class Removing:
    """The removal of the only node, which holds a lease."""

    def __init__(self, office, *, recounted_max):
        self.threads, self.ended = Threads(), []
        self.removal = Removal(
            office.writer,
            office.leasing,
            office.clock,
            self.threads,
            office.group,
            end_session=lambda node, error: self.ended.append((node, error.code)),
            wall_us=lambda: 1_000_000_000,
            recounted_max=recounted_max,
        )
        office.on_commit.append(self.removal.committed)

    async def remove(self):
        async for message in self.removal.stream(RemoveNode(cluster_id=None, name=NODE.name, force=True)):
            if isinstance(message, NodeRemoved):
                return message
        raise AssertionError("it ended without an answer")


@pytest.mark.parametrize(("recounted_max", "censuses"), [(2, 2), (100, 1)])
def test_a_removal_counts_again_after_more_changes_than_it_looks_through(recounted_max, censuses):
    async def work(office):
        made = Removing(office, recounted_max=recounted_max)
        removing = office.group.create_task(made.remove())
        await office.sleep(MILLISECOND_NS)
        assert made.removal.leaving(NODE.id)
        await office.execute(asked(5, msgspec.structs.replace(TABLE, name=U)))
        assert not removing.done()
        assert (await removing).node == NODE.id
        assert office.catalog.nodes[NODE.id].removed
        assert office.catalog.certified_names[NODE.name].from_s == 1_000 - 60 + 1
        assert made.threads.censuses == censuses

    office_test(work)


def test_a_removal_is_refused_where_the_tables_change_faster_than_it_counts():
    async def work(office):
        made = Removing(office, recounted_max=-1)
        with pytest.raises(Refused) as caught:
            await made.remove()
        assert caught.value.code == "BUSY"
        assert not office.catalog.nodes[NODE.id].removed
        assert not made.removal.leaving(NODE.id)
        assert made.ended[-1] == (NODE.id, "UNREACHABLE"), "it comes back"

    office_test(work)
