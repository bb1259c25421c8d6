"""A member of ZooKeeper that answers as a test wants: sessions, and for each request what its script says."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.access import StoreAccess
from leasehold.metastorage.zookeeper.client import ZooKeeperClient
from leasehold.metastorage.zookeeper.layout import Layout
from leasehold.metastorage.zookeeper.store import ZooKeeperStore
from leasehold.wire.clock import BoottimeClock

EXISTS, GET, PING, CHECK, MULTI, AUTH = 3, 4, 11, 13, 14, 100
NO_NODE = -101
STATUS = b"Zookeeper version: 3.9.5-1, built on 2026-02-11\nMode: follower\n"


class Reply:
    """What a request gets: an answer, a code of an error, nothing, or the end of the connection."""

    def __init__(self, body: bytes = b"", *, code: int = 0, is_silent: bool = False, ends: bool = False) -> None:
        self.body = body
        self.code = code
        self.is_silent = is_silent
        self.ends = ends


SILENCE = Reply(is_silent=True)
END = Reply(ends=True)
CONFIRMED = Reply(struct.pack("!iBiiiBi", -1, 0, -1, NO_NODE, -1, 1, -1))
"""The only operation, a check, met a missing node."""
MISSING_NODE = Reply(code=NO_NODE)


class FakeZooKeeper:
    """`script` is asked for a reply to each request but confirmations and looks for the root, with its type."""

    def __init__(self, script: Callable[[int], Reply]) -> None:
        self.script = script
        self.address = ""
        self.asked: list[int] = []
        self.confirmations = 0
        self.may_confirm = asyncio.Event()
        self.may_confirm.set()
        self.is_asked_to_confirm = asyncio.Event()
        self.root = MISSING_NODE
        """The answer to a look for the root that begins now; it waits for `may_look`."""
        self.may_look = asyncio.Event()
        self.may_look.set()
        self.is_looked_at = asyncio.Event()
        self.told_twice = asyncio.Event()
        """Its status: for the connection, then to who asked for it."""
        self._statuses = 0
        self.auth = Reply()
        self.greets = True
        self._ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readexactly(4)
        if first == b"srvr":
            writer.write(STATUS)
            self._statuses += 1
            if self._statuses > 1:
                self.told_twice.set()
            return
        await reader.readexactly(int.from_bytes(first))
        if not self.greets:
            return
        session = struct.pack("!iiqi16sB", 0, 6_000, 7, 16, b"p" * 16, 0)
        writer.write(struct.pack("!i", len(session)) + session)
        while True:
            request = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
            xid, kind = struct.unpack_from("!ii", request)
            reply = await self._reply(kind, request[8:])
            if reply.ends:
                return
            if reply.is_silent:
                await self._ended.wait()
                return
            answer = struct.pack("!iqi", xid, 1, reply.code) + reply.body
            writer.write(struct.pack("!i", len(answer)) + answer)

    async def _reply(self, kind: int, body: bytes) -> Reply:
        if kind == PING:
            return Reply()
        if kind == AUTH:
            return self.auth
        if kind == MULTI and int.from_bytes(body[:4]) == CHECK:
            self.confirmations += 1
            self.is_asked_to_confirm.set()
            await self.may_confirm.wait()
            return CONFIRMED
        if kind == EXISTS:
            root = self.root
            self.is_looked_at.set()
            await self.may_look.wait()
            return root
        self.asked.append(kind)
        return self.script(kind)

    def end(self) -> None:
        self._ended.set()


@asynccontextmanager
async def running(*fakes: FakeZooKeeper) -> AsyncIterator[None]:
    servers = [await asyncio.start_server(fake.serve, "127.0.0.1", 0) for fake in fakes]
    for fake, server in zip(fakes, servers, strict=True):
        fake.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield
    finally:
        for fake, server in zip(fakes, servers, strict=True):
            fake.end()
            server.close()
            await server.wait_closed()


@asynccontextmanager
async def asking(
    *fakes: FakeZooKeeper, try_ns: int = 60 * SECOND_NS, password_file: Path | None = None
) -> AsyncIterator[ZooKeeperStore]:
    """A store that asks these members in this order."""
    layout = Layout("c")
    endpoints = tuple(fake.address for fake in fakes)
    access = StoreAccess(endpoints=endpoints, user=password_file and "me", password_file=password_file)
    store = ZooKeeperStore(ZooKeeperClient(access, layout.root, BoottimeClock(), try_ns=try_ns), layout)
    try:
        yield store
    finally:
        await store.close()
