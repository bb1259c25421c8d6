"""What lies on disk follows what is durable: no file goes before the revision that lets it go, no revision is lost."""

import asyncio

import pytest

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.recovery.events import (
    DiskComparison,
)
from leasehold.core.replicas.reconcile import Emptied, OnDisk
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.lineage import next_lineage
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import DroppedRecord
from leasehold.ids import BucketNumber, NodeId, ObjectId, Revision, SegmentId
from leasehold.limits.vault import VAULT_DELAY_NS
from leasehold.node.agent.published import Published
from leasehold.node.disk.reconciler import Reconciler
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.loop import run_virtual
from leasehold.testing.on_disk import by_bucket
from leasehold.testing.threads import NoThreads
from leasehold.testing.vault import VaultDisk
from tests.scenarios.test_lease_shortcuts import run, simulate

TABLE = ObjectId(7)
FILE = OnDisk(TABLE, BucketNumber(0), SegmentId(f"{1:032x}-{1:032x}"))


class Disk:
    """Holds one file, and says how far the vault was durable when it went."""

    def __init__(self, vault_disk):
        self._vault_disk = vault_disk
        self.went_at = None
        self.listings = 0

    async def listing(self):
        self.listings += 1
        return by_bucket([] if self.went_at is not None else [FILE])

    async def trash_table(self, _table):
        self.went_at = self._vault_disk.durable.applied

    async def empty_trash(self, _files, _size_bytes):
        return Emptied(files=0, size_bytes=0)

    async def check_sizes(self, _records):
        return ()


class Following:
    """Of a node whose recovery is finished as soon as its disk was compared, or is not, if that is so."""

    caught_up = True
    must_verify = False

    def __init__(self, durable, *, accepted=True):
        self.durable = durable
        self.comparison_due = DiskComparison(number=1, revision=Revision(0))
        self.recovered = False
        self.compared = asyncio.Event()
        self._accepted = accepted

    async def comparable(self):
        pass

    def on_disk_compared(self, comparison, *, kept, missing):
        assert (comparison, kept, missing) == (self.comparison_due, 0, 0)
        self.comparison_due, self.recovered = None, self._accepted
        self.compared.set()

    def counted(self, **_counts):
        pass

    async def report_cleaned(self, _table):
        pass


def a_drop():
    """The catalog at revision 1, which says that a table was dropped, and the revision itself."""
    record = DroppedRecord(table=TABLE, name="d.t", pending=(NodeId(1),))
    changes = (Change(keys.dropped(TABLE), encode(record)),)
    lineage = next_lineage(Catalog().lineage, changes)
    batch = RevisionChanges(Revision(1), (*changes, Change(keys.LINEAGE, lineage)))
    return Catalog().applying(batch), batch


class Over(Exception):
    pass


@pytest.mark.parametrize("in_the_vault", [True, False], ids=["applied", "only shown"])
def test_R9_no_file_goes_before_the_revision_that_lets_it_go_is_durable(in_the_vault):
    async def main(_random):
        view, batch = a_drop()
        vault_disk = VaultDisk()
        vault = vault_disk.open()
        if in_the_vault:
            await vault.apply([batch], view.lineage)
        assert vault_disk.durable.applied == 0, "a machine that crashes now has never heard of it"
        published, disk = Published(), Disk(vault_disk)
        published.node = NodeId(1)
        published.publish(view)
        reconciler = Reconciler(
            agent=Following(view if in_the_vault else Catalog()),
            published=published,
            disk=disk,
            since_start={},
            vault=vault,
            clock=SimulatedClock(asyncio.get_running_loop()),
            threads=NoThreads(),
        )
        await ten_seconds(reconciler)
        assert disk.went_at == (1 if in_the_vault else None)

    run_virtual(main, 1)


def test_nothing_is_deleted_on_the_evidence_of_an_unfinished_recovery():
    """What the catalog says is durable, but the leader has not accepted yet that this node has recovered."""

    async def main(_random):
        view, batch = a_drop()
        vault_disk = VaultDisk()
        vault = vault_disk.open()
        await vault.apply([batch], view.lineage)
        published, disk = Published(), Disk(vault_disk)
        published.node = NodeId(1)
        published.publish(view)
        agent = Following(view, accepted=False)
        reconciler = Reconciler(
            agent=agent,
            published=published,
            disk=disk,
            since_start={},
            vault=vault,
            clock=SimulatedClock(asyncio.get_running_loop()),
            threads=NoThreads(),
        )
        await ten_seconds(reconciler)
        assert agent.compared.is_set()
        assert disk.went_at is None
        agent.recovered = True
        await ten_seconds(reconciler)
        assert disk.went_at == 1

    run_virtual(main, 1)


@pytest.mark.parametrize(
    "due", [None, DiskComparison(number=1, revision=Revision(2))], ids=["not settled", "not reached"]
)
def test_nothing_is_compared_before_the_vault_holds_what_the_recovery_goes_by(due):
    async def main(_random):
        view, _ = a_drop()
        vault_disk = VaultDisk()
        published, disk = Published(), Disk(vault_disk)
        published.node = NodeId(1)
        published.publish(view)
        agent = Following(view)
        agent.comparison_due = due
        reconciler = Reconciler(
            agent=agent,
            published=published,
            disk=disk,
            since_start={},
            vault=vault_disk.open(),
            clock=SimulatedClock(asyncio.get_running_loop()),
            threads=NoThreads(),
        )
        await ten_seconds(reconciler)
        assert disk.listings == 0

    run_virtual(main, 1)


async def ten_seconds(reconciler):
    """Of simulated time."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(reconciler.run())
            await asyncio.sleep(10)
            raise Over
    except* Over:
        pass


def test_a_vault_holds_every_revision_up_to_its_own():
    """Several revisions wait and are written at once; what is stored is what the store was at the newest of them."""

    async def scenario(cluster, group):
        await asyncio.gather(*(run(cluster, f"CREATE TABLE d.t{number} (a INT)") for number in range(8)))
        await asyncio.sleep(10 * VAULT_DELAY_NS / 1e9)
        for node in cluster.nodes:
            state = node.disk.state
            assert state.applied == node.published.view.revision
            assert sum(key.startswith(keys.TABLES) for key in state.items) == 9
        await cluster.nodes[0].kill()
        cluster.nodes[0].start(group)
        await cluster.wait_for(cluster.nodes[0].guard)

    simulate(scenario)
