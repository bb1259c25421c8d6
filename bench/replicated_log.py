"""The meta storage over a log, in this process, on three real members of each store that `leasehold up` can run.

Beside it the store itself: transactions of as many puts through the same client. Then what is large: one transaction
of many changes and the beats meanwhile, watchers at another coordinator, and a replica of many keys.
"""

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
from tests.etcd_cluster import etcd_program

from bench.figures import Figure, Table, median, quantile, spread
from bench.large import Round, Rounds, committed_segments, created_buckets, dropped_records, plain_changes
from leasehold.cli.config import coordinator_config
from leasehold.cli.shared_store import shared_store
from leasehold.core.words.operations import Change, Txn
from leasehold.errors import Indefinite
from leasehold.ids import Revision
from leasehold.limits.log import LEADERSHIP_BEAT_NS
from leasehold.limits.units import SECOND_NS
from leasehold.local.etcd import PROGRAM_VARIABLE
from leasehold.local.members import ENGINES, LocalMembers
from leasehold.local.zookeeper import LocalZooKeeper
from leasehold.metastorage.contract import Leadership
from leasehold.metastorage.log.log import LEADER, Log
from leasehold.metastorage.log.sqlite_replica import SqliteReplicaPlace
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.metastorage.log.store import LogStore, Swap
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy

CLIENTS = (1, 64)
CHANGES = 5
VALUE = b"x" * 200
PAIRS, SMALLEST_PAIRS = 10, 1
LASTS_S, SMALLEST_LASTS_S = 1.0, 0.1
AIM_ALONE, AIM_MANY = 0.8, 2.0
LARGE: Mapping[str, tuple[Rounds, int]] = {
    "CREATE TABLE of 1,024 buckets": (created_buckets, 1_024),
    "commit of 4,096 segments": (committed_segments, 4_096),
    "drop of 20,000 records": (dropped_records, 20_000),
    "99,000 changes": (plain_changes, 99_000),
}
LARGE_ROUNDS, SMALLEST_LARGE = 3, 3
AIM_GAP_S = 1.5
WATCHERS, WATCHED_COMMITS = (3, 50, 500), 100
AIM_FAN_OUT_WATCHERS, AIM_FAN_OUT_S = 50, 0.05
KEYS, KEYS_AT_ONCE, SMALLEST_KEYS = 1_000_000, 20_000, 1_000


def store_of(settings: Mapping[str, str], name: str) -> LogStore:
    """A client of the members, for a log of that name."""
    config = coordinator_config(None, {"dir": Path(), **settings})
    assert config.meta is not None
    return shared_store(config, msgspec.structs.replace(config.meta, name=name), BoottimeClock())


@contextmanager
def members(engine: str) -> Generator[Mapping[str, str]]:
    """Three members, and the settings with which a coordinator reaches them."""
    os.environ.setdefault(PROGRAM_VARIABLE, etcd_program())
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch:
        local = LocalMembers(Path(scratch))
        local.draw(ENGINES[engine], 3)
        try:
            for process in local.processes():
                local.start(process, is_new=True)
            local.protect(lambda _: time.sleep(0.1))
            yield local.settings()
        finally:
            for process in local.processes():
                process.stop()


class Led(NamedTuple):
    """A coordinator that leads."""

    storage: ReplicatedMetaStorage
    leadership: Leadership
    beats: list[float]
    """When each beat began."""

    async def commit(self, *changes: Change) -> None:
        assert (await self.storage.txn(Txn(compares=self.leadership.fence(), then=changes))).succeeded


async def opened(store: LogStore, directory: Path) -> ReplicatedMetaStorage:
    while True:
        try:
            place = SqliteReplicaPlace(directory)
            return await ReplicatedMetaStorage.open(Log(store), place, BoottimeClock(), SystemEntropy())
        except Indefinite:  # the members have only just begun
            await asyncio.sleep(0.1)


