"""Recovers a cluster from the newest of several places (`coordinator.sources`), into an empty meta storage."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from leasehold.coordinator.restore import Restored, restore
from leasehold.coordinator.sources import ExaminedSource, RecoverySource, SourceKind, examine
from leasehold.core.recovery.sources import FoundState, age, newest
from leasehold.metastorage.restore_target import RestoreTarget


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What was taken, and what was restored from it."""

    taken: RecoverySource
    restored: Restored


async def recover(
    sources: Sequence[RecoverySource],
    target: RestoreTarget,
    *,
    wall_s: int,
    longest_lease_ns: int,
    on_examined: Callable[[ExaminedSource], None],
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> Recovered:
    """Examines all places, takes the newest that is whole, and begins the next generation with it. Reports each one
    that was examined. Raises as `RestoreTarget`, `examine`, `newest` and `restore`; then nothing was written."""
    await target.check(0)
    with TemporaryDirectory(prefix="leasehold-recover-") as scratch:
        examined: dict[Path, ExaminedSource] = {}
        states: list[FoundState] = []
        # Of equal ones the first is taken: a backup lacks the least, and a vault the most.
        for number, source in enumerate(sorted(sources, key=lambda one: list(SourceKind).index(one.kind))):
            found = examined[source.path] = await examine(source, Path(scratch) / str(number))
            on_examined(found)
            if found.facts is not None:
                states.append(FoundState(source.path, found.facts))
                _make_room(Path(scratch), states, examined)
        taken = examined[newest(states).path]
        assert taken.file is not None
        restored = await restore(
            taken.file,
            target,
            wall_s=wall_s,
            longest_lease_ns=longest_lease_ns,
            is_replayable=taken.source.kind is not SourceKind.NODE,
            on_progress=on_progress,
        )
    return Recovered(taken=taken.source, restored=restored)


def _make_room(scratch: Path, states: Sequence[FoundState], examined: Mapping[Path, ExaminedSource]) -> None:
    """Deletes copies that will not be taken."""
    newest_age = max(map(age, states))
    for one in states:
        file = examined[one.path].file
        if age(one) < newest_age and file is not None and file.parent == scratch:
            file.unlink(missing_ok=True)
