"""`leasehold verify`: checks each batch that a node released against the receipts (rule in `core/lease/audit.py`)."""

from pathlib import Path

import msgspec

from leasehold.cli.login import connected
from leasehold.client.coordinators import Coordinators
from leasehold.core.lease.audit import StaleServe, StaleServeRule
from leasehold.local.processes import LocalCluster
from leasehold.storage.servelog import read_serve_log

EXAMPLES_MAX = 5


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """How much was checked, how much broke the rule, and a few examples of that."""

    batches: int
    statements: int
    stale_serves: int
    examples: tuple[StaleServe, ...]


def verify(directory: Path, user: str | None = None, timeout: str | None = None) -> Verified:
    """Reads the serve logs of all nodes, dead ones too, and the receipts of all statements still known."""
    local = LocalCluster(directory)
    with connected(Coordinators, directory, user, timeout=timeout) as cluster:
        known = cluster.barriers()
    rule = StaleServeRule(one.barrier for one in known)
    batches, stale = 0, 0
    examples: list[StaleServe] = []
    for node in local.nodes():
        for serve in read_serve_log(node.directory / "servelog"):
            batches += 1
            found = rule.judge(serve)
            if found is not None:
                stale += 1
                if len(examples) < EXAMPLES_MAX:
                    examples.append(found)
    return Verified(
        batches=batches,
        statements=len({one.statement for one in known}),
        stale_serves=stale,
        examples=tuple(examples),
    )
