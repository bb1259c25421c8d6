"""A server of gRPC at the doors of an address, on the running event loop."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Collection, Coroutine, Generator, Iterable, Mapping
from types import coroutine
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import grpc

from leasehold.limits.http2 import ACCEPT_NS, RECEIVE_BYTES, SWEEP_NS
from leasehold.limits.sessions import KEEPALIVE_INTERVAL_NS, KEEPALIVE_TIMEOUT_NS, SESSION_END_GRACE_NS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.fair_room import FairRoom
from leasehold.wire.http2.calls import CallEnded, IncomingCall
from leasehold.wire.http2.door_connection import DoorConnection
from leasehold.wire.http2.known_queues import KnownQueues
from leasehold.wire.http2.listening import has_gone
from leasehold.wire.http2.streams import Http2Limits
from leasehold.wire.http2.turns import FairTurns
from leasehold.wire.known_peers import KnownPeers, PeerStanding
from leasehold.wire.peers import peer_of

CallHandler: TypeAlias = Callable[[IncomingCall], Coroutine[Any, Any, bytes | None]]
"""Answers the only or the last message of a call, if there is one."""
AuthContext: TypeAlias = Mapping[str, list[bytes]]
"""What TLS says of a peer, by gRPC's names."""
ContextNow: TypeAlias = Callable[[], ssl.SSLContext]
"""What the next connection to a door is shown."""
_CLOCK: Final = BoottimeClock()
T = TypeVar("T")


class _Door(NamedTuple):
    """A queue of one."""

    number: int
    listening: socket.socket
    context: ContextNow | None


