"""Requests to a cluster of ZooKeeper, by way of any of its members.

Members are asked in turn (`metastorage.tries`), each for at most `STORE_TRY_NS` and request. Each member has a
connection of its own: kazoo, which can have several addresses for one, leaves a member that hangs only after seconds.

**A write is sent again only if it surely did not happen.** A member may apply a request long after the client gave up.
So a write is sent only over a connection that stands. Where there is none, the write goes elsewhere. Once it was sent,
only an answer leads to another try.

**A read begins with a confirmation** by most members (`connection`), and all of it goes to one member.

**All endpoints belong to one cluster.** ZooKeeper tells no id of a cluster. So the node of the store stands for it, by
when it was made. Before the first request over a connection, that is compared with what was seen before.

**The node of the store is the user's own**, if there is a user. Whoever may make nodes below it could make the one
above a key first, and then delete the key.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from kazoo.protocol.states import ZnodeStat

from leasehold.errors import BadSettings
from leasehold.limits.log import STORE_TRY_NS
from leasehold.metastorage.access import StoreAccess
from leasehold.metastorage.log.store import OtherStore, StoreDenied, StoreUnsuitable
from leasehold.metastorage.tries import Decline, MemberTurns, TryFailed
from leasehold.metastorage.zookeeper.connection import ZooKeeperConnection, ZooKeeperLogin
from leasehold.metastorage.zookeeper.releases import check_release
from leasehold.metastorage.zookeeper.shared_run import SharedRun
from leasehold.metastorage.zookeeper.status import ZooKeeperStatus, ask_status
from leasehold.wire.ports import Clock

A = TypeVar("A")


class _Endpoint:
    """One address, at which one member listens."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.connection: ZooKeeperConnection | None = None
        self.connecting = SharedRun()


