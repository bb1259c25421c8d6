"""The way from a client to its coordinators: proofs before secrets, and logins that are given back.

With a `CoordinatorCheck`, a coordinator has to prove itself before it is sent a password, a login or the text of a
statement, which may hold a password. Another process may take the port later, so it has to prove itself again for each
password, after each request without an answer, and COORDINATOR_PROOF_NS after the last proof.

Closing gives a login back that was made here, unless others work on with its token. A process that was handed the token
alone, such as a Spark worker, gives nothing back.
"""

import os
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import closing, contextmanager, suppress

from leasehold.client.coordinator_check import CoordinatorCheck
from leasehold.client.credentials import Credentials
from leasehold.client.threads import THREADS
from leasehold.core.data.coordinator_calls import LoginCalls
from leasehold.core.words.messages import ClientRequest, Execute, Login, LogOut, Message
from leasehold.errors import Indefinite, LeaseholdError
from leasehold.ids import LoginToken
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.people import COORDINATOR_PROOF_NS, LOG_OUT_TIMEOUT_NS
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.steps import run


class LoginConnection:
    """The port `core.data.coordinator_calls.CoordinatorCalls`, from any thread, and the login of one client over it.

    `checks` has a check for each coordinator that has to prove itself.
    """

    def __init__(
        self,
        coordinators: Mapping[str, BlockingConnection],
        credentials: Credentials,
        token: LoginToken | None = None,
        *,
        checks: Mapping[str, CoordinatorCheck],
    ) -> None:
        self._coordinators = coordinators
        self._checks = checks
        self._proven_until_ns = dict.fromkeys(checks, 0)
        self.calls = LoginCalls(self, THREADS, credentials.complete, token=token, on_login=self._logged_in)
        """What asks with the login."""
        self._own: tuple[str, LoginToken, int] | None = None
        """The token that was made here and is for nobody else, with the coordinator and the process that made it."""

    async def call(self, address: str, request: Message, timeout_ns: int) -> Message:
        """As `BlockingConnection.call`; raises `Refused` (COORDINATOR_UNPROVEN) before a secret is sent."""
        with self._proven(address, request, timeout_ns):
            return self._coordinators[address].call(request, timeout_ns)

    async def stream(self, address: str, request: Message, timeout_ns: int) -> AsyncGenerator[Message, None]:
        """As `BlockingConnection.stream`, and `call`."""
        with (
            self._proven(address, request, timeout_ns),
            closing(self._coordinators[address].stream(request, timeout_ns)) as messages,
        ):
            for message in messages:
                yield message

    @contextmanager
    def _proven(self, address: str, request: Message, timeout_ns: int) -> Generator[None]:
        """Inside, `request` may be sent."""
        if address in self._checks and _is_secret(request):
            asked_ns = THREADS.now_ns()
            if isinstance(request, Login | LogOut) or asked_ns >= self._proven_until_ns[address]:
                self._checks[address].ask(self._coordinators[address], min(CALL_TIMEOUT_NS, timeout_ns))
                self._proven_until_ns[address] = asked_ns + COORDINATOR_PROOF_NS
        try:
            yield
        except Indefinite:
            self._proven_until_ns[address] = 0
            raise

    def _logged_in(self, address: str, token: LoginToken) -> None:
        self._own = (address, token, os.getpid())

    def hand_on(self) -> LoginToken | None:
        """The token, for whoever works on once this is closed: the login is not given back."""
        self._own = None
        return self.calls.token

    def close(self) -> None:
        """Gives the login back if it was made here; asks once, for LOG_OUT_TIMEOUT_NS at most. Idempotent."""
        # Whoever is logging in this moment is cut off.
        own, self._own = self._own, None
        try:
            if own is not None and own[2] == os.getpid():  # a child of this process ends nothing that is not its own
                address, token, _ = own
                with suppress(LeaseholdError):
                    run(self.call(address, LogOut(cluster_id=None, token=token), LOG_OUT_TIMEOUT_NS))
        finally:
            for one in self._coordinators.values():
                one.close()


def _is_secret(request: Message) -> bool:
    if isinstance(request, Login | LogOut | Execute):
        return True
    return isinstance(request, ClientRequest) and request.login is not None
