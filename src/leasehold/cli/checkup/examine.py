"""All checks of one process, in order."""

import asyncio
from collections.abc import Callable

from leasehold.cli.checkup import own
from leasehold.cli.checkup.finding import HostFinding
from leasehold.cli.checkup.gossip import GossipCheckup
from leasehold.cli.checkup.others import check_others
from leasehold.cli.config import CoordinatorConfig, NodeConfig
from leasehold.cli.discovery import coordinator_name
from leasehold.core.swim.messages import Member


def examine(config: NodeConfig | CoordinatorConfig, tell: Callable[[str], None]) -> list[HostFinding]:
    """`tell` gets what is tried now."""
    tell("looking at the files and addresses of the process")
    certificate, tls = own.check_certificate(config)
    key_finding, keys = own.check_key(config)
    findings = [own.check_directory(config), certificate, key_finding, own.check_listening(config)]
    findings += [*own.check_advertised(config), own.check_open_files()]
    members: list[Member] = []
    if keys:
        tell("trying gossip")
        service = own.own_address(config)
        name = config.name if isinstance(config, NodeConfig) else coordinator_name(service)
        gossip = GossipCheckup(config, keys, name, service)
        findings += asyncio.run(gossip.run())
        members = list(gossip.members.values())
    tell("connecting to coordinators and nodes")
    return findings + check_others(config, tls, members)
