"""Taking a backup, as a client asks for it until it has one from a single coordinator and revision."""

from collections.abc import Callable
from contextlib import aclosing
from typing import Protocol

from leasehold.core.data.asking import Asking
from leasehold.core.data.coordinator_client import CoordinatorClient, Deadline
from leasehold.core.recovery.backup import BackupFacts, BackupWriter
from leasehold.core.words.messages import AskBackup, WhoAreYou
from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, NotLeader, Refused, Unreachable
from leasehold.limits.clients import CONNECT_TIMEOUT_NS
from leasehold.limits.recovery import BACKUP_TRIES_MAX, SNAPSHOT_TIMEOUT_NS


class BackupTarget(Protocol):
    """Where the bytes of a backup go."""

    def clear(self) -> None:
        """Forgets all that was written."""
        ...

    def write(self, blob: bytes) -> object: ...


async def take_backup(
    client: CoordinatorClient, asking: Asking, target: BackupTarget, on_progress: Callable[[int, int], None]
) -> BackupFacts:
    """Writes a backup to the target, which counts only once this returns. Any coordinator may answer; each attempt
    begins anew. Raises `Refused` with code COMPACTED if BACKUP_TRIES_MAX attempts were overtaken by compaction."""

    async def ask(address: str, deadline: Deadline) -> BackupFacts:
        target.clear()
        # The pages come in one piece: one that hangs is left before they begin.
        await client.call(address, WhoAreYou(), deadline, CONNECT_TIMEOUT_NS)
        writer = BackupWriter(target.write)
        async with aclosing(client.calls.stream(address, AskBackup(cluster_id=None), SNAPSHOT_TIMEOUT_NS)) as messages:
            async for message in messages:
                deadline.renew()
                asking.answered()
                writer.take(message)
                on_progress(writer.check.keys, writer.check.about_keys)
        if not writer.check.is_whole:
            raise Unreachable("the answer ended too early", hint="ask again")
        return writer.finish()

    for _ in range(BACKUP_TRIES_MAX):
        try:
            return await client.until_answered(ask, asking, again=(Indefinite, NotLeader))
        except Refused as error:
            if error.code != ErrorCode.COMPACTED:
                raise
    raise Refused(
        f"{BACKUP_TRIES_MAX} times the revision of the backup was compacted before it was read",
        code=ErrorCode.COMPACTED,
        hint="raise retention, retention_revisions and retention_bytes with ALTER CLUSTER SET, then take the backup",
    )
