"""Saying who one is: requests carry the token of a login, which is made once it turns out to be needed.

Where nobody has to say who he is, nothing is sent. A login that has ended (another password, a day's age) is made
again where the password is known; a process that was handed the token alone, such as a Spark worker, is told. Closing
gives the login back, unless others work on with its token.

With a `CoordinatorCheck`, the coordinator has to prove itself before it is sent a password, a login or the text of a
statement, which may hold a password. Another process may take the port later, so it has to prove itself again for each
password, after each request without an answer, and COORDINATOR_PROOF_NS after the last proof.
"""

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from leasehold.client.coordinator_check import CoordinatorCheck
from leasehold.client.credentials import Credentials
from leasehold.core.words.messages import ClientRequest, Execute, LoggedIn, Login, LogOut, Message
from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, LeaseholdError, Refused, Unauthenticated
from leasehold.ids import LoginToken
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.people import COORDINATOR_PROOF_NS, LOG_OUT_TIMEOUT_NS
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.clock import BoottimeClock

M = TypeVar("M", bound=Message)

_now_ns = BoottimeClock().now_ns


class LoginConnection:
    """A `BlockingConnection` whose requests say who asks; from any thread."""

    def __init__(
        self,
        connection: BlockingConnection,
        credentials: Credentials,
        token: LoginToken | None = None,
        *,
        check: CoordinatorCheck | None = None,
    ) -> None:
        self._connection = connection
        self._check = check
        self._proven_until_ns = 0
        self._credentials = credentials
        self._lock = threading.Lock()
        self.token = token
        """Of the last login, None before the first."""
        self._own: tuple[LoginToken, int] | None = None
        """The token that was made here and is for nobody else, and the process that made it."""

    def call(self, request: Message, timeout_ns: int) -> Message:
        """As `BlockingConnection.call`; raises `Unauthenticated` too."""
        token = self.token
        try:
            return self._send(request, token, timeout_ns)
        except Unauthenticated as error:
            self._log_in(token, error, timeout_ns)
        return self._send(request, self.token, timeout_ns)

    def stream(self, request: Message, timeout_ns: int) -> Iterator[Message]:
        """As `BlockingConnection.stream`; raises `Unauthenticated` too."""
        token = self.token
        try:
            # Nothing has been answered where it is raised: who asks is decided first.
            yield from self._send_stream(request, token, timeout_ns)
        except Unauthenticated as error:
            self._log_in(token, error, timeout_ns)
        else:
            return
        yield from self._send_stream(request, self.token, timeout_ns)

    def _send(self, request: Message, token: LoginToken | None, timeout_ns: int) -> Message:
        self._prove_before(request, token, timeout_ns)
        try:
            return self._connection.call(_signed(request, token), timeout_ns)
        except Indefinite:
            self._proven_until_ns = 0
            raise

    def _send_stream(self, request: Message, token: LoginToken | None, timeout_ns: int) -> Iterator[Message]:
        self._prove_before(request, token, timeout_ns)
        try:
            yield from self._connection.stream(_signed(request, token), timeout_ns)
        except Indefinite:
            self._proven_until_ns = 0
            raise

    def _prove_before(self, request: Message, token: LoginToken | None, timeout_ns: int) -> None:
        if self._check is None or (token is None and not isinstance(request, Execute)):
            return
        if _now_ns() >= self._proven_until_ns:
            self._prove(timeout_ns)

    def _prove(self, timeout_ns: int) -> None:
        """Raises `Refused` (COORDINATOR_UNPROVEN) before anything secret is sent."""
        if self._check is not None:
            asked_ns = _now_ns()
            self._check.ask(self._connection, min(CALL_TIMEOUT_NS, timeout_ns))
            self._proven_until_ns = asked_ns + COORDINATOR_PROOF_NS

    def hand_on(self) -> LoginToken | None:
        """The token, for whoever works on once this is closed: the login is not given back."""
        self._own = None
        return self.token

    def close(self) -> None:
        """Gives the login back if it was made here; asks once, for LOG_OUT_TIMEOUT_NS at most. Idempotent."""
        # Without the lock: whoever is logging in this moment is cut off.
        own, self._own = self._own, None
        try:
            if own is not None and own[1] == os.getpid():  # a child of this process ends nothing that is not its own
                with contextlib.suppress(LeaseholdError):
                    if self._check is not None:
                        self._check.ask(self._connection, LOG_OUT_TIMEOUT_NS)
                    self._connection.call(LogOut(cluster_id=None, token=own[0]), LOG_OUT_TIMEOUT_NS)
        finally:
            self._connection.close()

    def _log_in(self, refused: LoginToken | None, error: Unauthenticated, timeout_ns: int) -> None:
        """Makes another login than the one that was refused; raises `error` where nobody is named."""
        with self._lock:
            if self.token != refused:
                return  # another thread has just done it
            known = self._credentials.complete() if error.code == Unauthenticated.default_code else None
            if known is None:
                raise error
            user, password = known
            self._prove(timeout_ns)
            login = Login(cluster_id=None, user=user, password=password)
            answer = self._send(login, None, min(CALL_TIMEOUT_NS, timeout_ns))
            if not isinstance(answer, LoggedIn):
                raise Refused(f"answered with {type(answer).__name__}", code=ErrorCode.BAD_MESSAGE, hint="upgrade")
            self.token = answer.token
            self._own = (answer.token, os.getpid())


def _signed(request: M, token: LoginToken | None) -> M:
    return msgspec.structs.replace(request, login=token) if isinstance(request, ClientRequest) else request
