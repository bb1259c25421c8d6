"""One connection to one member of ZooKeeper, which is one session too. kazoo speaks; its thread never blocks ours.

**A connection is never made again.** kazoo would send what waits over the next one, long after its caller gave up. So
what is sent goes over this connection or nowhere, and a new connection is a new object.

**A confirmation comes before a read.** A member answers reads from what it knows, which may be old, and its answer to
`sync` is as old as a leader that does not know yet that another one leads. So a read begins with a transaction of
nothing but a check: the members order it like a write, and most of them store it. Whether it holds does not matter. The
member answers after it has applied all that was ordered before. All readers that wait share one confirmation, which
begins after they came.
"""

import asyncio
import contextlib
import functools
import logging
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError, NotEmptyError, ZookeeperError
from kazoo.protocol.states import KazooState, KeeperState, ZnodeStat
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, Permissions

from leasehold.limits.units import SECOND_NS
from leasehold.limits.zookeeper import ZOOKEEPER_REQUESTS_MAX, ZOOKEEPER_SESSION_NS, ZOOKEEPER_VALUES_MAX
from leasehold.metastorage.tries import TryFailed
from leasehold.metastorage.zookeeper.failures import failure
from leasehold.metastorage.zookeeper.handler import OneConnection
from leasehold.metastorage.zookeeper.shared_run import SharedRun
from leasehold.metastorage.zookeeper.transaction import UNDONE, Check, Create, Delete, Operation, Put
from leasehold.metastorage.zookeeper.values import Found, ReadValues

_SILENT: Final = logging.Logger("kazoo", level=logging.CRITICAL + 1)
"""kazoo would write passwords to its log."""