@asynccontextmanager
async def leading(settings: Mapping[str, str], name: str) -> AsyncGenerator[Led]:
    store = store_of(settings, name)
    beats: list[float] = []
    swap_of_store = store.swap

    async def noted(swap: Swap) -> Mapping[str, int] | None:
        if LEADER in swap.puts:
            beats.append(time.perf_counter())
        return await swap_of_store(swap)

    store.swap = noted
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch:
        storage = await opened(store, Path(scratch))
        leadership = await storage.campaign("bench")
        async with asyncio.TaskGroup() as group:
            beating = group.create_task(leadership.hold(lambda _: None))
            yield Led(storage, leadership, beats)
            beating.cancel()
        await storage.close()


# ------------------------------------------------------------ beside the store itself


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


async def rates(
    engine: str, settings: Mapping[str, str], clients: int, pairs: int, lasts_s: float
) -> tuple[list[float], list[float]]:
    """Transactions of the meta storage and of the store itself in a second, in pairs."""
    versions: dict[int, Mapping[str, int]] = {}
    """Of what each client put last, where the store has to look first which of the keys exist if it is not told."""
    are_versions_needed = engine == LocalZooKeeper().scheme
    raw = store_of(settings, "raw")
    ours: list[float] = []
    theirs: list[float] = []
    async with leading(settings, f"log{clients}") as led:

        async def commit(number: int) -> None:
            await led.commit(*(Change(b"c/%d/%d" % (number, one), VALUE) for one in range(CHANGES)))

        async def put(number: int) -> None:
            puts = {f"k/{number}-{one}": VALUE for one in range(CHANGES)}
            with contextlib.suppress(Indefinite):  # a member that stalls; this has taken its time
                done = await raw.swap(Swap(unchanged=versions.pop(number, {}), puts=puts))
                assert done is not None
                if are_versions_needed:
                    versions[number] = done

        for _ in range(pairs):
            ours.append(await per_second(commit, clients, lasts_s))
            theirs.append(await per_second(put, clients, lasts_s))
    await raw.close()
    return ours, theirs


def rate_figure(engine: str, settings: Mapping[str, str], clients: int, *, smallest: bool) -> Figure:
    pairs, lasts_s = (SMALLEST_PAIRS, SMALLEST_LASTS_S) if smallest else (PAIRS, LASTS_S)
    ours, theirs = asyncio.run(rates(engine, settings, clients, pairs, lasts_s))
    ratio, wanted = median(ours) / median(theirs), AIM_ALONE if clients == 1 else AIM_MANY
    return Figure(
        what=f"{engine}: transactions of {CHANGES} changes, {clients} client{'s' if clients > 1 else ''}",
        value=spread(ours, "/s", 0),
        peer=f"raw {engine}, {CHANGES} puts: {spread(theirs, '/s', 0)}",
        ratio=f"{ratio:.2f}",
        aim=f"at least {wanted}",
        holds=ratio >= wanted,
    )


# ------------------------------------------------------------ what is large


class Large(NamedTuple):
    seconds: list[float]
    longest_gap_s: float
    """Between the beginnings of two beats while a transaction was under way."""


@cache
def large_rounds(what: str, *, smallest: bool) -> list[Round]:
    rounds, size = LARGE[what]
    return list(islice(rounds(SMALLEST_LARGE), 1)) if smallest else list(islice(rounds(size), LARGE_ROUNDS))


async def large(settings: Mapping[str, str], name: str, rounds: Sequence[Round]) -> Large:
    seconds: list[float] = []
    gaps: list[float] = []
    async with leading(settings, name) as led:
        for *first, changes in rounds:
            for one in first:
                await led.commit(*one)
            began = time.perf_counter()
            await led.commit(*changes)
            ended = time.perf_counter()
            seconds.append(ended - began)
            await asyncio.sleep(2 * LEADERSHIP_BEAT_NS / SECOND_NS)
            last = max((one for one in led.beats if one <= began), default=began)
            stretch = [last, *(one for one in led.beats if one > began)]
            gaps += [after - before for before, after in pairwise(stretch)]
        await led.commit()  # the same term still leads
    return Large(seconds, max(gaps))


