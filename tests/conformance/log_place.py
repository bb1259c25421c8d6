"""Coordinators over a replicated log in real members of an engine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from leasehold.limits.metastorage import COMPACTION_SLICE_ROWS
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.contract import MetaStorage
from leasehold.metastorage.database import DatabaseLimits
from leasehold.metastorage.log.log import Log
from leasehold.metastorage.log.sqlite_replica import SqliteReplicaPlace
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.metastorage.log.store import LogStore
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy

PATIENT_NS = 10 * SECOND_NS
"""So a slow disk fails no test."""


class EngineCluster(Protocol):
    """Running members of an engine."""

    def store(self, prefix: str, *, try_ns: int) -> LogStore: ...


@dataclass
class LogPlace:
    """A coordinator's directory, and a log of its own in the members."""

    directory: Path
    cluster: EngineCluster
    name: str

    async def open(self, *, slice_rows: int = COMPACTION_SLICE_ROWS) -> MetaStorage:
        store = self.cluster.store(self.name, try_ns=PATIENT_NS)
        place = SqliteReplicaPlace(self.directory, limits=DatabaseLimits(slice_rows=slice_rows))
        return await ReplicatedMetaStorage.open(Log(store), place, BoottimeClock(), SystemEntropy())
