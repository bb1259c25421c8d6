"""The connections of a client to coordinators: it asks for a proof before it sends a secret, and logs out at the end.

With a `CoordinatorCheck`, a coordinator has to prove itself before it is sent a password, a token, a login or the text
of a statement, which may hold a password. Another process may take the port later, so it has to prove itself again for
each password or token, after each request without an answer, and COORDINATOR_PROOF_NS after the last proof.

`close` ends a login that was made here. A process that only got a token, such as a Spark worker, does not log out.
"""

import os
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import closing, contextmanager, suppress

from leasehold.client.coordinator_check import CoordinatorCheck
from leasehold.client.credentials import Credentials
from leasehold.client.threads import THREADS
from leasehold.client.trust import TLS_VARIABLE
from leasehold.core.data.coordinator_calls import LoginCalls
from leasehold.core.words.messages import AnyLogin, ClientRequest, Execute, LogOut, Message, RenewLogins
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, Indefinite, LeaseholdError, Unreachable
from leasehold.ids import LoginToken
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.people import COORDINATOR_PROOF_NS, LOG_OUT_TIMEOUT_NS
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.steps import run


class _ProvenConnection:
    """A connection to one coordinator; for any thread."""

    def __init__(self, connection: BlockingConnection, check: CoordinatorCheck | None) -> None:
        self.connection = connection
        self._check = check
        self._proven_until_ns = 0

    @contextmanager
    def proven(self, request: Message, timeout_ns: int) -> Generator[BlockingConnection]:
        """Inside the block, `request` may be sent. Raises `Refused` (COORDINATOR_UNPROVEN), and `BadSettings`
        (NOT_ENCRYPTED), before that."""
        is_secret = _is_secret(request)
        if is_secret and not self.connection.is_private:
            raise BadSettings(
                f"nothing secret is sent to {self.connection.address}: without TLS it leaves this machine in the clear",
                code=ErrorCode.NOT_ENCRYPTED,
                hint=f"set {TLS_VARIABLE} to a bundle, or to the ca.pem of the cluster's authority",
            )
        if self._check is not None and is_secret:
            asked_ns = THREADS.now_ns()
            if isinstance(request, AnyLogin | RenewLogins | LogOut) or asked_ns >= self._proven_until_ns:
                try:
                    self._check(self.connection, min(CALL_TIMEOUT_NS, timeout_ns))
                except Unreachable as error:
                    error.was_sent = False
                    raise
                self._proven_until_ns = asked_ns + COORDINATOR_PROOF_NS
        try:
            yield self.connection
        except Indefinite:
            self._proven_until_ns = 0
            raise


class LoginConnection:
    """The port `core.data.coordinator_calls.CoordinatorCalls` to the coordinators of a cluster, and a login; for any
    thread. `connect` makes the connection to an address, and `check_of` the check of the coordinator there."""

    def __init__(
        self,
        connect: Callable[[str], BlockingConnection],
        credentials: Credentials,
        token: LoginToken | None,
        check_of: Callable[[str], CoordinatorCheck | None],
    ) -> None:
        self._connect = connect
        self._check_of = check_of
        self._connections: dict[str, _ProvenConnection] = {}
        self._is_closed = False
        self.calls = LoginCalls(self, THREADS, credentials.complete, token=token, on_login=self._logged_in)
        self._own: tuple[str, LoginToken, int] | None = None
        """The login that was made here: the coordinator, its token, and the process."""

    def _to(self, address: str) -> _ProvenConnection:
        found = self._connections.get(address)
        if found is None:
            made = _ProvenConnection(self._connect(address), self._check_of(address))
            found = self._connections.setdefault(address, made)  # another thread may have made one meanwhile
            if self._is_closed:
                found.connection.close()
        return found

    async def call(self, address: str, request: Message, timeout_ns: int) -> Message:
        """As `BlockingConnection.call`; raises `Refused` (COORDINATOR_UNPROVEN) before a secret is sent."""
        with self._to(address).proven(request, timeout_ns) as connection:
            return connection.call(request, timeout_ns)

    async def stream(self, address: str, request: Message, timeout_ns: int) -> AsyncGenerator[Message, None]:
        """As `BlockingConnection.stream`, and `call`."""
        with (
            self._to(address).proven(request, timeout_ns) as connection,
            closing(connection.stream(request, timeout_ns)) as messages,
        ):
            for message in messages:
                yield message

    def _logged_in(self, address: str, token: LoginToken) -> None:
        self._own = (address, token, os.getpid())

    def close(self) -> None:
        """Logs out if the login was made here; asks once, for LOG_OUT_TIMEOUT_NS at most. Idempotent."""
        # A thread that logs in at this moment is cut off.
        own, self._own = self._own, None
        try:
            if own is not None and own[2] == os.getpid():  # a forked child keeps its parent's login
                address, token, _ = own
                with suppress(LeaseholdError):
                    run(self.call(address, LogOut(cluster_id=None, token=token), LOG_OUT_TIMEOUT_NS))
        finally:
            self._is_closed = True
            for one in tuple(self._connections.values()):
                one.connection.close()


def _is_secret(request: Message) -> bool:
    if isinstance(request, AnyLogin | RenewLogins | LogOut | Execute):
        return True
    return isinstance(request, ClientRequest) and request.login is not None