def large_figure(engine: str, settings: Mapping[str, str], what: str, *, smallest: bool) -> Figure:
    found = asyncio.run(large(settings, f"large{list(LARGE).index(what)}", large_rounds(what, smallest=smallest)))
    return Figure(
        what=f"{engine}: {what} in one transaction",
        value=f"{median(found.seconds):.2f} s, worst {max(found.seconds):.2f} s of {len(found.seconds)}",
        peer=f"longest gap between beats {found.longest_gap_s:.2f} s, same term",
        aim=f"gap below {AIM_GAP_S} s",
        holds=found.longest_gap_s < AIM_GAP_S,
    )


# ------------------------------------------------------------ watchers


async def fan_out(settings: Mapping[str, str], watchers: int, commits: int) -> list[float]:
    """Seconds from the answer of a commit until each watcher at another coordinator has it."""
    late: list[float] = []
    name = f"watched{watchers}"
    async with leading(settings, name) as led:
        with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch:
            other = await opened(store_of(settings, name), Path(scratch))
            first = Revision((await led.storage.status()).latest + 1)
            answered: dict[int, float] = {}
            arrived: list[tuple[int, float]] = []

            async def watch() -> None:
                async with aclosing(other.watch(b"w/", b"w0", first)) as batches:
                    number = 0
                    async for _ in batches:
                        arrived.append((number, time.perf_counter()))
                        number += 1
                        if number == commits:
                            return

            async with asyncio.TaskGroup() as group:
                for _ in range(watchers):
                    group.create_task(watch())
                for number in range(commits):
                    await led.commit(Change(b"w/%d" % number, VALUE))
                    answered[number] = time.perf_counter()
                    await asyncio.sleep(0.02)
            late = [max(0.0, at - answered[number]) for number, at in arrived]
            await other.close()
    return late


def fan_out_figure(engine: str, settings: Mapping[str, str], watchers: int, *, smallest: bool) -> Figure:
    late = asyncio.run(fan_out(settings, watchers, 3 if smallest else WATCHED_COMMITS))
    p99 = quantile(late, 0.99)
    aimed = watchers == AIM_FAN_OUT_WATCHERS
    return Figure(
        what=f"{engine}: from a commit to {watchers} watchers at another coordinator",
        value=f"p50 {1e3 * median(late):.1f} ms, p99 {1e3 * p99:.1f} ms of {len(late)}",
        aim=f"p99 below {1e3 * AIM_FAN_OUT_S:.0f} ms" if aimed else "",
        holds=p99 < AIM_FAN_OUT_S if aimed else None,
    )


# ------------------------------------------------------------ a new replica


async def new_replica(settings: Mapping[str, str], keys: int) -> float:
    """Seconds until a coordinator with an empty directory has so many keys."""
    name = f"filled{keys}"
    async with leading(settings, name) as led:
        for first in range(0, keys, KEYS_AT_ONCE):
            numbers = range(first, min(keys, first + KEYS_AT_ONCE))
            await led.commit(*(Change(b"filled/%08d" % number, VALUE) for number in numbers))
        with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch:
            began = time.perf_counter()
            other = await opened(store_of(settings, name), Path(scratch))
            seconds = time.perf_counter() - began
            assert await other.get(b"filled/%08d" % (keys - 1)) is not None
            await other.close()
    return seconds


def replica_figure(engine: str, settings: Mapping[str, str], *, smallest: bool) -> Figure:
    keys = SMALLEST_KEYS if smallest else KEYS
    seconds = asyncio.run(new_replica(settings, keys))
    return Figure(what=f"{engine}: a new replica of {keys:,} keys", value=f"{seconds:.1f} s")


def run(smallest: bool) -> list[Table]:
    tables: list[Table] = []
    for engine in ENGINES:
        with members(engine) as settings:
            beside = [rate_figure(engine, settings, clients, smallest=smallest) for clients in CLIENTS]
            sized = [large_figure(engine, settings, what, smallest=smallest) for what in LARGE]
            sized += [fan_out_figure(engine, settings, one, smallest=smallest) for one in WATCHERS]
            sized.append(replica_figure(engine, settings, smallest=smallest))
        tables += [
            Table(title=f"The meta storage over a log beside raw {engine} with the same client", figures=beside),
            Table(title=f"The meta storage over a log in {engine}: what is large", figures=sized),
        ]
    return tables