class ZooKeeperLogin(msgspec.Struct, frozen=True):
    """A user and a password."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"ZooKeeperLogin(user={self.user!r})"


class ZooKeeperConnection:
    """Used on one event loop. Each request raises `TryFailed` if it has no answer within `timeout_ns`, and definite
    errors. All nodes are made for the user of `login` alone, or for everybody where there is none."""

    def __init__(
        self, address: str, login: ZooKeeperLogin | None, context: ssl.SSLContext | None, *, timeout_ns: int
    ) -> None:
        self.address = address
        self.is_known = False
        """Whether this is the cluster that was met before; kept by the client."""
        self._timeout_ns = timeout_ns
        self._has_login = login is not None
        self._loop = asyncio.get_running_loop()
        self._stands = asyncio.Event()
        self._ended = asyncio.Event()
        self._slots = asyncio.Semaphore(ZOOKEEPER_REQUESTS_MAX)
        self._confirming = SharedRun()
        self._answers: set[asyncio.Future[Any]] = set()
        self._watches: set[Callable[[], None]] = set()
        """What waits for kazoo, which forgets it where it can't read an answer."""
        self._handler = OneConnection(context, timeout_ns, self._thread_ended)
        self._kazoo = KazooClient(
            hosts=address,
            timeout=ZOOKEEPER_SESSION_NS / SECOND_NS,
            handler=self._handler,
            auth_data=[] if login is None else [("digest", f"{login.user}:{login.password}")],
            default_acl=OPEN_ACL_UNSAFE if login is None else CREATOR_ALL_ACL,
            connection_retry=KazooRetry(max_tries=1),
            logger=_SILENT,
        )

    @property
    def is_open(self) -> bool:
        """Whether it stands, as far as is known. So a request that is sent now may arrive."""
        is_up = self._stands.is_set() and not self._ended.is_set() and self._kazoo.connected
        return is_up and not self._handler.is_severed

    async def open(self) -> None:
        """Returns once there is a session."""
        self._kazoo.add_listener(self._heard)
        self._kazoo.start_async()
        try:
            async with asyncio.timeout(self._timeout_ns / SECOND_NS):
                await self._stands.wait()
            if not self.is_open:
                raise TryFailed(self._handler.reason, may_happen=False)
        except TimeoutError as error:
            raise TryFailed("no session in time", may_happen=False) from error
        finally:
            if not self.is_open:
                self.sever()

    # ------------------------------------------------------------ requests

    async def confirm(self, path: str) -> None:
        """Returns once a confirmation that began after this call has gone through the quorum."""
        await self._confirming.join(lambda: self._confirm(path))

    async def get(self, path: str) -> Found | None:
        return await self._ask_about(functools.partial(self._kazoo.get_async, path))

    async def values(self, paths: Sequence[str]) -> list[Found | None]:
        """As `get` for each path, in one request: at most ZOOKEEPER_VALUES_MAX of them."""
        assert 0 < len(paths) <= ZOOKEEPER_VALUES_MAX

        def send() -> Any:
            answer = self._handler.async_result()
            client: Any = self._kazoo  # kazoo offers no other way for a request that it does not know
            client._call(ReadValues(paths), answer)
            return answer

        return await self._ask(send)

    async def children(self, path: str) -> list[str] | None:
        return await self._ask_about(functools.partial(self._kazoo.get_children_async, path))

    async def stat(self, path: str, changed: Callable[[], None] | None = None) -> ZnodeStat | None:
        """`changed` is called once, when the node is made, changed or deleted, or this connection ends."""
        heard = None if changed is None else lambda _: self._call(changed)
        if changed is not None:
            self._watches.add(changed)
        return await self._ask(functools.partial(self._kazoo.exists_async, path, watch=heard))

    async def is_for_everybody(self, path: str) -> bool:
        """Whether everybody may change a node, or make others below it. Not asked without a login."""
        found = await self._ask_about(functools.partial(self._kazoo.get_acls_async, path)) if self._has_login else None
        entries = [] if found is None else found[0]
        return any(one.perms & ~Permissions.READ and one.id.scheme in {"world", "ip"} for one in entries)

    async def delete(self, path: str) -> bool:
        """Whether the node is gone; not if nodes lie below it."""
        try:
            await self._ask_about(functools.partial(self._kazoo.delete_async, path))
        except NotEmptyError:
            return False
        return True

    async def transact(self, operations: Sequence[Operation]) -> list[object]:
        """What became of each operation: all happened, or none did because of the first with an error that says more
        than that."""

        def send() -> Any:
            transaction = self._kazoo.transaction()
            for one in operations:
                match one:
                    case Check():
                        transaction.check(one.path, -1 if one.version is None else one.version)
                    case Create():
                        transaction.create(one.path, one.value)
                    case Put():
                        transaction.set_data(one.path, one.value, -1 if one.version is None else one.version)
                    case Delete():
                        transaction.delete(one.path)
            return transaction.commit_async()

        results: list[object] = await self._ask(send)
        for result in results:
            if isinstance(result, ZookeeperError) and not isinstance(result, UNDONE):
                raise failure(self.address, result)
        if len(results) != len(operations):
            raise _unreadable()
        return results

    def sever(self) -> None:
        """Ends the connection, and soon its thread; idempotent. The members forget the session by themselves."""
        self._handler.sever()

    async def close(self) -> None:
        """As `sever`, and waits for the thread, but not long."""
        self.sever()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timeout_ns / SECOND_NS):
                await self._ended.wait()

    async def _confirm(self, path: str) -> None:
        await self.transact([Check(path, None)])

    # ------------------------------------------------------------ kazoo's thread

    async def _ask_about(self, send: Callable[[], Any]) -> Any:
        """As `_ask`, but None where there is no such node."""
        try:
            return await self._ask(send)
        except NoNodeError:
            return None

    async def _ask(self, send: Callable[[], Any]) -> Any:
        """The answer to what `send` sends. Its slot is free only once kazoo has done with it."""
        is_sent = False
        try:
            async with asyncio.timeout(self._timeout_ns / SECOND_NS):
                await self._slots.acquire()
                if not self.is_open:
                    self._slots.release()
                    raise TryFailed(self._handler.reason, may_happen=False)
                answer: asyncio.Future[Any] = self._loop.create_future()
                self._answers.add(answer)
                answer.add_done_callback(self._answers.discard)
                is_sent = True
                send().rawlink(lambda result: self._call(lambda: self._answered(answer, result)))
                return await answer
        except TimeoutError as error:
            raise TryFailed("no answer in time", may_happen=is_sent) from error
        except (NoNodeError, NotEmptyError):
            raise
        except ZookeeperError as error:
            raise failure(self.address, error) from error

    def _answered(self, answer: "asyncio.Future[Any]", result: Any) -> None:
        self._slots.release()
        if answer.done():
            return
        if result.successful():
            answer.set_result(result.value)
        elif isinstance(result.exception, ZookeeperError):
            answer.set_exception(result.exception)
        else:
            answer.set_exception(_unreadable())
            self.sever()

    def _heard(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._call(self._stands.set)
        elif self._kazoo.client_state == KeeperState.AUTH_FAILED:
            self._handler.reason = "it does not take the login"

    def _thread_ended(self) -> None:
        with contextlib.suppress(OSError):
            self._kazoo.close()

        def tell() -> None:
            self._ended.set()
            self._stands.set()
            for answer in tuple(self._answers):  # after an answer that it does not know, kazoo tells nobody else
                if not answer.done():
                    answer.set_exception(TryFailed(self._handler.reason, may_happen=True))
            for changed in self._watches:
                changed()

        self._call(tell)

    def _call(self, callback: Callable[[], None]) -> None:
        """Calls back on the event loop, unless that has ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)


def _unreadable() -> TryFailed:
    return TryFailed("its answer can't be read", may_happen=True)
