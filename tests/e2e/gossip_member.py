"""`python -m tests.e2e.gossip_member NAME ADDRESS KEY_FILE SEED ..`: one member of a physical topology, as a process.

Tells on its standard output where it hears, then each change that it notices, as JSON; SIGTERM makes it leave; a line
on its standard input makes it tell what has gone through.
"""

import asyncio
import json
import signal
import sys
from pathlib import Path

import uvloop

from leasehold.cli.discovery import seal_of
from leasehold.core.swim.messages import Member, Role, State
from leasehold.ids import NodeId
from leasehold.wire import cluster_key, udp
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.gossip import Gossip


def tell(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def notice(member: Member, state: State | None) -> None:
    tell(name=member.name, state=None if state is None else state.name, address=member.address)


async def run(name: str, address: str, key_file: str, *seeds: str) -> None:
    datagrams = await udp.listen(address)
    gossip = Gossip(
        me=Member(
            name=name, address=datagrams.address, role=Role.NODE, service="127.0.0.1:1", node=NodeId(int(name[1:]))
        ),
        seal=seal_of(cluster_key.read(Path(key_file))),
        seeds=seeds,
        clock=BoottimeClock(),
        entropy=SystemEntropy(),
        datagrams=datagrams,
        on_change=notice,
    )
    tell(address=datagrams.address)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def answer() -> None:
        while await reader.readline():
            traffic = gossip.traffic
            tell(sent=traffic.sent, sent_bytes=traffic.sent_bytes, health=gossip.swim.health)
        await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        answering = group.create_task(answer())
        loop.add_signal_handler(signal.SIGTERM, lambda: group.create_task(gossip.leave()))
        await gossip.run()
        answering.cancel()


if __name__ == "__main__":
    uvloop.run(run(*sys.argv[1:]))
