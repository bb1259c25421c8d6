"""The checkup of all other processes that this one may need."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from leasehold.certificates.names import CertificateRole
from leasehold.cli.checkup.clocks import check_clocks
from leasehold.cli.checkup.finding import HostFinding, wrong
from leasehold.cli.checkup.network import OtherProcess, check_process, check_store
from leasehold.cli.config import CoordinatorConfig, NodeConfig
from leasehold.core.swim.messages import Member, Role
from leasehold.limits.checkup import CHECKUP_AT_ONCE
from leasehold.wire.clock import BoottimeClock, sleep_ns
from leasehold.wire.tls import Tls


def check_others(
    config: NodeConfig | CoordinatorConfig, tls: Tls | None, members: Iterable[Member]
) -> list[HostFinding]:
    """Connects to the coordinators of the configuration, and to the members that gossip shows."""
    if tls is None and config.tls is not None:
        return []  # without its certificate it would only hear that it has none
    coordinators = config.coordinators if isinstance(config, NodeConfig) else ()
    given = [OtherProcess(CertificateRole.COORDINATOR, "", address) for address in coordinators]
    shown = [OtherProcess(_role_of(one), one.name, one.service) for one in members if one.service not in coordinators]
    processes = sorted({*given, *shown})
    with ThreadPoolExecutor(CHECKUP_AT_ONCE) as threads:
        results = list(threads.map(partial(check_process, tls=tls), processes))
        stores = list(threads.map(check_store, _stores(config)))
        answering = [one for one, (_, cluster) in zip(processes, results, strict=True) if cluster is not None]
        clocks = list(threads.map(partial(check_clocks, tls=tls, clock=BoottimeClock(), sleep=sleep_ns), answering))
    findings = [*stores, *(finding for finding, _ in results), *clocks]
    clusters = {cluster for _, cluster in results if cluster is not None}
    if len(clusters) > 1:
        findings.append(
            wrong("cluster", f"the coordinators serve {len(clusters)} clusters", "name those of one cluster alone")
        )
    if not processes and isinstance(config, NodeConfig):
        hint = "give coordinators, or cluster_key and seeds, in the file"
        findings.append(wrong("coordinators", "none is known", hint))
    return findings


def _stores(config: NodeConfig | CoordinatorConfig) -> tuple[str, ...]:
    return config.meta.endpoints if isinstance(config, CoordinatorConfig) and config.meta is not None else ()


def _role_of(member: Member) -> CertificateRole:
    return CertificateRole.COORDINATOR if member.role is Role.COORDINATOR else CertificateRole.NODE
