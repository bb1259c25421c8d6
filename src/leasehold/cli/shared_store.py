"""The engine that keeps the meta storage of several coordinators, as a configuration says how to reach it."""

from leasehold.cli.config import CoordinatorConfig
from leasehold.metastorage.etcd.client import EtcdAccess, EtcdClient
from leasehold.metastorage.etcd.store import EtcdStore
from leasehold.metastorage.location import StoreLocation
from leasehold.wire.ports import Clock


def shared_store(config: CoordinatorConfig, location: StoreLocation, clock: Clock) -> EtcdStore:
    """A client of the store at `location`."""
    access = EtcdAccess(
        endpoints=location.endpoints,
        ca_file=config.meta_ca,
        certificate_file=config.meta_cert,
        key_file=config.meta_key,
        user=config.meta_user,
        password_file=config.meta_password_file,
    )
    return EtcdStore(EtcdClient(access, clock), location.name, clock, quota_bytes=config.meta_quota)
