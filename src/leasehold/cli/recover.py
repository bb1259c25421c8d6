"""`leasehold recover`: a cluster continues from an older state of its metadata."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from leasehold.cli.config import CoordinatorConfig
from leasehold.cli.generation import named_place, read_longest_ns, tell_next, wall_s
from leasehold.cli.interrupt import unwound_by_interrupt
from leasehold.cli.output import KeysLine, Output, milliseconds, note, say, show_json, show_table
from leasehold.cli.restore import facts_of, target_of, tell
from leasehold.cli.shared_store import note_warnings, opened_log
from leasehold.cli.statement import read_timeout_ns
from leasehold.client.locate import COORDINATOR
from leasehold.coordinator.generation import BegunGeneration, begin_generation, begin_generation_in_log
from leasehold.coordinator.recover import Recovered
from leasehold.coordinator.recover import recover as recover_from
from leasehold.coordinator.sources import ExaminedSource, RecoverySource, SourceKind, sources_at
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, NotFound
from leasehold.limits.clients import CLIENT_PATIENCE_NS
from leasehold.metastorage.location import StoreLocation
from leasehold.metastorage.log.patience import PatientClient
from leasehold.metastorage.log.sqlite_replica import SqliteReplicaPlace
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.metastorage.sqlite import FILE_NAME, SqliteMetaStorage
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy


def recover(
    places: Sequence[Path],
    given: Mapping[str, object],
    *,
    longest_lease: str | None,
    timeout: str | None,
    output: Output,
) -> None:
    """Raises `BadSettings`; as `coordinator.recover` with `places`. Without them, `NotFound` with code
    NO_META_STORAGE, `BadDirectory` while a coordinator runs there, `Corrupt`, `NotInitialised`, and for a shared store
    `StillLed` and `Unreachable`."""
    longest_ns = read_longest_ns(longest_lease)
    patience_ns = CLIENT_PATIENCE_NS if timeout is None else read_timeout_ns(timeout)
    config = named_place(given, "where the cluster is to continue")
    with unwound_by_interrupt():
        if places:
            _recover_from(places, config, longest_ns, patience_ns, output)
        elif config.meta is not None:
            _show(asyncio.run(_begin_in_log(config, config.meta, longest_ns, patience_ns)), output)
        else:
            _show(asyncio.run(_begin(_meta_storage(config.directory), longest_ns)), output)


# ------------------------------------------------------------ from the newest of some places


def _recover_from(
    places: Sequence[Path], config: CoordinatorConfig, longest_ns: int, patience_ns: int, output: Output
) -> None:
    sources = {one.path.resolve(): one for place in places for one in sources_at(place)}
    examined: list[ExaminedSource] = []
    try:
        done = asyncio.run(_recovered(list(sources.values()), config, longest_ns, patience_ns, examined))
    except LeaseholdError:
        if examined:
            _show_sources(examined, None, {}, output)
        raise
    _show_sources(examined, done.taken, facts_of(done.restored), output)
    if output is Output.TABLE:
        tell(done.restored, config)
        if done.taken.kind is SourceKind.NODE:
            note("a node follows some milliseconds later: check the statements that ended right before all was lost")


async def _recovered(
    sources: Sequence[RecoverySource],
    config: CoordinatorConfig,
    longest_ns: int,
    patience_ns: int,
    examined: list[ExaminedSource],
) -> Recovered:
    async with target_of(config, patience_ns) as target:
        with KeysLine("written") as line:
            return await recover_from(
                sources,
                target,
                wall_s=wall_s(),
                longest_lease_ns=longest_ns,
                on_examined=examined.append,
                on_progress=line.update,
            )


def _show_sources(
    examined: Sequence[ExaminedSource], taken: RecoverySource | None, facts: dict[str, Any], output: Output
) -> None:
    told = [_source_facts(one) | {"taken": one.source == taken} for one in examined]
    if output is Output.JSON:
        show_json(facts | {"sources": told})
    else:
        rows = [(*list(one.values())[:5], _verdict(one, one["taken"])) for one in told]
        show_table(["place", "what it is", "cluster", "generation", "revision", "state"], rows)


def _source_facts(one: ExaminedSource) -> dict[str, Any]:
    facts = one.facts
    return {
        "path": str(one.source.path),
        "kind": one.source.kind.value,
        "cluster_id": None if facts is None else facts.cluster.cluster_id,
        "generation": None if facts is None else facts.cluster.generation,
        "revision": None if facts is None else facts.end.revision,
        "history_hash": None if facts is None else facts.end.lineage.hex(),
        "keys": None if facts is None else facts.end.keys,
        "problem": one.problem,
    }


def _verdict(told: dict[str, Any], is_taken: bool) -> str:
    if told["problem"] is not None:
        return f"not whole: {told['problem']}"
    return "whole, taken" if is_taken else "whole"


# ------------------------------------------------------------ in a meta storage that is there


def _meta_storage(directory: Path) -> Path:
    path = directory / FILE_NAME
    if not path.is_file():
        below = directory / COORDINATOR
        hint = (
            f"it is in {below}: name that directory with --dir"
            if (below / FILE_NAME).is_file()
            else "restore a backup of the coordinator's directory there, or name what there is with --from"
        )
        raise NotFound(f"there is no meta storage in {directory}", code=ErrorCode.NO_META_STORAGE, hint=hint)
    return path


async def _begin(path: Path, longest_ns: int) -> BegunGeneration:
    storage = await SqliteMetaStorage.open(path)
    try:
        return await begin_generation(storage, wall_s=wall_s(), longest_lease_ns=longest_ns)
    finally:
        await storage.close()


async def _begin_in_log(
    config: CoordinatorConfig, location: StoreLocation, longest_ns: int, patience_ns: int
) -> BegunGeneration:
    """With a replica of its own, so that it needs no coordinator's directory."""
    clock, entropy = BoottimeClock(), SystemEntropy()
    async with opened_log(config, location, clock) as shared:
        client = PatientClient(clock, patience_ns)
        await note_warnings(shared, client)
        if await client.surely(shared.log_id) is None:
            raise NotFound(
                f"the store holds no log {location.name!r}",
                code=ErrorCode.NO_META_STORAGE,
                hint="check the name in --meta, or name what there is with --from",
            )
        with TemporaryDirectory(prefix="leasehold-replica-") as scratch:
            place = SqliteReplicaPlace(Path(scratch))
            storage = await client.surely(lambda: ReplicatedMetaStorage.open(shared, place, clock, entropy))
            try:
                return await begin_generation_in_log(
                    storage, shared, client, wall_s=wall_s(), longest_lease_ns=longest_ns
                )
            finally:
                await storage.close()


def _show(begun: BegunGeneration, output: Output) -> None:
    origin = begun.cluster.origins[-1]
    if output is Output.JSON:
        show_json(
            {
                "cluster_id": begun.cluster.cluster_id,
                "generation": begun.cluster.generation,
                "revision": origin.revision,
                "history_hash": origin.lineage.hex(),
                "longest_lease_ms": milliseconds(begun.longest_lease_ns),
                "nodes": list(begun.nodes),
            }
        )
        return
    say(f"cluster {begun.cluster.cluster_id} continues as generation {begun.cluster.generation}")
    say(f"it keeps the state up to revision {origin.revision} and {len(begun.nodes)} nodes")
    tell_next(begun)
