"""The transport for synchronous Python: the client library, and Spark's Python workers.

The channel is made at the first use, again when this process shows or trusts another certificate, and again in a child
process, since gRPC's threads do not survive a fork.
"""

import os
import threading
from collections.abc import Generator
from typing import Any, Final

import grpc

from leasehold.core.words.addresses import is_loopback
from leasehold.core.words.messages import Message
from leasehold.errors import Unreachable
from leasehold.limits.requests import CALLS_OF_CLIENT_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.duplex import encode_bounded, unreachable
from leasehold.wire.failures import may_be_of_tls
from leasehold.wire.requests import frames
from leasehold.wire.rpc import BEHIND_OTHERS, CHANNEL_OPTIONS, STREAM, call_path, describe, read_answer, was_sent
from leasehold.wire.tls import Tls, TlsSource

_now_ns: Final = BoottimeClock().now_ns


class BlockingConnection:
    """As `wire.ports.Connection` without sessions, for synchronous callers on any thread."""

    def __init__(self, address: str, tls: TlsSource | None = None) -> None:
        self.address = address
        self._tls = tls
        self._lock = threading.Lock()
        self._room = threading.Semaphore(CALLS_OF_CLIENT_MAX)
        self._channel: Any = None
        self._shown: Tls | None = None
        """With which the channel was made."""
        self._inherited: Any = None
        self._owner_pid = 0
        self._closed = False

    @property
    def is_private(self) -> bool:
        """Whether what is sent can't be read on a network."""
        return self._tls is not None or is_loopback(self.address)

    def call(self, request: Message, timeout_ns: int) -> Message:
        channel, room = self._open()
        sent = tuple(frames(encode_bounded(request)))
        until_ns = _now_ns() + timeout_ns
        if not room.acquire(timeout=timeout_ns / SECOND_NS):
            raise unreachable(self.address, BEHIND_OTHERS, was_sent=False)
        left_s = max(0, until_ns - _now_ns()) / SECOND_NS
        try:
            if len(sent) == 1:  # without the thread that gRPC starts for an iterator
                answer = channel.unary_unary(call_path(request))(sent[0], timeout=left_s)
            else:
                answer = channel.stream_unary(call_path(request))(iter(sent), timeout=left_s)
        except (grpc.RpcError, ValueError) as error:
            raise self._unreachable(error, timeout_ns) from error
        finally:
            room.release()
        return read_answer(answer)

    def stream(self, request: Message, timeout_ns: int) -> Generator[Message]:
        channel, _ = self._open()
        sent = tuple(frames(encode_bounded(request)))
        try:
            if len(sent) == 1:
                call = channel.unary_stream(STREAM)(sent[0], timeout=timeout_ns / SECOND_NS)
            else:
                call = channel.stream_stream(STREAM)(iter(sent), timeout=timeout_ns / SECOND_NS)
        except ValueError as error:
            raise self._unreachable(error, timeout_ns) from error
        try:
            for answer in call:
                yield read_answer(answer)
        except grpc.RpcError as error:
            raise self._unreachable(error, timeout_ns) from error
        finally:
            call.cancel()

    def close(self) -> None:
        with self._lock:
            channel, self._channel, self._closed = self._channel, None, True
            is_ours = self._owner_pid == os.getpid()
        if channel is not None and is_ours:
            channel.close()

    def _open(self) -> tuple[Any, threading.Semaphore]:
        """The channel, and the room for calls on it."""
        with self._lock:
            if self._closed:
                raise unreachable(self.address, "the connection was closed")
            tls = None if self._tls is None else self._tls.now()
            if self._channel is None or self._owner_pid != os.getpid() or tls != self._shown:
                if self._owner_pid != os.getpid():
                    # The parent's channel stays referenced: freeing it here would wait for threads that are not here.
                    self._inherited = self._channel
                    self._room = threading.Semaphore(CALLS_OF_CLIENT_MAX)
                self._channel = self._made(tls)  # calls under way keep the one before
                self._owner_pid = os.getpid()
                self._shown = tls
            return self._channel, self._room

    def _made(self, tls: Tls | None) -> grpc.Channel:
        if tls is None:
            return grpc.insecure_channel(self.address, options=CHANNEL_OPTIONS)
        options = (*CHANNEL_OPTIONS, *tls.checks_of_coordinators())
        return grpc.secure_channel(tls.door(self.address), tls.channel(), options=options)

    def _unreachable(self, error: grpc.RpcError | ValueError, timeout_ns: int) -> Unreachable:
        if not isinstance(error, grpc.RpcError):  # a closed channel
            return unreachable(self.address, "the connection was closed")
        if self._tls is not None and may_be_of_tls(f"{error.details()}"):  # pyright: ignore[reportAttributeAccessIssue] every raised RpcError is a grpc.Call too
            self._tls.now().check()
        return unreachable(self.address, describe(error, timeout_ns), was_sent=was_sent(error))
