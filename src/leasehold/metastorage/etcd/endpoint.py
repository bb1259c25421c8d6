"""The connection to one member of etcd."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio

from leasehold.errors import BadMessage
from leasehold.limits.etcd import ETCD_ANSWER_BYTES_MAX, ETCD_KEEPALIVE_NS, ETCD_KEEPALIVE_TIMEOUT_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.metastorage.etcd.messages import WATCH, A, EtcdMethod, StatusResponse, WatchRequest, WatchResponse
from leasehold.metastorage.etcd.protobuf import M, decode, encode
from leasehold.metastorage.etcd.statuses import failure
from leasehold.metastorage.log.store import StoreDenied
from leasehold.metastorage.tries import TryFailed
from leasehold.wire.connections import CLIENT_CONNECTION_OPTIONS

_CHANNEL_OPTIONS: Final = (
    ("grpc.max_send_message_length", ETCD_ANSWER_BYTES_MAX),
    ("grpc.max_receive_message_length", ETCD_ANSWER_BYTES_MAX),
    # Only while a call is open, as etcd demands.
    ("grpc.keepalive_time_ms", ETCD_KEEPALIVE_NS // MILLISECOND_NS),
    ("grpc.keepalive_timeout_ms", ETCD_KEEPALIVE_TIMEOUT_NS // MILLISECOND_NS),
    ("grpc.http2.ping_timeout_ms", ETCD_KEEPALIVE_TIMEOUT_NS // MILLISECOND_NS),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.bdp_probe", 0),
    # Whether a request may be sent again is decided here.
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    *CLIENT_CONNECTION_OPTIONS,
)


class RefusedLogin(NamedTuple):
    """A password that a member has refused, and until when it is not sent again."""

    password: str
    until_ns: int
    error: StoreDenied


class EtcdEndpoint:
    """One address, at which one member listens. `credentials` is None for plain text."""

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None) -> None:
        self.address = address
        self.status: StatusResponse | None = None
        """What the member told about itself over the open connection; kept by the client."""
        self.refusal: RefusedLogin | None = None
        """The last one; kept by the client."""
        self._credentials = credentials
        self._channel: grpc.aio.Channel | None = None
        self._watches: set[Any] = set()
        self._is_closed = False

    @property
    def is_connected(self) -> bool:
        """Whether a connection stands, as far as is known. So a request that is sent now may arrive."""
        return self._open().get_state() is grpc.ChannelConnectivity.READY

    def check_refusal(self, password: str, now_ns: int) -> None:
        """Raises `StoreDenied` if the member has refused this password just now."""
        refused = self.refusal
        if refused is not None and refused.password == password and now_ns < refused.until_ns:
            raise StoreDenied(refused.error.text, hint=refused.error.hint) from refused.error

    async def call(self, method: EtcdMethod[M, A], request: M, *, token: str = "", timeout_ns: int) -> A:
        """One try. Raises `TryFailed`, `TokenRefused`, and definite errors."""
        call = self._open().unary_unary(method.path)
        with self._explained():
            blob = await call(encode(request), timeout=timeout_ns / SECOND_NS, metadata=_metadata(method, token))
        return self._read(method, blob)

    async def watch(self, request: WatchRequest, *, token: str, timeout_ns: int) -> AsyncGenerator[WatchResponse, None]:
        """The answers of one stream, the first within `timeout_ns`. Raises `TryFailed` when it ends."""
        call = self._open().stream_stream(WATCH.path)(metadata=_metadata(WATCH, token))
        self._watches.add(call)
        try:
            with self._explained():
                async with asyncio.timeout(timeout_ns / SECOND_NS):
                    await call.write(encode(request))
                    blob = await call.read()
            while isinstance(blob, bytes):
                yield self._read(WATCH, blob)
                if self._is_closed:  # a read that begins now would wait for ever
                    break
                with self._explained():
                    blob = await call.read()
        finally:
            self._watches.discard(call)
            call.cancel()
        raise TryFailed("the watch ended", may_happen=True)

    async def close(self) -> None:
        """Ends what is open; idempotent."""
        self._is_closed = True
        for call in self._watches:
            call.cancel()
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    def _open(self) -> grpc.aio.Channel:
        if self._is_closed:
            raise TryFailed("the connection was closed", may_happen=False)
        if self._channel is None:
            if self._credentials is None:
                self._channel = grpc.aio.insecure_channel(self.address, options=_CHANNEL_OPTIONS)
            else:
                self._channel = grpc.aio.secure_channel(self.address, self._credentials, options=_CHANNEL_OPTIONS)
        return self._channel

    @contextlib.contextmanager
    def _explained(self) -> Generator[None]:
        """Around one operation of gRPC: its errors become ours."""
        try:
            yield
        except grpc.aio.AioRpcError as error:
            raise failure(self.address, error.code(), error.details() or "") from error
        except TimeoutError as error:
            raise TryFailed("no answer in time", may_happen=True) from error
        except (asyncio.InvalidStateError, grpc.aio.UsageError) as error:
            raise TryFailed("the connection was closed", may_happen=True) from error
        except asyncio.CancelledError as error:
            # gRPC raises this too when the call, not this task, was cancelled: by close() in another task.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise TryFailed("the connection was closed", may_happen=True) from error

    def _read(self, method: EtcdMethod[M, A], blob: bytes) -> A:
        try:
            return decode(method.answer, blob)
        except BadMessage as error:
            raise TryFailed(error.text, may_happen=True) from error


def _metadata(method: EtcdMethod[Any, Any], token: str) -> grpc.aio.Metadata:
    metadata = grpc.aio.Metadata()
    if method.needs_leader:
        metadata.add("hasleader", "true")
    if token:
        metadata.add("token", token)
    return metadata
