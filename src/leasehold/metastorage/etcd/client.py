"""Requests to a cluster of etcd, by way of any of its members.

Members are asked in turn (`metastorage.tries`), each for at most `STORE_TRY_NS`.

**A write is sent again only if it surely did not happen.** A member may apply a request long after the client gave up.
So a write is sent only over a connection over which the member has answered a question about itself (`_meet`). Where
there is none, the write goes elsewhere. Once it was sent, only an answer which proves that it was not proposed leads to
another try (`statuses`).

**An answer is never older than one before** (`seen_revision`). The header of each answer has the revision of the
member. A cluster that was set back answers with an older one, and so can members of some releases (`releases`). At such
a member a deletion of nothing comes before each read.

**All endpoints belong to one cluster.** Another cluster id than that of the first answer is `OtherStore`.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import grpc

from leasehold.ids import NODE_ADDRESS
from leasehold.limits.etcd import ETCD_LOGIN_NS, ETCD_LOGIN_PAUSE_NS, ETCD_URLS_MAX
from leasehold.limits.log import STORE_TRY_NS
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.access import StoreAccess, file_content
from leasehold.metastorage.etcd.endpoint import EtcdEndpoint, RefusedLogin
from leasehold.metastorage.etcd.messages import (
    AUTHENTICATE,
    DELETE_RANGE,
    MEMBER_LIST,
    RANGE,
    STATUS,
    A,
    AuthenticateRequest,
    DeleteRangeRequest,
    EtcdMember,
    EtcdMessage,
    EtcdMethod,
    RangeRequest,
    ResponseHeader,
    StatusResponse,
    WatchCreateRequest,
    WatchRequest,
)
from leasehold.metastorage.etcd.protobuf import M
from leasehold.metastorage.etcd.releases import can_read_stale, check_release
from leasehold.metastorage.etcd.statuses import TokenRefused
from leasehold.metastorage.log.store import OtherStore, StoreDenied, StoreUnsuitable
from leasehold.metastorage.seen_revision import SeenRevision
from leasehold.metastorage.tries import DECLINES, Decline, MemberTurns, TryFailed
from leasehold.wire.ports import Clock


class EtcdClient:
    """One client of one cluster, which waits `try_ns` for an answer of one member. Used on one event loop."""

    def __init__(self, access: StoreAccess, clock: Clock, *, try_ns: int = STORE_TRY_NS) -> None:
        assert access.endpoints
        self.seen = SeenRevision()
        self._access = access
        self._clock = clock
        self._try_ns = try_ns
        self._credentials = _credentials(access)
        self._turns = MemberTurns(
            "etcd", [EtcdEndpoint(address, self._credentials) for address in access.endpoints], clock
        )
        self._cluster: tuple[int, str] | None = None
        """The cluster id, and the address that told it first."""
        self._token = ""
        self._login = asyncio.Lock()

    @property
    def asks_first(self) -> str:
        """The address of the member that gets the next request."""
        return self._turns.first.address

    async def read(self, method: EtcdMethod[M, A], request: M) -> A:
        """Asks until one member answers: only for what may happen twice. Raises `Unreachable` and definite errors."""
        return await self._request(method, request, may_repeat=True)

    async def write(self, method: EtcdMethod[M, A], request: M) -> A:
        """As `read`, but raises `Indefinite` as soon as it is not known whether the request happened. It surely did not
        after `Unreachable`."""
        return await self._request(method, request, may_repeat=False)

    async def follow(self, key: bytes) -> AsyncGenerator[None, None]:
        """Yields at the beginning, then after each change of `key`, until a fault ends it: `TryFailed`, or any error of
        `read`."""
        found = await self.read(RANGE, RangeRequest(key=key, keys_only=True))
        endpoint = self._turns.first
        create = WatchCreateRequest(key=key, start_revision=found.header.revision + 1, fragment=True)
        request = WatchRequest(create_request=create)
        try:
            async with aclosing(endpoint.watch(request, token=self._token, timeout_ns=self._try_ns)) as answers:
                yield
                async for answer in answers:
                    self._check_cluster(endpoint.address, answer.header)
                    if answer.canceled:
                        raise TryFailed(f"etcd ended the watch: {answer.cancel_reason}", may_happen=True)
                    if answer.events and not answer.fragment:
                        yield
        except TryFailed:
            self._turns.ask_last(endpoint)
            raise
        except TokenRefused as refused:  # the read before the next watch logs in
            raise TryFailed(f"it refused the token: {refused.reason}", may_happen=False) from refused

    async def statuses(self) -> list[StatusResponse]:
        """What each member at an endpoint tells. Raises as `read` if none does."""
        return list((await self._turns.ask_each(self._look))[0].values())

    async def members(self) -> tuple[list[tuple[EtcdMember, str, StatusResponse]], dict[str, Decline]]:
        """All members that answer, at an endpoint or else where the cluster says that they listen; without learners.
        And why other ones are passed over, by their addresses."""
        told, declines = await self._turns.ask_each(self._look)
        at_endpoints = {status.header.member_id: (address, status) for address, status in told.items()}
        listed = await self.read(MEMBER_LIST, EtcdMessage())
        found: list[tuple[EtcdMember, str, StatusResponse]] = []
        for member in listed.members:
            answer = at_endpoints.get(member.id) or await self._elsewhere(member)
            if answer is None or member.is_learner:
                continue
            address, status = answer
            try:
                check_release(address, status.version)
            except StoreUnsuitable as decline:
                declines[address] = decline
            else:
                found.append((member, address, status))
        return found, declines

    def stand_by(self) -> None:
        """As `LogStore.stand_by`."""
        self._turns.stand_by()

    def watch(self, key: bytes) -> AsyncGenerator[None, None]:
        """As `follow`, but hides every fault, until the client is closed."""
        return self._turns.watch(lambda: self.follow(key))

    async def close(self) -> None:
        """Ends all connections; idempotent."""
        self._turns.close()
        for endpoint in self._turns.all:
            await endpoint.close()

    # ------------------------------------------------------------ requests

    async def _request(self, method: EtcdMethod[M, A], request: M, *, may_repeat: bool) -> A:
        return await self._turns.ask(lambda one: self._try(one, method, request), may_repeat=may_repeat)

    async def _try(self, endpoint: EtcdEndpoint, method: EtcdMethod[M, A], request: M) -> A:
        release = await self._meet(endpoint)
        if isinstance(request, RangeRequest) and can_read_stale(release):
            await self._delete_nothing(endpoint, request)
        asked_at = self.seen.newest
        answer = await self._ask(endpoint, method, request)
        self._check_cluster(endpoint.address, answer.header)
        self.seen.take(answer.header.revision, asked_at=asked_at)
        return answer

    async def _delete_nothing(self, endpoint: EtcdEndpoint, request: RangeRequest) -> None:
        """Sees the revision of the newest write. No key of ours ends with a zero."""
        nothing = DeleteRangeRequest(key=request.key + b"\0")
        try:
            answer = await self._ask(endpoint, DELETE_RANGE, nothing)
        except TryFailed as failed:
            raise TryFailed(failed.reason, may_happen=False) from failed
        self._check_cluster(endpoint.address, answer.header)
        self.seen.take(answer.header.revision, asked_at=0)

    async def _meet(self, endpoint: EtcdEndpoint) -> str:
        """The release of a member which may be asked, once it has answered over the connection that stands."""
        if endpoint.status is None or not endpoint.is_connected:
            endpoint.status = None
            endpoint.status = await self._look(endpoint)
        if endpoint.status.is_learner:
            raise TryFailed("it is a learner", may_happen=False)
        return endpoint.status.version

    async def _look(self, endpoint: EtcdEndpoint) -> StatusResponse:
        try:
            status = await self._ask(endpoint, STATUS, EtcdMessage())
        except TryFailed as failed:
            raise TryFailed(failed.reason, may_happen=False) from failed
        check_release(endpoint.address, status.version)
        self._check_cluster(endpoint.address, status.header)
        return status

    async def _ask(self, endpoint: EtcdEndpoint, method: EtcdMethod[M, A], request: M) -> A:
        """One try; with a new token, once, where the one it had was refused."""
        token = self._token
        try:
            return await endpoint.call(method, request, token=token, timeout_ns=self._try_ns)
        except TokenRefused as refused:
            if self._access.user is None:
                hint = "set meta_user and meta_password_file"
                raise StoreDenied(f"etcd at {endpoint.address} wants a user and a password", hint=hint) from refused
        try:
            await self._renew(endpoint, token)
            return await endpoint.call(method, request, token=self._token, timeout_ns=self._try_ns)
        except TokenRefused as refused:
            raise TryFailed(f"it refused a new token: {refused.reason}", may_happen=False) from refused

    async def _renew(self, endpoint: EtcdEndpoint, refused: str) -> None:
        """Logs in, unless another request has done it meanwhile."""
        try:
            async with asyncio.timeout(ETCD_LOGIN_NS / SECOND_NS), self._login:
                if self._token != refused:
                    return
                password = self._access.password()
                endpoint.check_refusal(password, self._clock.now_ns())
                request = AuthenticateRequest(name=self._access.user or "", password=password)
                try:
                    answer = await endpoint.call(AUTHENTICATE, request, timeout_ns=ETCD_LOGIN_NS)
                except StoreDenied as denied:
                    endpoint.refusal = RefusedLogin(password, self._clock.now_ns() + ETCD_LOGIN_PAUSE_NS, denied)
                    raise
                self._check_cluster(endpoint.address, answer.header)
                if not (answer.token.isascii() and answer.token.isprintable()):
                    raise TryFailed("its token can't be read", may_happen=False)
                self._token = answer.token
        except TryFailed as failed:
            raise TryFailed(f"no login: {failed.reason}", may_happen=False) from failed
        except TimeoutError as error:
            raise TryFailed("no login in time", may_happen=False) from error

    async def _elsewhere(self, member: EtcdMember) -> tuple[str, StatusResponse] | None:
        """What a member tells at an address that is not among the endpoints."""
        for url in member.client_urls[:ETCD_URLS_MAX]:
            address = url.partition("://")[2]
            if NODE_ADDRESS.fullmatch(address) is None:
                continue
            endpoint = EtcdEndpoint(address, self._credentials)
            try:
                status = await self._ask(endpoint, STATUS, EtcdMessage())
            except (TryFailed, *DECLINES):
                continue
            finally:
                await endpoint.close()
            if status.header.member_id == member.id:
                return address, status
        return None

    def _check_cluster(self, address: str, header: ResponseHeader) -> None:
        known, first = self._cluster = self._cluster or (header.cluster_id, address)
        if header.cluster_id != known:
            text = f"etcd at {address} belongs to another cluster than etcd at {first} did"
            raise OtherStore(text, hint="name endpoints of one cluster of etcd only")


def _credentials(access: StoreAccess) -> grpc.ChannelCredentials | None:
    if access.ca_file is None:
        return None
    files = (access.key_file, access.certificate_file)
    key, certificate = (None if path is None else file_content(path) for path in files)
    return grpc.ssl_channel_credentials(file_content(access.ca_file), key, certificate)
