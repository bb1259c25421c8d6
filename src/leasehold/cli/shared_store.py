"""The engine that keeps the meta storage of several coordinators, as a configuration says how to reach it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from leasehold.cli.config import CoordinatorConfig
from leasehold.cli.output import note
from leasehold.metastorage.access import StoreAccess
from leasehold.metastorage.etcd.client import EtcdClient
from leasehold.metastorage.etcd.store import EtcdStore
from leasehold.metastorage.location import ZOOKEEPER, StoreLocation
from leasehold.metastorage.log.log import Log
from leasehold.metastorage.log.patience import PatientClient
from leasehold.metastorage.log.store import LogStore
from leasehold.metastorage.zookeeper.client import ZooKeeperClient
from leasehold.metastorage.zookeeper.layout import Layout
from leasehold.metastorage.zookeeper.store import ZooKeeperStore
from leasehold.wire.ports import Clock


def shared_store(config: CoordinatorConfig, location: StoreLocation, clock: Clock) -> LogStore:
    """A client of the store at `location`."""
    access = StoreAccess(
        endpoints=location.endpoints,
        ca_file=config.meta_ca,
        certificate_file=config.meta_cert,
        key_file=config.meta_key,
        user=config.meta_user,
        password_file=config.meta_password_file,
    )
    if location.scheme == ZOOKEEPER:
        layout = Layout(location.name)
        return ZooKeeperStore(ZooKeeperClient(access, layout.root, clock), layout, quota_bytes=config.meta_quota)
    return EtcdStore(EtcdClient(access, clock), location.name, quota_bytes=config.meta_quota)


@asynccontextmanager
async def opened_log(config: CoordinatorConfig, location: StoreLocation, clock: Clock) -> AsyncGenerator[Log]:
    """The log at `location`, for a command that runs by itself."""
    store = shared_store(config, location, clock)
    try:
        yield Log(store)
    finally:
        await store.close()


async def note_warnings(shared: Log, client: PatientClient) -> None:
    """Tells a person what is wrong with members of the store. Raises `Unreachable`, and what the store declines."""
    for member in await client.surely(shared.store.members):
        if member.warning:
            note(member.warning)
