"""A vault that kills its own process at one write, for tests; without the variable there is no such vault.

`LEASEHOLD_FAULT=crash-before:identity:2` ends the process with SIGKILL as it is about to write its identity for the
second time, `crash-after:` once that write has returned. The other writes are `apply`, `leap` and `sync`. So tests hit
the crash points of registration, join and recovery exactly, in real processes with real files.
"""

import os
import re
import signal
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final, Literal, get_args

from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import IdentityRecord
from leasehold.errors import BadSettings
from leasehold.ids import LineageHash, Revision
from leasehold.vault.store import SqliteVault

VARIABLE: Final = "LEASEHOLD_FAULT"
Write = Literal["identity", "apply", "leap", "sync"]
_FAULT: Final = re.compile(f"crash-(before|after):({'|'.join(get_args(Write))}):[1-9][0-9]{{0,5}}")


def vault_kind(fault: str | None) -> type[SqliteVault]:
    """The vault of a node process: the real one, or the real one with that crash point. Raises `BadSettings` for a text
    that is no crash point."""
    if fault is None:
        return SqliteVault
    if _FAULT.fullmatch(fault) is None:
        raise BadSettings(
            f"{VARIABLE} is {fault[:80]!r}, which is no crash point",
            hint=f"unset it; tests set it as crash-before:identity:2, of {', '.join(get_args(Write))}",
        )
    return _crashing(fault)


def _crashing(fault: str) -> type[SqliteVault]:
    writes: Counter[Write] = Counter()

    @contextmanager
    def write_of(what: Write) -> Generator[None]:
        writes[what] += 1
        die_at(f"crash-before:{what}:{writes[what]}")
        yield
        die_at(f"crash-after:{what}:{writes[what]}")

    def die_at(here: str) -> None:
        if here == fault:
            os.kill(os.getpid(), signal.SIGKILL)

    class CrashingVault(SqliteVault):
        async def write_identity(self, record: IdentityRecord) -> None:
            with write_of("identity"):
                await super().write_identity(record)

        async def apply(self, batches: Sequence[RevisionChanges], lineage: LineageHash) -> None:
            with write_of("apply"):
                await super().apply(batches, lineage)

        async def leap(self, revision: Revision, lineage: LineageHash, digest: bytes) -> tuple[Change, ...]:
            with write_of("leap"):
                return await super().leap(revision, lineage, digest)

        async def sync(self) -> Revision:
            with write_of("sync"):
                return await super().sync()

    return CrashingVault
