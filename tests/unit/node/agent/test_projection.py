"""A leap becomes the view by its changes; what a revision changes of segments is forgotten once the vault holds it."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.stored_shelf import StoredShelf
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.digest import digest_bytes, item_digest
from leasehold.core.words.lineage import next_lineage
from leasehold.core.words.messages import SnapshotEnd
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import BucketRecord
from leasehold.ids import BucketNumber, LineageHash, NodeId, ObjectId, Revision
from leasehold.node.agent.projection import Projection
from leasehold.node.agent.published import Published
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.filled import filled
from leasehold.testing.loop import run_virtual
from leasehold.testing.threads import NoThreads
from leasehold.testing.vault import VaultDisk
from tests.unit.core.replicas.test_replication import segment

T = TypeVar("T")
TABLE = ObjectId(2)
BUCKET = (TABLE, BucketNumber(0))
LEAPT_TO = Revision(9)
LINEAGE = LineageHash(b"L" * 32)


def items(*numbers: int, holder: int) -> tuple[Change, ...]:
    """Of a catalog with a bucket and segments that a node holds, in key order."""
    bucket = BucketRecord(table=TABLE, bucket=BucketNumber(0), replicas=(NodeId(1),), in_sync=(NodeId(1),))
    found = {keys.bucket(TABLE, BucketNumber(0)): encode(bucket)}
    for number in numbers:
        one = segment(number, holder)
        found[keys.segment(TABLE, BucketNumber(0), one.id)] = encode(one)
    return tuple(Change(key, found[key]) for key in sorted(found))


class Looking(NoThreads):
    """Calls `look` while something is computed."""

    def __init__(self) -> None:
        self.look: Callable[[], None] = lambda: None

    async def run(self, compute: Callable[[], T]) -> T:
        self.look()
        return await super().run(compute)


def test_a_leap_shows_what_the_vault_holds_and_nothing_before_it_is_whole() -> None:
    async def main(_random: Any) -> None:
        disk = VaultDisk()
        vault: Any = disk.open()
        published, threads, leapt = Published(), Looking(), list[Revision]()
        shown: list[Revision] = []
        one = Projection(
            vault=vault,
            published=published,
            clock=SimulatedClock(asyncio.get_running_loop()),  # pyright: ignore[reportArgumentType]
            threads=threads,
            on_stored=lambda _revision: None,
            on_leapt=leapt.append,
        )
        published.publish(await one.restore())
        saving = asyncio.ensure_future(one.save())
        old = None
        for revision, page in ((Revision(5), items(1, 2, 3, holder=4)), (LEAPT_TO, items(2, 3, 7, holder=5))):
            old = published.view
            threads.look = lambda: shown.append(published.view.revision)
            await one.stage((), first=True)
            await one.stage(page, first=False)
            digest = 0
            for item in page:
                assert item.value is not None
                digest ^= item_digest(item.key, item.value)
            await one.leap(SnapshotEnd(revision=revision, lineage=LINEAGE, keys=len(page), digest=digest_bytes(digest)))
        saving.cancel()
        assert shown == [0, 5], "the old view until the new one is whole"
        assert leapt == [5, LEAPT_TO]
        leapt_to = Catalog.restored(LEAPT_TO, LINEAGE, items(2, 3, 7, holder=5))
        assert filled(published.view, disk.state.items) == leapt_to
        assert one.durable is published.view
        assert old is not None
        assert old.revision == 5, "who holds it reads on in it"
        assert old.segments.mark(BUCKET) is not published.view.segments.mark(BUCKET)

    run_virtual(main, 1)


def test_a_view_forgets_what_its_vault_holds() -> None:
    async def main(_random: Any) -> None:
        disk = VaultDisk()
        vault: Any = disk.open()
        published = Published()
        one = Projection(
            vault=vault,
            published=published,
            clock=SimulatedClock(asyncio.get_running_loop()),  # pyright: ignore[reportArgumentType]
            threads=NoThreads(),
            on_stored=lambda _revision: None,
            on_leapt=lambda _revision: None,
        )
        published.publish(await one.restore())
        saving = asyncio.ensure_future(one.save())
        for number in range(1, 40):
            before = published.view
            (_, change) = items(number, holder=4)
            lineage = next_lineage(before.lineage, (change,))
            await one.take(RevisionChanges(Revision(number), (change, Change(keys.LINEAGE, lineage))))
            view = published.view
            assert isinstance(view.segments, StoredShelf)
            held = {which for _, which, _ in view.segments.recent()}
            assert held >= {segment(late, 4).id for late in range(disk.state.applied + 1, number + 1)}
            if number % 10 == 0:
                await asyncio.sleep(1)
                assert one.durable is view
            elif number > 10:
                assert len(held) == number % 10, "what was not durable by then, and not more"
        saving.cancel()

    run_virtual(main, 1)
