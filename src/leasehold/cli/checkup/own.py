"""The checkup of a process's own files and addresses."""

import os
import resource
from collections.abc import Iterator
from typing import Final

from leasehold.certificates.certificate import show_time
from leasehold.certificates.names import CertificateRole
from leasehold.cli.checkup.finding import HostFinding, fine, wrong
from leasehold.cli.config import CoordinatorConfig, NodeConfig
from leasehold.cli.coordinator_directory import check_for_a_coordinator
from leasehold.core.words.addresses import host_of, is_loopback, numeric
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, LeaseholdError
from leasehold.limits.requests import CONNECTIONS_MAX
from leasehold.local.files import read_address
from leasehold.node.directory.reset import check_no_reset, check_vault_or_new
from leasehold.wire import cluster_key
from leasehold.wire.addresses import anywhere, held, host_port, loopback, two_held
from leasehold.wire.names import look_up
from leasehold.wire.tls import Tls, own_tls

FILES_MIN: Final = 2 * CONNECTIONS_MAX
"""So many a process asks the machine for."""


def check_directory(config: NodeConfig | CoordinatorConfig) -> HostFinding:
    """Whether the process can use its directory, or make it."""
    directory = config.directory.absolute()
    there = next(one for one in (directory, *directory.parents) if one.exists())
    if not there.is_dir():
        return wrong("directory", f"{there} is not a directory", "choose another --dir")
    try:
        if isinstance(config, CoordinatorConfig):
            check_for_a_coordinator(directory)
        else:
            check_no_reset(directory)
            check_vault_or_new(directory)
    except LeaseholdError as error:
        return wrong("directory", error.text, error.hint)
    if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        return wrong("directory", f"this user can't write to {there}", "chown it to this user, or choose another --dir")
    return fine("directory", f"{config.directory}" + ("" if there == directory else " can be made"))


def check_certificate(config: NodeConfig | CoordinatorConfig) -> tuple[HostFinding, Tls | None]:
    """Its own certificate, and TLS with it if it can be used."""
    if config.tls is None:
        return fine("certificate", "none: the process serves only its own machine"), None
    is_node = isinstance(config, NodeConfig)
    role = CertificateRole.NODE if is_node else CertificateRole.COORDINATOR
    try:
        tls = own_tls(config.tls, role, config.name if is_node else None)
    except BadSettings as error:
        return wrong("certificate", error.text, error.hint), None
    assert tls.until is not None, "it was checked"
    return fine("certificate", f"{tls.owner}, valid until {show_time(tls.until)}"), tls


def check_key(config: NodeConfig | CoordinatorConfig) -> tuple[HostFinding, tuple[bytes, ...]]:
    """Its cluster key, and the keys in the file if it can be used."""
    try:
        keys = () if config.cluster_key is None else cluster_key.read(config.cluster_key)
    except BadSettings as error:
        return wrong("cluster key", error.text, error.hint), ()
    if keys:
        return fine("cluster key", f"{config.cluster_key}"), keys
    if config.tls is not None:
        return fine("cluster key", "none: the process takes no part in gossip"), ()
    hint = "copy the key of the cluster to this machine, and name it with --cluster-key FILE"
    return wrong("cluster key", "none, and no certificate: nothing proves that it is of the cluster", hint), ()


def check_listening(config: NodeConfig | CoordinatorConfig) -> HostFinding:
    """Whether the process can listen where it should, or listens there already."""
    check = f"listen {config.listen}"
    try:
        host, port = (loopback if config.tls is None else anywhere)(config.listen)
        with (held if config.tls is None else two_held)(host, port):
            pass
    except BadSettings as error:
        address = read_address(config.directory)
        if error.code == ErrorCode.PORT_IN_USE and address == host_port(*anywhere(config.listen)):
            return fine(check, "in use, by this process as its directory says")
        return wrong(check, error.text, error.hint)
    return fine(check, "free" if port else "any free port; a firewall needs one that is known")


def check_advertised(config: NodeConfig | CoordinatorConfig) -> Iterator[HostFinding]:
    """Whether the name that others get leads to more than each machine itself."""
    if config.advertise is None:
        return
    check, host = f"advertise {config.advertise}", host_of(config.advertise)
    found = [host] if numeric(host) is not None else look_up(host)
    shown = ", ".join(found)
    if not found:
        yield wrong(check, f"{host} is not known on this machine", "enter it in DNS, or in /etc/hosts of each machine")
    elif not is_loopback(config.listen) and any(is_loopback(host_port(one, 0)) for one in found):
        hint = "advertise an address of the network, and look for the name in /etc/hosts"
        yield wrong(check, f"{host} is {shown}, where each machine reaches only itself", hint)
    else:
        yield fine(check, shown)


def check_open_files() -> HostFinding:
    """Whether the process may have as many files open as it asks for."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < FILES_MIN:
        hint = f"raise the hard limit to {FILES_MIN}: `ulimit -Hn`, or LimitNOFILE= of systemd"
        return wrong("open files", f"at most {hard}, so the process takes fewer connections", hint)
    return fine("open files", "no limit" if hard == resource.RLIM_INFINITY else f"at most {hard}")


def own_address(config: NodeConfig | CoordinatorConfig) -> str:
    """Where the process serves or will serve, as others get it."""
    return config.advertised(read_address(config.directory) or config.listen)
