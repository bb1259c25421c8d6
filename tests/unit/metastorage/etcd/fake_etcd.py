"""A member of etcd that answers what a test tells it to, over real gRPC."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import msgspec

from leasehold.limits.units import MILLISECOND_NS
from leasehold.metastorage.access import StoreAccess
from leasehold.metastorage.etcd.client import EtcdClient
from leasehold.metastorage.etcd.messages import (
    AUTHENTICATE,
    COMPACT,
    DELETE_RANGE,
    MEMBER_ADD,
    MEMBER_LIST,
    MEMBER_REMOVE,
    RANGE,
    STATUS,
    TXN,
    WATCH,
    AuthenticateResponse,
    EtcdAnswer,
    EtcdMember,
    EtcdMethod,
    MemberListResponse,
    ResponseHeader,
    StatusResponse,
    TxnResponse,
    WatchRequest,
    WatchResponse,
)
from leasehold.metastorage.etcd.protobuf import decode, encode
from leasehold.wire.clock import BoottimeClock

_METHODS = (RANGE, TXN, DELETE_RANGE, COMPACT, STATUS, MEMBER_LIST, MEMBER_ADD, MEMBER_REMOVE, AUTHENTICATE, WATCH)
METHODS = {one.path: one for one in _METHODS}
Script = Callable[[Any], Awaitable[EtcdAnswer | bytes]]


class Declined(Exception):
    """Becomes a status of gRPC."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code
        self.details = details


def declining(code: grpc.StatusCode, details: str) -> Script:
    async def decline(_request: object) -> EtcdAnswer:
        raise Declined(code, details)

    return decline


async def hanging(_request: object) -> EtcdAnswer:
    await asyncio.Event().wait()
    raise AssertionError


class FakeEtcd(grpc.GenericRpcHandler):
    """Set what it answers at any time; `scripts` stand for whole methods."""

    def __init__(self, member_id: int, cluster_id: int = 99) -> None:
        self.header = ResponseHeader(cluster_id=cluster_id, member_id=member_id, revision=10)
        self.status = StatusResponse(version="3.6.14", leader=1, db_size=8192, db_size_in_use=4096)
        self.token: str | None = None
        """None while it wants none."""
        self.asked: list[str] = []
        """The last word of each method that came with the right token."""
        self.requests: list[Any] = []
        self.logins = 0
        self.scripts: dict[EtcdMethod[Any, Any], Script] = {}
        self.watches: asyncio.Queue[asyncio.Queue[WatchResponse | Declined | None]] = asyncio.Queue()
        """For each new stream what to send; None and an error end it."""
        self.address = ""

    def set_revision(self, revision: int) -> None:
        self.header = msgspec.structs.replace(self.header, revision=revision)

    def service(self, handler_call_details: Any) -> Any:
        method = METHODS.get(handler_call_details.method)
        if method is None:
            return None
        if method is WATCH:
            return grpc.stream_stream_rpc_method_handler(self._watch)

        async def answer(blob: bytes, context: Any) -> bytes:
            try:
                answered = await self._answer(method, decode(method.request, blob), context)
            except Declined as declined:
                await context.abort(declined.code, declined.details)
                raise
            return answered if isinstance(answered, bytes) else encode(answered)

        return grpc.unary_unary_rpc_method_handler(answer)

    async def _answer(self, method: EtcdMethod[Any, Any], request: Any, context: Any) -> EtcdAnswer | bytes:
        if method is not AUTHENTICATE and self.token not in (None, dict(context.invocation_metadata()).get("token")):
            raise Declined(grpc.StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token")
        self.asked.append(method.path.rpartition("/")[2])
        self.requests.append(request)
        if method in self.scripts:
            return await self.scripts[method](request)
        if method is STATUS:
            return msgspec.structs.replace(self.status, header=self.header)
        if method is AUTHENTICATE:
            self.logins += 1
            return AuthenticateResponse(header=self.header, token=self.token or "")
        if method is MEMBER_LIST:
            return MemberListResponse(header=self.header, members=(EtcdMember(id=1, name="m1"),))
        if method is TXN:
            self.set_revision(self.header.revision + 1)
            return TxnResponse(header=self.header, succeeded=True)
        return method.answer(header=self.header)

    async def _watch(self, requests: AsyncIterator[bytes], context: Any) -> None:
        request = decode(WatchRequest, await anext(aiter(requests)))
        assert dict(context.invocation_metadata())["hasleader"] == "true"
        self.requests.append(request)
        answers: asyncio.Queue[WatchResponse | Declined | None] = asyncio.Queue()
        self.watches.put_nowait(answers)
        while (answer := await answers.get()) is not None:
            if isinstance(answer, Declined):
                await context.abort(answer.code, answer.details)
            await context.write(encode(msgspec.structs.replace(answer, header=self.header)))


@contextlib.asynccontextmanager
async def served(*members: FakeEtcd, port: int = 0) -> AsyncIterator[tuple[str, ...]]:
    """The addresses at which they listen meanwhile: any free ones, or that of `port`."""
    server_of = {}
    for member in members:
        server_of[member] = server = grpc.aio.server()
        server.add_generic_rpc_handlers((member,))
        member.address = f"127.0.0.1:{server.add_insecure_port(f'127.0.0.1:{port}')}"
        await server.start()
    try:
        yield tuple(member.address for member in members)
    finally:
        for server in server_of.values():
            await server.stop(0)


class HastyClock(BoottimeClock):
    """Sleeps take no time, but they count."""

    def __init__(self) -> None:
        self._slept_ns = 0

    def now_ns(self) -> int:
        return super().now_ns() + self._slept_ns

    async def sleep_until(self, deadline_ns: int) -> None:
        self._slept_ns += max(0, deadline_ns - self.now_ns())
        await asyncio.sleep(0)


def client(
    addresses: tuple[str, ...], try_ms: int = 5_000, user: str | None = None, password: Path | None = None
) -> EtcdClient:
    access = StoreAccess(endpoints=addresses, user=user, password_file=password)
    return EtcdClient(access, HastyClock(), try_ns=try_ms * MILLISECOND_NS)