class DoorServer:
    """Serves from `serve` until `close`."""

    def __init__(
        self,
        *,
        limits: Http2Limits,
        message_bytes_max: int,
        idle_ns: int,
        connections_max: int,
        connections_per_peer_max: int | None = None,
        on_fault: Callable[[BaseException], None],
        standing: Callable[[AuthContext], PeerStanding] = lambda _: PeerStanding.NONE,
        kept_header: bytes = b"",
        quiet_ns: int = KEEPALIVE_INTERVAL_NS,
        answer_ns: int = KEEPALIVE_TIMEOUT_NS,
    ) -> None:
        """`on_fault` gets every error that was not foreseen. A connection without a call is closed after `idle_ns`.
        `standing` judges what TLS says of a connection. Of those that are no members' each door takes
        `connections_max`, and of one peer `connections_per_peer_max`.

        Handlers see of a call's headers the one of this name, as `said`. A peer that has said nothing for `quiet_ns`
        while it has a call is asked whether it is there, and has `answer_ns` to answer."""
        self.quiet_ns = quiet_ns
        self.answer_ns = answer_ns
        self.kept_header = kept_header
        self.limits = limits
        self.message_bytes_max = message_bytes_max
        self.idle_ns = idle_ns
        self.received = memoryview(bytearray(RECEIVE_BYTES))
        """What connections are read into: one after the other, and each at once dealt with."""
        self.decrypted = memoryview(bytearray(RECEIVE_BYTES))
        self.standing = standing
        self.known = KnownPeers()
        self.waiting_bytes = 0
        """Of all connections that wait for their turn."""
        self.turns = FairTurns[DoorConnection](self.known.sharer, self.known.weight)
        self._loop: asyncio.AbstractEventLoop
        self._turn_ns = self.now_ns()
        self._is_turn_due = False
        self._handlers: Mapping[str, CallHandler] = {}
        self._unserved: CallHandler
        self._connections_max = connections_max
        self._per_peer_max = connections_per_peer_max or connections_max
        self._rooms: list[FairRoom[DoorConnection]] = []
        """At each door."""
        self.on_fault = on_fault
        self._connections: set[DoorConnection] = set()
        self._has_none = asyncio.Event()
        self._has_none.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._doors: list[_Door] = []
        self._queues: list[KnownQueues] = []
        self._sorted_at = 0
        """Which change of the known peers the queues have heard of."""
        self._sorted_ns = self.now_ns() - SECOND_NS
        self._is_resting = False
        """Whether no file is left for a connection."""
        self._making: set[asyncio.Task[None]] = set()
        """Connections that the loop takes over."""
        self._sweep: asyncio.TimerHandle | None = None
        self._looked_ns = self.now_ns()

    async def serve(
        self,
        doors: Iterable[tuple[socket.socket, ContextNow | None]],
        handlers: Mapping[str, CallHandler],
        unserved: CallHandler,
    ) -> None:
        """Takes connections at these sockets, and calls by their paths. `unserved` gets all others."""
        self._loop = asyncio.get_running_loop()
        self._handlers, self._unserved = handlers, unserved
        for number, (listening, context) in enumerate(doors):
            room = FairRoom[DoorConnection](
                per_peer_max=self._per_peer_max, places=self._connections_max, known=self.known
            )
            self._rooms.append(room)
            queues = KnownQueues(listening)
            self._queues.append(queues)
            self._doors += [_Door(number, one, context) for one in (listening, *queues.sockets)]
        self._listen()
        self._sweep = asyncio.get_running_loop().call_later(SWEEP_NS / SECOND_NS, self._look)

    def _listen(self) -> None:
        self._is_resting = False
        for door in self._doors:
            asyncio.get_running_loop().add_reader(door.listening, self._accept, door)

    def _rest(self) -> None:
        self._is_resting = True
        for door in self._doors:
            asyncio.get_running_loop().remove_reader(door.listening)

    def _accept(self, door: "_Door") -> None:
        """Some of the connections that wait; the loop does something else before it takes others."""
        until_ns = self.now_ns() + ACCEPT_NS
        while (began_ns := self.now_ns()) < until_ns:
            try:
                accepted, name = door.listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no file is left: it goes on at the next look
                self._rest()
                return
            accepted.setblocking(False)
            if has_gone(accepted):
                accepted.close()
                self._came_to_nothing(peer_of(name[0]), began_ns)
                continue
            with contextlib.suppress(OSError):
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            context = None if door.context is None else door.context()
            self._add(DoorConnection(self, door.number, context, accepted, *name[:2]), began_ns)

    def _came_to_nothing(self, peer: str, began_ns: int) -> None:
        """A connection from there, at which the server has looked since then."""
        self.known.came_to_nothing(peer)
        self.turns.spend(peer, self.now_ns() - began_ns)
        self.turn_soon()

    def _add(self, one: DoorConnection, began_ns: int) -> None:
        self._connections.add(one)
        self._has_none.clear()
        is_in = self._make_room(one)
        one.spend(self.now_ns() - began_ns)
        if not is_in:
            return
        if self.turns.may_go():
            one.give()
        else:
            self.turns.wait(one.host, one)

    def _make_room(self, one: DoorConnection) -> bool:
        """Whether it may come in."""
        gives_way = self._rooms[one.door].enter(one.host, one)
        if gives_way is not None:
            gives_way.gave_way = True
            gives_way.abort()
        return one is not gives_way

    def make(self, one: DoorConnection) -> None:
        """Makes it one of the loop's."""
        task = asyncio.get_running_loop().create_task(self._make(one))
        self._making.add(task)
        task.add_done_callback(self._making.discard)

    async def _make(self, one: DoorConnection) -> None:
        loop = asyncio.get_running_loop()
        try:
            await _timed(loop.connect_accepted_socket(lambda: one, sock=one.accepted), one.spend)
        except Exception as fault:  # noqa: BLE001 as in `DoorConnection.buffer_updated`
            one.accepted.close()
            self.remove(one)
            self.on_fault(fault)

    async def close(self, *, grace_ns: int = 0) -> None:
        """Stops listening, and cancels what runs; its tasks end as they please. With `grace_ns`, calls may end by
        themselves before; connections that have one then are cut off."""
        if self._sweep is not None:
            self._sweep.cancel()
        self._rest()
        doors, self._doors = self._doors, []
        for door in doors:
            door.listening.close()
        for one in tuple(self._connections):
            one.leave()
        while self._making:
            await asyncio.wait(tuple(self._making))
        if self._tasks and grace_ns:
            await asyncio.wait(self._tasks, timeout=grace_ns / SECOND_NS)
            for one in tuple(self._connections):
                if one.http.streams:
                    one.abort()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for one in tuple(self._connections):
            one.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SESSION_END_GRACE_NS / SECOND_NS):
                await self._has_none.wait()
        for one in tuple(self._connections):
            one.abort()
        await self._has_none.wait()

    @staticmethod
    def now_ns() -> int:
        return _CLOCK.now_ns()

    def turn_soon(self) -> None:
        """A turn has been used, at least in part."""
        if not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """The next ones are looked at; the loop has done all else that was due."""
        self._is_turn_due = False
        now_ns, before_ns = self.now_ns(), self._turn_ns
        self._turn_ns = now_ns
        self.turns.begin(now_ns - before_ns)
        while (connection := self.turns.next()) is not None:
            self.turn_soon()  # for those that wait still
            connection.go_on()

    def _look(self) -> None:
        self._sweep = asyncio.get_running_loop().call_later(SWEEP_NS / SECOND_NS, self._look)
        now_ns = self.now_ns()
        if now_ns - self._sorted_ns >= SECOND_NS:
            self._sort(now_ns)
        if self._is_resting:
            self._listen()
        is_late, self._looked_ns = now_ns - self._looked_ns > 2 * SWEEP_NS, now_ns
        if is_late:
            return  # what has come meanwhile is read first
        for one in tuple(self._connections):
            try:
                one.sweep(now_ns)
            except Exception as fault:  # noqa: BLE001 as in `DoorConnection.buffer_updated`
                self.on_fault(fault)
                one.abort()

    def _sort(self, now_ns: int) -> None:
        """New connections of known peers wait in queues of their own."""
        rested_s = (now_ns - self._sorted_ns) // SECOND_NS
        self._sorted_ns += rested_s * SECOND_NS
        self.known.rested(rested_s)
        if self._sorted_at == self.known.changes:
            return
        self._sorted_at = self.known.changes
        of_peer = self.known.queues()
        for one in self._queues:
            one.sort(of_peer)

    # For the connections.

    def found_member(self, connection: DoorConnection) -> None:
        """It is that of a node or coordinator."""
        self.known.add_member(connection.host)
        self._rooms[connection.door].leave(connection)

    def lost_member(self, connection: DoorConnection) -> None:
        """It was that of one, whose certificate counts no more."""
        if not any(one.is_of_member and one.host == connection.host for one in self._connections):
            self.known.remove_member(connection.host)
        self._make_room(connection)

    def remove(self, connection: DoorConnection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            self.turns.forget(connection.host, connection)
            if not (connection.has_begun or connection.gave_way):
                self.known.came_to_nothing(connection.host)
            self._rooms[connection.door].leave(connection)
            if not self._connections:
                self._has_none.set()

    def begin(self, call: IncomingCall, path: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._handle(call, self._handlers.get(path, self._unserved)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _handle(self, call: IncomingCall, handler: CallHandler) -> None:
        try:
            answer = await _timed(handler(call), call.spend)
            if answer is not None:
                call.answer(answer)
            call.end()
        except CallEnded:
            pass
        except asyncio.CancelledError:
            call.end(grpc.StatusCode.CANCELLED, "the server ends this call")
            raise
        except Exception as fault:  # noqa: BLE001 the border: what was not foreseen goes to on_fault, not to the peer
            self.on_fault(fault)
            call.end(grpc.StatusCode.UNKNOWN, "the server failed on this call")

    def end(self, connections: Collection[str]) -> None:
        """Ends these connections, by their names."""
        for one in tuple(self._connections):
            if one.peer in connections:
                one.abort()


@coroutine
def _timed(work: Coroutine[Any, Any, T], spend: Callable[[int], None]) -> Generator[Any, Any, T]:
    """Does it, and tells how long each of its steps takes."""
    value: Any = None
    go_on: Callable[[Any], Any] = work.send
    while True:
        began_ns = _CLOCK.now_ns()
        try:
            waited_for = go_on(value)
        except StopIteration as end:
            return end.value
        finally:
            spend(_CLOCK.now_ns() - began_ns)
            value = None  # an error would hold this frame, which holds it
        try:
            value, go_on = (yield waited_for), work.send
        except BaseException as error:  # noqa: BLE001 it belongs to the work
            value, go_on = error, work.throw
