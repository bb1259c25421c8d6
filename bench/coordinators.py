"""Several coordinators over an etcd: how long a change of leader is felt, and what the log costs beside raw etcd.

From the kill of a process, or from `leader transfer`, to the answer of the next CREATE TABLE, as a client sees it that
knows all coordinators. Then transactions of five changes through the meta storage, and transactions of five puts
through the same client of etcd, in pairs.
"""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.etcd_cluster import etcd_program

from bench.figures import Figure, Table, median, quantile, spread
from leasehold.client.cluster import Cluster
from leasehold.client.coordinators import Coordinators
from leasehold.client.locate import read_cluster_file
from leasehold.core.data.coordinator_client import CoordinatorRole
from leasehold.core.words.operations import Change, Txn
from leasehold.limits.lease import LEADER_ASIDE_NS
from leasehold.local.members import PROGRAM_VARIABLE, LocalMembers
from leasehold.local.processes import LocalCluster
from leasehold.metastorage.etcd.client import EtcdAccess, EtcdClient
from leasehold.metastorage.etcd.store import EtcdStore
from leasehold.metastorage.location import parse_location
from leasehold.metastorage.log.log import Log
from leasehold.metastorage.log.sqlite_replica import SqliteReplicaPlace
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.metastorage.log.store import Swap
from leasehold.wire.clock import BoottimeClock, sleep_ns
from leasehold.wire.entropy import SystemEntropy

KILLS, SMALLEST_KILLS = 20, 1
PAIRS, SMALLEST_PAIRS = 10, 1
LASTS_S, SMALLEST_LASTS_S = 1.0, 0.1
CLIENTS = (1, 64)
CHANGES = 5
VALUE = b"x" * 200
SETTLE_NS = 1_000_000_000
TRANSFER_SETTLE_NS = LEADER_ASIDE_NS + SETTLE_NS
"""So that all candidates stand again."""
AIM_P50_S, AIM_WORST_S = 3.8, 4.5
AIM_TRANSFER_S = 0.5
AIM_ALONE, AIM_MANY = 0.8, 2.0


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
        store = _store(local, "bench")
        try:
            return next(one.name for one in await store.members() if one.leads)
        finally:
            await store.close()

    return asyncio.run(ask())


def _store(local: LocalCluster, name: str) -> EtcdStore:
    location = LocalMembers(local.directory).location()
    assert location is not None
    clock = BoottimeClock()
    return EtcdStore(EtcdClient(EtcdAccess(endpoints=parse_location(location).endpoints), clock), name, clock)


async def per_second(work: Callable[[int], Awaitable[object]], clients: int, lasts_s: float) -> float:
    """How often `work` ends within a second, of so many that begin it again and again."""
    ends = time.perf_counter() + lasts_s
    done = 0

    async def client(number: int) -> None:
        nonlocal done
        while time.perf_counter() < ends:
            await work(number)
            done += 1

    async with asyncio.TaskGroup() as group:
        for number in range(clients):
            group.create_task(client(number))
    return done / lasts_s


async def rates(local: LocalCluster, clients: int, pairs: int, lasts_s: float) -> tuple[list[float], list[float]]:
    """Transactions of the meta storage and of raw etcd in a second, in pairs."""
    raw = _store(local, "raw")
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch:
        place = SqliteReplicaPlace(Path(scratch))
        log = Log(_store(local, f"log{clients}"))
        ours = await ReplicatedMetaStorage.open(log, place, BoottimeClock(), SystemEntropy())
        leadership = await ours.campaign("bench")
        async with asyncio.TaskGroup() as group:
            beating = group.create_task(leadership.hold(lambda _: None))

            async def commit(number: int) -> None:
                changes = tuple(Change(b"c/%d/%d" % (number, one), VALUE) for one in range(CHANGES))
                assert (await ours.txn(Txn(compares=leadership.fence(), then=changes))).succeeded

            async def put(number: int) -> None:
                puts = {f"k/{number}-{one}": VALUE for one in range(CHANGES)}
                assert await raw.swap(Swap(unchanged={}, puts=puts)) is not None

            of_ours: list[float] = []
            of_etcd: list[float] = []
            for _ in range(pairs):
                of_ours.append(await per_second(commit, clients, lasts_s))
                of_etcd.append(await per_second(put, clients, lasts_s))
            beating.cancel()
        await ours.close()
    await raw.close()
    return of_ours, of_etcd


def _felt(what: str, felt: Felt, aim: str, *, holds: bool | None) -> Figure:
    return Figure(
        what=what,
        value=f"p50 {median(felt.seconds):.2f} s, worst {max(felt.seconds):.2f} s of {len(felt.seconds)}",
        peer=f"new term in {sum(felt.new_terms)} of {len(felt.new_terms)}",
        aim=aim,
        holds=holds,
    )


def run(smallest: bool) -> list[Table]:
    kills, pairs, lasts_s = (SMALLEST_KILLS, SMALLEST_PAIRS, SMALLEST_LASTS_S) if smallest else (KILLS, PAIRS, LASTS_S)
    felt: list[Figure] = []
    costs: list[Figure] = []
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
        for clients in CLIENTS:
            ours, etcd = asyncio.run(rates(local, clients, pairs, lasts_s))
            ratio, wanted = median(ours) / median(etcd), AIM_ALONE if clients == 1 else AIM_MANY
            costs.append(
                Figure(
                    what=f"transactions of {CHANGES} changes, {clients} client{'s' if clients > 1 else ''}",
                    value=spread(ours, "/s", 0),
                    peer=f"raw etcd, {CHANGES} puts: {spread(etcd, '/s', 0)}",
                    ratio=f"{ratio:.2f}",
                    aim=f"at least {wanted}",
                    holds=ratio >= wanted,
                )
            )
    return [
        Table(title="Three coordinators, three members of etcd, two nodes on one machine: what is felt", figures=felt),
        Table(title="The meta storage over a log beside raw etcd with the same client", figures=costs),
    ]
