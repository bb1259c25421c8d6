"""A vault that kills its own process at one write: a test facility, in nobody's way while its variable is not set.

`LEASEHOLD_FAULT=crash-before:identity:2` ends the process with SIGKILL as it is about to write its identity for the
second time, `crash-after:` once that write has returned; the other writes are `apply`, `leap` and `sync`. So the crash
points of registration, join and recovery are hit exactly, in real processes with real files.
"""

import os
import signal
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, get_args

from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import IdentityRecord
from leasehold.errors import BadSettings
from leasehold.ids import LineageHash, Revision
from leasehold.vault.store import SqliteVault

VARIABLE: Final = "LEASEHOLD_FAULT"
When = Literal["crash-before", "crash-after"]
Write = Literal["identity", "apply", "leap", "sync"]
_NUMBER_DIGITS_MAX: Final = 6


class Fault(NamedTuple):
    """Which write of a process, counted from one, it does not survive."""

    when: str
    write: str
    number: int


def read_fault(text: str) -> Fault:
    """Raises `BadSettings` where the text names no write."""
    when, _, rest = text.partition(":")
    write, _, number = rest.partition(":")
    known = when in get_args(When) and write in get_args(Write)
    if not known or not number.isdecimal() or len(number) > _NUMBER_DIGITS_MAX or int(number) < 1:
        raise BadSettings(
            f"{VARIABLE} is {text[:80]!r}, which is no crash point",
            hint=f"unset it; tests set it as crash-before:identity:2, of {', '.join(get_args(Write))}",
        )
    return Fault(when, write, int(number))


def vault_kind(fault: str | None) -> type[SqliteVault]:
    """The vault of a node process: the real one, or the real one with that crash point."""
    return SqliteVault if fault is None else _crashing(read_fault(fault))


def _crashing(fault: Fault) -> type[SqliteVault]:
    writes: Counter[str] = Counter()

    class CrashingVault(SqliteVault):
        async def write_identity(self, record: IdentityRecord) -> None:
            self._begin("identity")
            await super().write_identity(record)
            self._end("identity")

        async def apply(self, batches: Sequence[RevisionChanges], lineage: LineageHash) -> None:
            self._begin("apply")
            await super().apply(batches, lineage)
            self._end("apply")

        async def leap(self, revision: Revision, lineage: LineageHash, digest: bytes) -> tuple[Change, ...]:
            self._begin("leap")
            changes = await super().leap(revision, lineage, digest)
            self._end("leap")
            return changes

        async def sync(self) -> Revision:
            self._begin("sync")
            durable = await super().sync()
            self._end("sync")
            return durable

        def _begin(self, write: Write) -> None:
            writes[write] += 1
            self._die_if(Fault("crash-before", write, writes[write]))

        def _end(self, write: Write) -> None:
            self._die_if(Fault("crash-after", write, writes[write]))

        def _die_if(self, here: Fault) -> None:
            if here == fault:
                os.kill(os.getpid(), signal.SIGKILL)

    return CrashingVault
