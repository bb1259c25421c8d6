"""What `leasehold meta migrate` runs."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from leasehold.cli.config import CoordinatorConfig, coordinator_config
from leasehold.cli.coordinator_directory import check_for_a_coordinator
from leasehold.cli.interrupt import unwound_by_interrupt
from leasehold.cli.output import KeysLine, Output, note, say, show_json
from leasehold.cli.shared_store import note_warnings, opened_log
from leasehold.cli.statement import read_timeout_ns
from leasehold.coordinator.migrate import Migrated
from leasehold.coordinator.migrate import migrate as move
from leasehold.errors import BadSettings, typed
from leasehold.ids import EntryId
from leasehold.limits.clients import CLIENT_PATIENCE_NS
from leasehold.local.files import make_directory
from leasehold.metastorage.file_move import FileMoveTarget, FileSource
from leasehold.metastorage.location import StoreLocation
from leasehold.metastorage.log.move import LogMoveTarget, LogSource
from leasehold.metastorage.move import MoveSource, MoveTarget
from leasehold.metastorage.moved import TO_FILE
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy

_SOURCE: Final = "source"
_TARGET: Final = "target"


def migrate(
    to: str,
    directory: Path | None,
    meta: str | None,
    store: Mapping[str, object],
    *,
    timeout: str | None,
    output: Output,
) -> None:
    """`store` says how to reach stores. Raises `BadSettings`, and as `coordinator.migrate`."""
    is_to_file = to == TO_FILE
    if is_to_file and meta is None:
        raise BadSettings(
            "it is not said from which store to move", hint="give --meta with the location of the present store"
        )
    if not is_to_file and meta is not None and directory is not None:
        raise BadSettings(
            "both --dir and --meta name a meta storage to move",
            hint="give one of them; LEASEHOLD_COORDINATOR_DIR and LEASEHOLD_META count too",
        )
    if directory is None and (is_to_file or meta is None):
        what = "the directory of the coordinator to be" if is_to_file else "the coordinator's directory"
        raise BadSettings("a meta storage in a file needs its directory", hint=f"name {what} with --dir")
    ends = _Ends(
        directory=directory,
        source=None if meta is None else _config(meta, store),
        source_text=meta or "",
        target=None if is_to_file else _config(to, store),
        target_text=to,
        patience_ns=CLIENT_PATIENCE_NS if timeout is None else read_timeout_ns(timeout),
    )
    with unwound_by_interrupt(), TemporaryDirectory(prefix="leasehold-migrate-") as scratch:
        for name in (_SOURCE, _TARGET):
            (Path(scratch) / name).mkdir()
        moved = asyncio.run(ends.move(Path(scratch)))
    _show(moved, output, is_to_file=is_to_file)


def _config(meta: str, store: Mapping[str, object]) -> CoordinatorConfig:
    return coordinator_config(None, {**store, "meta": meta, "dir": Path()})


def _location(config: CoordinatorConfig) -> StoreLocation:
    assert config.meta is not None, "`_config` has set it"
    return config.meta


class _Ends:
    """From where to where, as the command says; a file without a configuration."""

    def __init__(
        self,
        *,
        directory: Path | None,
        source: CoordinatorConfig | None,
        source_text: str,
        target: CoordinatorConfig | None,
        target_text: str,
        patience_ns: int,
    ) -> None:
        self._directory = directory or Path()
        self._source = source
        self._source_text = source_text
        self._target = target
        self._target_text = target_text
        self._patience_ns = patience_ns
        self._clock = BoottimeClock()

    async def move(self, scratch: Path) -> Migrated:
        async with AsyncExitStack() as opened:
            source = await opened.enter_async_context(self._from(scratch / _SOURCE))
            target = await opened.enter_async_context(self._to(scratch / _TARGET))
            entropy = SystemEntropy()
            with KeysLine("written") as line:
                return await move(source, target, draw_id=lambda: EntryId(entropy.hex_128()), on_progress=line.update)

    @asynccontextmanager
    async def _from(self, scratch: Path) -> AsyncGenerator[MoveSource]:
        if self._source is None:
            source: MoveSource = FileSource(self._directory)
            try:
                yield source
            finally:
                await source.close()
            return
        async with opened_log(self._source, _location(self._source), self._clock) as shared:
            source = LogSource(shared, self._source_text, scratch, self._clock, patience_ns=self._patience_ns)
            try:
                yield source
            finally:
                await source.close()

    @asynccontextmanager
    async def _to(self, scratch: Path) -> AsyncGenerator[MoveTarget]:
        directory = self._directory
        if self._target is None:
            check_for_a_coordinator(directory)
            yield FileMoveTarget(directory, lambda: make_directory(directory))
            return
        async with opened_log(self._target, _location(self._target), self._clock) as shared:
            target = LogMoveTarget(
                shared, self._target_text, scratch, self._clock, SystemEntropy(), patience_ns=self._patience_ns
            )
            await note_warnings(shared, target)
            yield target


def _show(moved: Migrated, output: Output, *, is_to_file: bool) -> None:
    cluster = moved.cluster
    if output is Output.JSON:
        show_json(
            {
                "cluster_id": cluster.cluster_id,
                "generation": cluster.generation,
                "revision": moved.revision,
                "oldest_revision": moved.minimum,
                "history_hash": moved.lineage.hex(),
                "term": moved.term,
                "to": moved.to,
            }
        )
        return
    say(f"cluster {cluster.cluster_id} has moved to {moved.to}, as generation {cluster.generation}")
    say(f"revision {moved.revision} is its newest one, and its history begins at revision {moved.minimum}")
    if is_to_file:
        start = f"start one coordinator with --dir {typed(moved.to)}, without --meta"
    else:
        start = f"start the coordinators with --meta {typed(moved.to)}, each with an empty --dir"
    note(f"what to do next: {start}; then the nodes, with --coordinator if the addresses have changed")
