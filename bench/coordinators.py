"""Several coordinators over an etcd: how long a change of leader is felt.

From the kill of a process, or from `leader transfer`, to the answer of the next CREATE TABLE, as a client sees it that
knows all coordinators.
"""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.etcd_cluster import etcd_program

from bench.figures import Figure, Table, median, quantile
from bench.replicated_log import store_of
from leasehold.client.cluster import Cluster
from leasehold.client.coordinators import Coordinators
from leasehold.client.locate import read_cluster_file
from leasehold.core.data.coordinator_client import CoordinatorRole
from leasehold.limits.lease import LEADER_ASIDE_NS
from leasehold.local.etcd import PROGRAM_VARIABLE
from leasehold.local.members import LocalMembers
from leasehold.local.processes import LocalCluster
from leasehold.wire.clock import sleep_ns

KILLS, SMALLEST_KILLS = 20, 1
SETTLE_NS = 1_000_000_000
TRANSFER_SETTLE_NS = LEADER_ASIDE_NS + SETTLE_NS
"""So that all candidates stand again."""
AIM_P50_S, AIM_WORST_S = 3.8, 4.5
AIM_TRANSFER_S = 0.5


@contextmanager
def several(nodes: int = 2) -> Generator[LocalCluster]:
    """Three coordinators, three members of etcd and so many nodes on this machine."""
    os.environ.setdefault(PROGRAM_VARIABLE, etcd_program())
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch:
        local = LocalCluster(Path(scratch) / "cluster")
        try:
            local.up(nodes, 3)
            local.wait_until_active()
            yield local
        finally:
            local.down()


def leader(local: LocalCluster) -> str:
    """The name of the coordinator that leads."""
    names = {address: name for name, address in read_cluster_file(local.directory).coordinators.items()}
    with Cluster(local.directory) as cluster:
        while True:
            for address, role in cluster.roles().items():
                if role is CoordinatorRole.LEADER:
                    return names[address]
            sleep_ns(SETTLE_NS // 10)


class Felt(NamedTuple):
    """After each kill: seconds until the next statement was answered, and whether the term had changed."""

    seconds: list[float]
    new_terms: list[bool]


def after_kills(local: LocalCluster, victim: Callable[[], str], rounds: int) -> Felt:
    felt = Felt([], [])
    with Cluster(local.directory) as cluster:
        for number in range(rounds):
            name = victim()
            term = cluster.status().term
            began = time.perf_counter()
            local.node(name).signal(signal.SIGKILL)
            cluster.sql(f"CREATE TABLE d.{name.replace('-', '_')}_{number} (a INT)", timeout=60)
            felt.seconds.append(time.perf_counter() - began)
            felt.new_terms.append(cluster.status().term != term)
            local.node(name).wait_until_gone()
            local.start(name)
            local.wait_until_active()
            sleep_ns(SETTLE_NS)
    return felt


def after_transfers(local: LocalCluster, rounds: int) -> Felt:
    """As `after_kills`, from the beginning of `leader transfer`."""
    felt = Felt([], [])
    with Cluster(local.directory) as cluster:
        for number in range(rounds):
            term = cluster.status().term
            began = time.perf_counter()
            with Coordinators(local.directory) as operator:
                operator.transfer_leadership()
            cluster.sql(f"CREATE TABLE d.transferred_{number} (a INT)", timeout=60)
            felt.seconds.append(time.perf_counter() - began)
            felt.new_terms.append(cluster.status().term != term)
            local.wait_until_active()
            sleep_ns(TRANSFER_SETTLE_NS)
    return felt


def store_leader(local: LocalCluster) -> str:
    """The name of the member that leads etcd."""

    async def ask() -> str:
        store = store_of(LocalMembers(local.directory).settings(), "bench")
        try:
            return next(one.name for one in await store.members() if one.leads)
        finally:
            await store.close()

    return asyncio.run(ask())


def _felt(what: str, felt: Felt, aim: str, *, holds: bool | None) -> Figure:
    return Figure(
        what=what,
        value=f"p50 {median(felt.seconds):.2f} s, worst {max(felt.seconds):.2f} s of {len(felt.seconds)}",
        peer=f"new term in {sum(felt.new_terms)} of {len(felt.new_terms)}",
        aim=aim,
        holds=holds,
    )


def run(smallest: bool) -> list[Table]:
    kills = SMALLEST_KILLS if smallest else KILLS
    felt: list[Figure] = []
    with several() as local:
        with Cluster(local.directory) as cluster:
            cluster.sql("CREATE DATABASE d")
        of_leaders = after_kills(local, lambda: leader(local), kills)
        holds = median(of_leaders.seconds) <= AIM_P50_S and max(of_leaders.seconds) <= AIM_WORST_S
        aim = f"p50 {AIM_P50_S} s, worst {AIM_WORST_S} s"
        felt.append(_felt("SIGKILL of the leader to the next CREATE TABLE", of_leaders, aim, holds=holds))
        transferred = after_transfers(local, kills)
        holds = median(transferred.seconds) <= AIM_TRANSFER_S
        aim = f"p50 {AIM_TRANSFER_S} s"
        felt.append(_felt("`leader transfer` to the next CREATE TABLE", transferred, aim, holds=holds))
        of_members = after_kills(local, lambda: store_leader(local), kills)
        share = quantile([float(one) for one in of_members.new_terms], 0.9)
        felt.append(
            _felt(
                "SIGKILL of etcd's leader to the next CREATE TABLE",
                of_members,
                "same term in 18 of 20",
                holds=share == 0,
            )
        )
    return [
        Table(title="Three coordinators, three members of etcd, two nodes on one machine: what is felt", figures=felt),
    ]
