"""What `leasehold restore` runs."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from leasehold.cli.config import CoordinatorConfig
from leasehold.cli.coordinator_directory import check_for_a_coordinator
from leasehold.cli.generation import named_place, read_longest_ns, tell_next, wall_s
from leasehold.cli.interrupt import unwound_by_interrupt
from leasehold.cli.output import KeysLine, Output, milliseconds, note, say, show_json
from leasehold.cli.shared_store import note_warnings, opened_log
from leasehold.cli.statement import read_timeout_ns
from leasehold.coordinator.restore import Restored
from leasehold.coordinator.restore import restore as restore_into
from leasehold.errors import BadSettings, typed
from leasehold.limits.clients import CLIENT_PATIENCE_NS
from leasehold.local.files import make_directory
from leasehold.metastorage.log.restore_target import LogTarget
from leasehold.metastorage.restore_target import FileTarget, RestoreTarget
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy


def restore(
    file: Path,
    given: Mapping[str, object],
    *,
    newest: bool,
    longest_lease: str | None,
    timeout: str | None,
    output: Output,
) -> None:
    """Raises `BadSettings`, and as `coordinator.restore`."""
    config = named_place(given, "where to restore the backup")
    if newest and longest_lease is not None:
        raise BadSettings("with --newest there are no leases of a lost state", hint="leave out --longest-lease")
    patience_ns = CLIENT_PATIENCE_NS if timeout is None else read_timeout_ns(timeout)
    longest_ns = None if newest else read_longest_ns(longest_lease)
    with unwound_by_interrupt():
        restored = asyncio.run(_restore(file, config, longest_ns, patience_ns))
    if output is Output.JSON:
        show_json(facts_of(restored))
    else:
        tell(restored, config)


async def _restore(file: Path, config: CoordinatorConfig, longest_ns: int | None, patience_ns: int) -> Restored:
    async with target_of(config, patience_ns) as target:
        with KeysLine("written") as line:
            return await restore_into(
                file, target, wall_s=wall_s(), longest_lease_ns=longest_ns, on_progress=line.update
            )


@asynccontextmanager
async def target_of(config: CoordinatorConfig, patience_ns: int) -> AsyncGenerator[RestoreTarget]:
    """The directory or the store that takes a restored meta storage. Raises `BadDirectory` and `Unreachable`."""
    directory, location = config.directory, config.meta
    if location is None:
        check_for_a_coordinator(directory)
        yield FileTarget(directory, lambda: make_directory(directory))
        return
    clock = BoottimeClock()
    async with opened_log(config, location, clock) as shared:
        target = LogTarget(shared, clock, SystemEntropy(), patience_ns=patience_ns)
        await note_warnings(shared, target)
        yield target


def facts_of(restored: Restored) -> dict[str, Any]:
    """What was restored, for programs."""
    facts, begun = restored.facts, restored.begun
    return {
        "cluster_id": facts.cluster.cluster_id,
        "generation": (facts.cluster if begun is None else begun.cluster).generation,
        "revision": facts.end.revision,
        "history_hash": facts.end.lineage.hex(),
        "keys": facts.end.keys,
        "longest_lease_ms": None if begun is None else milliseconds(begun.longest_lease_ns),
    }


def tell(restored: Restored, config: CoordinatorConfig) -> None:
    """What was restored, and what to do next, for people."""
    facts, begun = restored.facts, restored.begun
    generation = (facts.cluster if begun is None else begun.cluster).generation
    goes_on = "goes on as" if begun is None else "continues as"
    say(f"cluster {facts.cluster.cluster_id} {goes_on} generation {generation}")
    say(f"it keeps the state up to revision {facts.end.revision}: {facts.end.keys} keys")
    if config.meta is not None:
        note("each coordinator needs an empty directory: it fills its copy from the store")
    if begun is not None:
        tell_next(begun)
    elif config.meta is None:
        note(
            "what to do next: start the coordinator, then the nodes; if one ends with AHEAD_OF_CLUSTER or DIVERGED, the"
            f" backup is not the newest state: stop the coordinator, and run `leasehold recover --dir"
            f" {typed(config.directory)}`"
        )
    else:
        note(
            "what to do next: start the coordinators, then the nodes; if one ends with"
            " AHEAD_OF_CLUSTER or DIVERGED, the backup is not the newest state: stop the coordinators, and restore it"
            " under another name in --meta, without --newest"
        )
