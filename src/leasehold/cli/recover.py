"""`leasehold recover`: a cluster continues from an older state of its metadata."""

import asyncio
from pathlib import Path

from leasehold.cli.output import Output, milliseconds, note, say, show_json
from leasehold.cli.statement import read_duration_ns
from leasehold.client.locate import COORDINATOR
from leasehold.coordinator.generation import BegunGeneration, begin_generation
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, NotFound
from leasehold.limits.lease import LEASE_DURATION_MAX_NS
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.sqlite import FILE_NAME, SqliteMetaStorage
from leasehold.wire.clock import BoottimeClock


def recover(directory: Path, longest_lease: str | None, output: Output) -> None:
    """Raises `NotFound` with code NO_META_STORAGE, `BadDirectory` while a coordinator runs there,
    `Corrupt`, `NotInitialised`, `BadSettings`."""
    longest_ns = read_longest_ns(longest_lease)
    path = directory / FILE_NAME
    if not path.is_file():
        below = directory / COORDINATOR
        hint = (
            f"it is in {below}: name that directory with --dir"
            if (below / FILE_NAME).is_file()
            else "restore a backup of the coordinator's directory there, and name it with --dir"
        )
        raise NotFound(f"there is no meta storage in {directory}", code=ErrorCode.NO_META_STORAGE, hint=hint)
    begun = asyncio.run(_begin(path, longest_ns))
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


def tell_next(begun: BegunGeneration) -> None:
    """Says what to do after a new generation has begun."""
    note(
        f"what to do next: start the coordinator, then the nodes; for up to {begun.longest_lease_ns / SECOND_NS:g} s it"
        " waits for leases of the lost state (--longest-lease); a node with later changes ends with BEYOND_RECOVERY and"
        " says what to type; reset a node that the backup does not know"
    )


async def _begin(path: Path, longest_ns: int) -> BegunGeneration:
    storage = await SqliteMetaStorage.open(path)
    try:
        return await begin_generation(
            storage, wall_s=BoottimeClock().wall_us() // 1_000_000, longest_lease_ns=longest_ns
        )
    finally:
        await storage.close()


def read_longest_ns(text: str | None) -> int:
    """A value of `--longest-lease`; the longest lease there can be without one. Raises `BadSettings`."""
    if text is None:
        return LEASE_DURATION_MAX_NS
    longest_ns = read_duration_ns("--longest-lease", text)
    if longest_ns > LEASE_DURATION_MAX_NS:
        raise BadSettings(
            f"--longest-lease: no lease is longer than {LEASE_DURATION_MAX_NS // SECOND_NS} s", hint="leave it out"
        )
    return longest_ns
