"""A move from or to the file of a coordinator that shares its meta storage with nobody.

The lock of the file is held all the time, so no coordinator begins. The mark of a file is a row, and another kind of
file (`schema.MOVED_APPLICATION_ID`), in one commit: a program that does not know of moves refuses it too.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import ClassVar, Final

from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.records import CheckpointRow, LeaderRecord, MetaMoveRecord
from leasehold.durable import sync_folder
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotFound
from leasehold.ids import ClusterId, EntryId
from leasehold.metastorage.copyable import CopyableDatabase, StoredContent
from leasehold.metastorage.database import ALL_CHECKED
from leasehold.metastorage.file_kind import read_mark
from leasehold.metastorage.move import MovePlan, MoveStage, TargetState
from leasehold.metastorage.new_file import LoadedDatabase, new_file
from leasehold.metastorage.restore_target import FileTarget
from leasehold.metastorage.schema import APPLICATION_ID, MARK_INSERT, MARK_KIND, MARKED, MOVED_APPLICATION_ID
from leasehold.metastorage.sqlite import FILE_NAME, SqliteMetaStorage


class MovableDatabase(CopyableDatabase):
    """A file that may have been moved, and can be marked so."""

    application_ids: ClassVar = (APPLICATION_ID, MOVED_APPLICATION_ID)
    check: ClassVar = "integrity_check"

    def mark(self) -> MetaMoveRecord | None:
        with self._explained():
            (kind,) = self._connection.execute("PRAGMA application_id").fetchone()
            return read_mark(self._connection, self.path) if kind == MOVED_APPLICATION_ID else None

    def put_mark(self, move: MetaMoveRecord) -> None:
        with self._durable():
            for statement in MARKED:
                self._connection.execute(statement)
            self._connection.execute(MARK_INSERT, (encode(move),))
            self._connection.execute(MARK_KIND)


class FileSource:
    """Implements `MoveSource`."""

    def __init__(self, directory: Path) -> None:
        self.id: Final[EntryId | None] = None
        self.where: Final = f"the meta storage in {directory}"
        self._directory = directory
        self._path = directory / FILE_NAME
        self._opened: SqliteMetaStorage | None = None

    async def claim(self) -> MetaMoveRecord | None:
        if not self._path.is_file():
            raise NotFound(
                f"there is no meta storage in {self._directory}",
                code=ErrorCode.NO_META_STORAGE,
                hint="name the coordinator's directory with --dir, or the store that holds its log with --meta",
            )
        self._opened = await SqliteMetaStorage.open(self._path, kind=MovableDatabase, limits=ALL_CHECKED)
        return await self._opened.ask_of(MovableDatabase, lambda database: database.mark())

    async def read(self) -> SqliteMetaStorage:
        assert self._opened is not None, "it was claimed"
        return self._opened

    async def leader(self) -> LeaderRecord | None:
        return await (await self.read()).leader()

    async def size_bytes(self) -> int:
        return self._path.stat().st_size

    async def mark(self, move: MetaMoveRecord) -> None:
        await (await self.read()).ask_of(MovableDatabase, lambda database: database.put_mark(move))

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()


class FileMoveTarget(FileTarget):
    """Implements `MoveTarget`."""

    def __init__(self, directory: Path, prepare: Callable[[], None]) -> None:
        super().__init__(directory, prepare)
        self.where: Final = str(directory.absolute())

    async def look(self) -> TargetState:
        self.check_unused()
        return TargetState(stage=MoveStage.EMPTY if self.is_empty() else MoveStage.WHOLE)

    async def is_of(self, move: EntryId, cluster_id: ClusterId) -> bool:
        del move  # a file has no id
        if not self.path.is_file():
            return False
        storage = await SqliteMetaStorage.open(self.path)
        try:
            return (await storage.status()).cluster_id == cluster_id
        finally:
            await storage.close()

    async def take(
        self,
        plan: MovePlan,
        content: StoredContent,
        *,
        ready: Callable[[SqliteMetaStorage], Awaitable[None]],
        on_rows: Callable[[int], None],
    ) -> None:
        self.prepare()
        async with new_file(self.path, LoadedDatabase) as made:
            if not self.is_empty():
                raise self.taken()
            written = 0
            for pages in (content.state(), content.history()):
                async for rows in pages:
                    await made.load(_but_leader_at(content, rows))
                    on_rows(written := written + len(rows))
            newest = content.newest
            await made.load([CheckpointRow(keys.LEADER, encode(plan.leader), newest, newest, 1)])
            await made.begin_at(content.minimum)
            await made.fold()
            await ready(made.storage)
        sync_folder(self.path.parent)


def _but_leader_at(content: StoredContent, rows: Sequence[CheckpointRow]) -> Sequence[CheckpointRow]:
    """Without the leader record of the newest revision, which the newest one replaces."""
    return [row for row in rows if (row.key, row.modified) != (keys.LEADER, content.newest)]