class ZooKeeperClient:
    """One client of one cluster, for the store below the node `root`. Used on one event loop."""

    def __init__(self, access: StoreAccess, root: str, clock: Clock, *, try_ns: int = STORE_TRY_NS) -> None:
        assert access.endpoints
        self._access = access
        self._root = root
        self._try_ns = try_ns
        self._context = _context(access)
        self._turns = MemberTurns("ZooKeeper", [_Endpoint(address) for address in access.endpoints], clock)
        self._cluster: tuple[str, tuple[int, int]] | None = None
        """The address that told of the root first; the transaction and the time that made it."""

    @property
    def asks_first(self) -> str:
        """The address of the member that gets the next request."""
        return self._turns.first.address

    async def read(self, action: Callable[[ZooKeeperConnection], Awaitable[A]]) -> A:
        """What `action` reads, after a confirmation; it may be called again. Raises `Unreachable` and definite
        errors."""
        return await self._turns.ask(lambda one: self._try(one, action, confirmed=True), may_repeat=True)

    async def write(self, action: Callable[[ZooKeeperConnection], Awaitable[A]]) -> A:
        """What `action` does. Raises `Indefinite` as soon as it is not known whether that happened. It surely did not
        after `Unreachable`."""
        return await self._turns.ask(lambda one: self._try(one, action, confirmed=False), may_repeat=False)

    async def follow(self, path: str) -> AsyncGenerator[None, None]:
        """Yields at the beginning, then after each change of the node, until a fault ends it."""
        changed = asyncio.Event()

        async def begin(connection: ZooKeeperConnection) -> ZooKeeperConnection:
            await connection.stat(path, changed.set)
            return connection

        connection = await self._turns.ask(lambda one: self._try(one, begin, confirmed=False), may_repeat=True)
        while True:
            yield
            await changed.wait()  # also when the connection ends
            changed.clear()
            await connection.stat(path, changed.set)

    def watch(self, path: str) -> AsyncGenerator[None, None]:
        """As `follow`, but hides every fault, until the client is closed."""
        return self._turns.watch(lambda: self.follow(path))

    async def members(self) -> tuple[dict[str, ZooKeeperStatus], dict[str, Decline]]:
        """What each member that answers tells, and why others are passed over, by their addresses. Raises as `read` if
        none answers."""
        found = await self._turns.ask_each(self._look)
        connections = [one.connection for one in self._turns.all]
        if self._cluster is not None and any(one is not None and not one.is_known for one in connections):
            # One without the root was perhaps asked before another one told of it.
            found = await self._turns.ask_each(self._look)
        return found

    def stand_by(self) -> None:
        """As `LogStore.stand_by`."""
        self._turns.stand_by()

    async def close(self) -> None:
        """Ends all connections; idempotent."""
        self._turns.close()
        connections = [one.connection for one in self._turns.all if one.connection is not None]
        await asyncio.gather(*(one.close() for one in connections))

    # ------------------------------------------------------------ one member

    async def _try(
        self, endpoint: _Endpoint, action: Callable[[ZooKeeperConnection], Awaitable[A]], *, confirmed: bool
    ) -> A:
        try:
            return await self._connected(endpoint, action, confirmed=confirmed)
        except StoreDenied:
            if endpoint.connection is not None:
                endpoint.connection.sever()  # the next one logs in with the password as it is then
            raise

    async def _connected(
        self, endpoint: _Endpoint, action: Callable[[ZooKeeperConnection], Awaitable[A]], *, confirmed: bool
    ) -> A:
        try:
            await endpoint.connecting.join(lambda: self._connect(endpoint))
            connection = endpoint.connection
            assert connection is not None
            met = self._cluster
            if confirmed or not connection.is_known:
                await connection.confirm(self._root)
            if not connection.is_known:
                root = await connection.stat(self._root)
                if await connection.is_for_everybody(self._root):
                    raise self._open_to_everybody()
                connection.is_known = self._is_known(endpoint.address, root, met)
        except TryFailed as failed:
            raise TryFailed(failed.reason, may_happen=False) from failed
        return await action(connection)

    async def _connect(self, endpoint: _Endpoint) -> None:
        """Returns once a connection stands to a member which may be asked."""
        if endpoint.connection is not None and endpoint.connection.is_open:
            return
        if endpoint.connection is not None:
            endpoint.connection.sever()
        status = await ask_status(endpoint.address, self._context, timeout_ns=self._try_ns)
        check_release(endpoint.address, status.version)
        login = None if self._access.user is None else ZooKeeperLogin(self._access.user, self._access.password())
        connection = ZooKeeperConnection(endpoint.address, login, self._context, timeout_ns=self._try_ns)
        self._turns.check_open()
        endpoint.connection = connection
        await connection.open()

    async def _look(self, endpoint: _Endpoint) -> ZooKeeperStatus:
        """What a member tells that may be asked."""

        async def is_asked(_: ZooKeeperConnection) -> None:
            """It may be."""

        await self._try(endpoint, is_asked, confirmed=False)
        return await ask_status(endpoint.address, self._context, timeout_ns=self._try_ns)

    def _is_known(self, address: str, root: ZnodeStat | None, met: tuple[str, tuple[int, int]] | None) -> bool:
        """Whether the root shows that the member belongs to the cluster that was `met` before it was asked; nobody
        knows while it has not been made. Another member may have shown it meanwhile."""
        if root is None and met is None:
            return False
        told = (0, 0) if root is None else (root.czxid, root.ctime)
        first, known = self._cluster = self._cluster or (address, told)
        if told != known:
            text = f"ZooKeeper at {address} belongs to another cluster than ZooKeeper at {first} did"
            raise OtherStore(text, hint="name endpoints of one cluster of ZooKeeper only")
        return True

    def _open_to_everybody(self) -> StoreUnsuitable:
        text = f"everybody may change the node {self._root} of ZooKeeper, although meta_user is set"
        hint = "choose another name for this cluster in meta, or delete the node with all below it if nothing needs it"
        return StoreUnsuitable(text, hint=hint)


def _context(access: StoreAccess) -> ssl.SSLContext | None:
    if access.ca_file is None:
        return None
    try:
        context = ssl.create_default_context(cafile=access.ca_file)
        if access.certificate_file is not None:
            context.load_cert_chain(access.certificate_file, access.key_file)
    except OSError as error:  # an SSLError is one
        text = f"the certificates for ZooKeeper can't be read: {error.strerror or error}"
        raise BadSettings(text, hint="check meta_ca, meta_cert and meta_key") from error
    return context
