"""The physical topology: how soon a death is known, who is found dead that lives, and what it costs on the wire.

Five real processes over loopback UDP, one of them killed again and again; then 200 simulated members over a network of
2 ms and, in the second run, with 5 % loss and one member that runs three seconds late. Bytes are with the headers of
UDP and IPv4.
"""

import asyncio
import signal
import tempfile
import time
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec
from tests.e2e.gossip_processes import MemberProcesses

from bench.figures import Figure, Table, quantile
from leasehold.core.swim.messages import State
from leasehold.core.swim.suspicion import shortest_ns
from leasehold.limits.swim import SWIM_PERIOD_NS
from leasehold.limits.units import SECOND_NS
from leasehold.testing.gossip import HEADER_BYTES, PORT, GossipWorld
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.network import Link
from leasehold.wire import cluster_key


class Size(NamedTuple):
    """How much is done: real processes, how many are killed, seconds without a fault; the same of simulated members."""

    processes: int = 5
    kills: int = 8
    quiet_s: float = 15
    members: int = 200
    deaths: int = 6
    simulated_s: int = 60


SMALLEST = Size(processes=3, kills=1, quiet_s=0.5, members=6, deaths=1, simulated_s=1)
LATE_NS = 3 * SECOND_NS
FIRST_WAIT_PERIODS = 4
"""Until somebody probes it, the probe's own period, and until all have been told."""


class Run(msgspec.Struct, kw_only=True):
    """What one run of a topology showed."""

    known_s: list[float]
    """After a death: when each other member knew."""
    all_s: list[float]
    """After each death: when the last of them did."""
    wrong: int
    """Members that lived and were found dead, each counted once for who found it so."""
    suspected: int
    bytes_per_s: float
    """Per member, while nothing happened."""


def real(size: Size) -> Run:
    """Kills one process at a time, and starts another of its name at another port."""
    known: list[float] = []
    last: list[float] = []
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch:
        key_file = Path(scratch) / "cluster.key"
        cluster_key.generate(key_file)
        with MemberProcesses(key_file) as processes:
            members = processes.start_all(size.processes)
            per_s = _quiet(processes, size.quiet_s)
            wrong = suspected = 0
            for kill in range(size.kills):
                name = f"n{2 + kill % (size.processes - 1)}"
                others = [one for one in processes.members.values() if one.name != name]
                began = time.monotonic()
                processes.members[name].signal(signal.SIGKILL)
                processes.members[name].process.wait()
                processes.until(lambda name=name: processes.all_see(name, "DEAD"))
                found = [
                    max(at_s for at_s, other, state in one.history if (other, state) == (name, "DEAD"))
                    for one in others
                ]
                known += [at_s - began for at_s in found]
                last.append(max(found) - began)
                since = [one for other in others for one in other.history if one[0] >= began]
                wrong += sum(state == "DEAD" and other != name for _, other, state in since)
                suspected += sum(state == "SUSPECT" and other != name for _, other, state in since)
                again = processes.start(name, members[0].address)
                processes.until(
                    lambda again=again, others=others: all(
                        one.heard[again.name] == ("ALIVE", again.address) and again.sees(one.name) == "ALIVE"
                        for one in others
                    )
                )
    return Run(known_s=known, all_s=last, wrong=wrong, suspected=suspected, bytes_per_s=per_s)


def _quiet(processes: MemberProcesses, lasts_s: float) -> float:
    """Bytes per second and member while nothing happens."""

    def sent() -> int:
        members = processes.members.values()
        for one in members:
            one.ask()
        processes.until(lambda: all(one.traffic for one in members))
        return sum(one.traffic["sent_bytes"] + one.traffic["sent"] * HEADER_BYTES for one in members if one.traffic)

    before, began = sent(), time.monotonic()
    time.sleep(lasts_s)
    return (sent() - before) / (time.monotonic() - began) / len(processes.members)


