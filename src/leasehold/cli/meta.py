"""The meta storage of a coordinator: a file of its own, or a log that several share."""

from collections.abc import Callable

from leasehold.cli.config import CoordinatorConfig
from leasehold.cli.shared_store import shared_store
from leasehold.coordinator.opening import open_patiently
from leasehold.errors import Indefinite
from leasehold.metastorage.contract import MetaStorage
from leasehold.metastorage.log.log import Log
from leasehold.metastorage.log.sqlite_replica import SqliteReplicaPlace
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.metastorage.sqlite import FILE_NAME, SqliteMetaStorage
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.ports import Clock


async def open_meta_storage(
    config: CoordinatorConfig, clock: Clock, on_waits: Callable[[Indefinite], None]
) -> MetaStorage:
    """Waits while a shared store does not answer; `on_waits` gets why. Raises definite errors of the store and of the
    directory."""
    location = config.meta
    if location is None:
        return await SqliteMetaStorage.open(config.directory / FILE_NAME)

    async def open_shared() -> MetaStorage:
        store = shared_store(config, location, clock)
        try:
            place = SqliteReplicaPlace(config.directory)
            return await ReplicatedMetaStorage.open(Log(store), place, clock, SystemEntropy())
        except BaseException:
            await store.close()
            raise

    return await open_patiently(open_shared, clock, on_waits)
