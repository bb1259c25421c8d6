"""Calls, streams and sessions over gRPC, as a client makes them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import grpc
import grpc.aio

from leasehold.core.words.messages import Message
from leasehold.errors import LeaseholdError
from leasehold.limits.clients import CONNECT_TIMEOUT_NS
from leasehold.limits.requests import CALLS_OF_CLIENT_MAX, REQUEST_FRAME_BYTES_MAX
from leasehold.limits.sessions import SESSION_END_GRACE_NS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.duplex import QueuedDuplex, encode_bounded, unreachable
from leasehold.wire.http2.calls import EOF
from leasehold.wire.requests import frames
from leasehold.wire.rpc import (
    BEHIND_OTHERS,
    CHANNEL_OPTIONS,
    SESSION,
    STREAM,
    call_path,
    describe,
    read_answer,
    was_sent,
)
from leasehold.wire.tls import Tls, TlsSource


class ClientDuplex(QueuedDuplex):
    """The client's end; it owns the task that moves its bytes, from construction to the end of `close`."""

    def __init__(self, peer: str, call: Any, forget: "Callable[[ClientDuplex], None]") -> None:
        super().__init__(peer, send_bytes_max=REQUEST_FRAME_BYTES_MAX)
        self._call = call
        self._forget = forget
        self._task = asyncio.get_running_loop().create_task(self._move())

    async def close(self) -> None:
        """As in the parent; then waits for the server's end, within the same grace."""
        await super().close()
        # The server ends the call once it has read the end; cutting it earlier could lose what was sent last.
        await asyncio.wait({self._task}, timeout=SESSION_END_GRACE_NS / SECOND_NS)
        self._call.cancel()
        await asyncio.wait({self._task})

    def break_off(self, why: str) -> None:
        """As in the parent; and the call ends."""
        super().break_off(why)
        self._call.cancel()

    def garbled(self, error: LeaseholdError) -> None:
        """As if the stream had broken: another process may have the peer's address by now."""
        self.break_off(error.text.removeprefix(f"{self._peer}: "))

    async def _move(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.write_all(self._write))
                await self.read_all(self._read)
        finally:
            self._call.cancel()
            self._forget(self)

    async def _read(self) -> bytes | None:
        blob = await guarded(self._call.read(), self._peer)
        return None if blob is EOF else blob

    async def _write(self, blob: bytes) -> None:
        await guarded(self._call.write(blob), self._peer)


async def close_all(sessions: Sequence[ClientDuplex]) -> None:
    if len(sessions) == 1:  # as nearly always: without a task
        await sessions[0].close()
    elif sessions:
        async with asyncio.TaskGroup() as group:
            for duplex in sessions:
                group.create_task(duplex.close())


async def guarded(operation: Awaitable[Any], peer: str, timeout_ns: int | None = None) -> Any:
    """Awaits an operation of a client's call; an error of gRPC becomes `Unreachable`."""
    try:
        return await operation
    except grpc.aio.AioRpcError as error:
        raise unreachable(peer, describe(error, timeout_ns), was_sent=was_sent(error)) from error
    except (asyncio.InvalidStateError, grpc.aio.UsageError) as error:
        raise unreachable(peer, "the call has ended") from error
    except asyncio.CancelledError as error:
        # gRPC raises this too when the call, not this task, was cancelled: by close() in another task.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise unreachable(peer, "the connection was closed") from error


class GrpcConnection:
    """Implements `wire.ports.Connection`; the channel is made at the first use."""

    def __init__(self, address: str, tls: Tls | None = None) -> None:
        self._address = address
        self._tls = tls
        self._channel: grpc.aio.Channel | None = None
        self._closed = False
        self._sessions: set[ClientDuplex] = set()
        self._room = asyncio.Semaphore(CALLS_OF_CLIENT_MAX)

    async def call(self, request: Message, *, timeout_ns: int) -> Message:
        channel, path, sent = self._open(), call_path(request), tuple(frames(encode_bounded(request)))
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + timeout_ns / SECOND_NS
        try:
            async with asyncio.timeout_at(until_s):
                await self._room.acquire()
        except TimeoutError as error:
            raise unreachable(self._address, BEHIND_OTHERS, was_sent=False) from error
        try:
            if len(sent) == 1:  # without the task that gRPC starts for several
                call = channel.unary_unary(path)(sent[0], timeout=until_s - now_s())
            else:
                call = channel.stream_unary(path)(iter(sent), timeout=until_s - now_s())
            answer = await guarded(call, self._address, timeout_ns)
        finally:
            self._room.release()
        return read_answer(answer)

    async def stream(self, request: Message, *, timeout_ns: int) -> AsyncIterator[Message]:
        call = self._open().stream_stream(STREAM)(frames(encode_bounded(request)), timeout=timeout_ns / SECOND_NS)
        try:
            while (blob := await guarded(call.read(), self._address, timeout_ns)) is not EOF:
                yield read_answer(blob)
        finally:
            call.cancel()

    async def session(self) -> QueuedDuplex:
        """Opens a stream in both directions, accepted by the server within `CONNECT_TIMEOUT_NS`."""
        call = self._open().stream_stream(SESSION)()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_NS / SECOND_NS):
                # The server answers with its metadata as soon as it serves the stream; without it the call failed,
                # and waiting for the connection raises why.
                await guarded(call.initial_metadata(), self._address)
                await guarded(call.wait_for_connection(), self._address)
        except TimeoutError as error:
            call.cancel()
            raise unreachable(self._address, f"no session within {CONNECT_TIMEOUT_NS / SECOND_NS:g} s") from error
        except BaseException:
            call.cancel()
            raise
        duplex = ClientDuplex(self._address, call, self._sessions.discard)
        self._sessions.add(duplex)
        return duplex

    async def close(self) -> None:
        """Ends its sessions in order and everything else at once; idempotent."""
        self._closed = True
        await close_all(tuple(self._sessions))
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    def _open(self) -> grpc.aio.Channel:
        if self._closed:
            raise unreachable(self._address, "the connection was closed")
        if self._channel is None:
            if self._tls is None:
                self._channel = grpc.aio.insecure_channel(self._address, options=CHANNEL_OPTIONS)
            else:
                options = (*CHANNEL_OPTIONS, *self._tls.checks_of_coordinators())
                self._channel = grpc.aio.secure_channel(
                    self._tls.door(self._address), self._tls.channel(), options=options
                )
        return self._channel


class GrpcTransport:
    """Implements `wire.ports.Transport`."""

    def __init__(self, tls: TlsSource | None = None) -> None:
        self.checks_peers = tls is not None and tls.now().has_certificate
        self._tls = tls

    @property
    def certificate_ends_s(self) -> int | None:
        until = None if self._tls is None else self._tls.now().until
        return None if until is None else int(until.timestamp())

    def connect(self, address: str) -> GrpcConnection:
        return GrpcConnection(address, None if self._tls is None else self._tls.now())