def simulated(size: Size, *, loss: float, late_ns: int, seed: int = 1) -> Run:
    """Kills one member at a time; the one that runs late is not among those that are counted as healthy."""

    async def main(random: Random) -> Run:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        world = GossipWorld(loop, random, link=Link(loss=loss))
        members = world.add(size.members - bool(late_ns))
        slow = [one.name for one in world.add(1, late_ns=late_ns)] if late_ns else []
        known: list[float] = []
        last: list[float] = []
        async with asyncio.TaskGroup() as group:
            for member in world.members.values():
                member.start(group, (f"n1:{PORT}", f"n2:{PORT}"))
            await world.until(world.agree, at_most_ns=120 * SECOND_NS)
            await asyncio.sleep(10)
            before = world.sent_bytes()
            await asyncio.sleep(size.simulated_s)
            per_s = (world.sent_bytes() - before) / size.simulated_s / size.members
            killed: set[str] = set()
            for place in range(size.deaths):
                victim = members[place * (len(members) // size.deaths)]
                killed_ns = loop.now_ns()
                killed.add(victim.name)
                await victim.kill()
                healthy = [one for one in world.running() if one.name not in slow]
                await world.until(
                    lambda healthy=healthy, name=victim.name: all(name not in one.living() for one in healthy),
                    at_most_ns=300 * SECOND_NS,
                )
                times = [
                    (one.at_ns - killed_ns) / SECOND_NS
                    for one in world.deaths(killed_ns)
                    if one.member.name == victim.name and one.by not in slow
                ]
                known += times
                last.append(max(times))
            for member in world.running():
                await member.kill()
        innocent = killed | set(slow)
        return Run(
            known_s=known,
            all_s=last,
            wrong=sum(one.member.name not in innocent for one in world.deaths()),
            suspected=sum(one.state is State.SUSPECT and one.member.name not in innocent for one in world.noticed),
            bytes_per_s=per_s,
        )

    return run_virtual(main, seed)


def figures(what: str, run: Run, members: int, bytes_aim: int) -> list[Figure]:
    least_s = shortest_ns(members) / SECOND_NS
    aim_s = least_s + FIRST_WAIT_PERIODS * SWIM_PERIOD_NS / SECOND_NS
    half, most = quantile(run.known_s, 0.5), quantile(run.known_s, 0.99)
    return [
        Figure(
            what=f"{what}: a death is known to a member",
            value=f"p50 {half:.2f} s, p99 {most:.2f} s, {len(run.all_s)} deaths",
            peer=f"shortest suspicion {least_s:.2f} s",
            ratio=f"{half / least_s:.2f}",
            aim=f"p50 under {aim_s:.1f} s",
            holds=half < aim_s,
        ),
        Figure(
            what=f"{what}: to the last of them",
            value=f"p50 {quantile(run.all_s, 0.5):.2f} s, longest {max(run.all_s):.2f} s",
            aim="report",
        ),
        Figure(
            what=f"{what}: found dead while they lived",
            value=str(run.wrong),
            peer=f"{run.suspected} times suspected, and refuted",
            aim="none",
            holds=run.wrong == 0,
        ),
        Figure(
            what=f"{what}: sent while nothing happens",
            value=f"{run.bytes_per_s:,.0f} bytes/s per member",
            aim=f"under {bytes_aim:,}",
            holds=run.bytes_per_s < bytes_aim,
        ),
    ]


def run(smallest: bool) -> list[Table]:
    size = SMALLEST if smallest else Size()
    quiet, lossy = simulated(size, loss=0, late_ns=0), simulated(size, loss=0.05, late_ns=LATE_NS)
    found = [
        *figures(f"{size.processes} processes", real(size), size.processes, 1_000),
        *figures(f"{size.members} simulated", quiet, size.members, 1_000),
        *figures("the same, 5 % loss, one 3 s late", lossy, size.members, 3_000),
    ]
    return [Table(title="Gossip: deaths, false deaths, traffic", figures=found)]
