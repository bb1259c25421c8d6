"""Searches of the history of the meta storage: the commit times of revisions, and the first revision of which something
holds."""

from collections.abc import Awaitable, Callable

import msgspec

from leasehold.core.words import keys
from leasehold.core.words.commit_times import decode_commit_time
from leasehold.core.words.messages import ChangesPlan, CommitChanges
from leasehold.ids import Revision
from leasehold.metastorage.contract import Compacted, MetaStorage


async def committed_at(storage: MetaStorage, revision: Revision) -> int | None:
    """The commit time of a revision, in microseconds since 1970 UTC; None if none was written up to there. An election
    and the beginning of a generation have the time of the revision before. Raises `Compacted`, `FutureRevision`."""
    found = await storage.get(keys.COMMIT_TIME, revision)
    return None if found is None else decode_commit_time(found.value)


async def with_times(plan: ChangesPlan, storage: MetaStorage) -> ChangesPlan:
    """The same, with the commit times that are kept."""
    commits: list[CommitChanges] = []
    for one in plan.commits:
        try:
            time_us = await committed_at(storage, one.revision)
        except Compacted:
            time_us = None
        commits.append(msgspec.structs.replace(one, committed_us=time_us))
    return msgspec.structs.replace(plan, commits=tuple(commits))


async def newest_until(storage: MetaStorage, time_us: int, newest: Revision) -> Revision:
    """The newest revision, up to `newest`, that has no commit time after `time_us`. It may have none, or be kept no
    longer."""

    async def is_later(revision: Revision) -> bool:
        found = await committed_at(storage, revision)
        return found is not None and found > time_us

    return Revision(await first_revision(Revision(0), Revision(newest + 1), is_later) - 1)


async def first_revision(before: Revision, last: Revision, holds: Callable[[Revision], Awaitable[bool]]) -> Revision:
    """The first revision after `before` of which `holds` is true, if it stays true; `last` if it is true of none before
    that. What `holds` can't read (`Compacted`) comes before it."""
    low, high = before, last
    while high - low > 1:
        middle = Revision((low + high) // 2)
        try:
            found = await holds(middle)
        except Compacted as error:
            low = Revision(max(middle, error.minimum - 1))
            continue
        if found:
            high = middle
        else:
            low = middle
    return high
