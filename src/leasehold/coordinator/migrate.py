"""Moves the meta storage of a stopped cluster to another place: the same cluster, revisions and history.

| step | source | target | after a crash here, a coordinator is refused at |
| --- | --- | --- | --- |
| 1 | nobody leads on it | is looked at | - |
| 2 | is read and checked | is filled under a name or a mark that no coordinator uses | the target |
| 3 | | is read back and compared | the target |
| 4 | is marked: it moves to the target | | both |
| 5 | | becomes a meta storage in one step | the source |
| 6 | is marked: it has moved | | the source |

So at no moment can both be led (INV-LEASE-3), and from step 4 on only the target can become the meta storage. The same
command finishes what a crash interrupted: up to step 3 it begins anew, after step 4 it fills the target again, after
step 5 it only does step 6.

In a file each election takes a revision, outside of the history of the cluster. Those after its newest revision are
left behind. The leader record goes along, so terms go on.
"""

from collections.abc import Callable

import msgspec

from leasehold.coordinator.generation import check_history
from leasehold.coordinator.stored_catalog import read_catalog
from leasehold.coordinator.upkeep.scrub import decode
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words.records import ClusterRecord, LeaderRecord, MetaMoveRecord
from leasehold.errors import BadSettings, Corrupt, NotInitialised
from leasehold.ids import EntryId, LineageHash, Revision, Term
from leasehold.metastorage.copyable import StoredContent
from leasehold.metastorage.log.head import unfinished
from leasehold.metastorage.move import MovePlan, MoveSource, MoveStage, MoveTarget, TargetState
from leasehold.metastorage.moved import moved
from leasehold.metastorage.sqlite import SqliteMetaStorage


class Migrated(msgspec.Struct, frozen=True, kw_only=True):
    """What has moved: the state up to `revision`, and all revisions from `minimum` on."""

    cluster: ClusterRecord
    revision: Revision
    minimum: Revision
    lineage: LineageHash
    term: Term
    """The newest one so far."""
    to: str


async def migrate(
    source: MoveSource,
    target: MoveTarget,
    *,
    draw_id: Callable[[], EntryId],
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> Migrated:
    """Moves, or finishes an earlier run. `on_progress` gets the number of rows written, and of about all.

    Raises `MetaMoved`, `MetaStorageExists`, `MetaUnfinished`, `NotInitialised`, `BadSettings`, `Corrupt`, and as source
    and target.
    """
    found = await target.look()
    mark = await source.claim()
    _check_places(source, target, found, mark)
    storage = await source.read()
    catalog, content = await _checked(storage)
    cluster, leader = catalog.cluster, await source.leader()
    if cluster is None or leader is None:
        raise NotInitialised(f"{source.where} holds no cluster", hint="check --dir or --meta; nothing has moved")
    move = MetaMoveRecord(id=draw_id() if mark is None else mark.id, to=target.where)
    if found.stage is MoveStage.FILLING and found.cluster_id != cluster.cluster_id:
        raise unfinished()
    if found.stage is MoveStage.WHOLE:
        if not await target.is_of(move.id, cluster.cluster_id):
            raise target.taken()
    else:
        plan = MovePlan(
            id=move.id,
            cluster_id=cluster.cluster_id,
            leader=LeaderRecord(generation=cluster.generation, term=leader.term, holder="", beat=0, duration_ns=0),
            size_bytes=await source.size_bytes(),
        )
        about = await content.about_rows()

        async def ready(copied: SqliteMetaStorage) -> None:
            await _compare(content, copied)
            if mark is None:
                await source.mark(move)

        await target.take(plan, content, ready=ready, on_rows=lambda rows: on_progress(rows, about))
    await source.mark(msgspec.structs.replace(move, is_finished=True))
    return Migrated(
        cluster=cluster,
        revision=content.newest,
        minimum=content.minimum,
        lineage=catalog.lineage,
        term=leader.term,
        to=target.where,
    )


def _check_places(source: MoveSource, target: MoveTarget, found: TargetState, mark: MetaMoveRecord | None) -> None:
    """Raises if this move can't begin, or be finished, between these places."""
    if found.id is not None and found.id == source.id:
        raise BadSettings(
            "the meta storage would move to where it is", hint="give another place with --to, such as another name"
        )
    if mark is None:
        if found.stage is MoveStage.WHOLE:
            raise target.taken()
        return
    if mark.is_finished or (found.id != mark.id and mark.to != target.where):
        raise moved(source.where, mark)
    # Another run of this move may have reserved the target. It can't mark the source any more, so it never finishes.
    if found.stage is MoveStage.WHOLE and found.id not in {None, mark.id}:
        raise target.taken()


async def _checked(storage: SqliteMetaStorage) -> tuple[Catalog, StoredContent]:
    """What moves, once it is known to be whole. Raises `Corrupt`."""
    await check_history(storage)
    catalog = await read_catalog(storage)
    for shelf in (catalog.segments, catalog.replaced):
        decode(shelf, shelf)  # finds damage now, while the source is still in use
    status = await storage.status()
    if status.minimum > max(status.latest, Revision(1)):
        raise Corrupt(
            "the history of this meta storage ends above its newest revision", hint="restore a backup instead"
        )
    return catalog, StoredContent(storage, status.minimum, status.latest)


async def _compare(content: StoredContent, copied: SqliteMetaStorage) -> None:
    """Raises `Corrupt` unless a copy says the same as the source, at each revision."""
    is_same = await copied.status() == await content.storage.status()
    if not is_same or await StoredContent(copied, content.minimum, content.newest).digest() != await content.digest():
        raise Corrupt(
            "what was written is not what was read; the source is as it was",
            hint="check the disk or the store of the target, then run the command again",
        )
