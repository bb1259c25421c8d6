"""A simulated client's calls to the coordinators: the port of `core/data/coordinator_calls.py`, and who logs in."""

import itertools
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from leasehold.core.data.coordinator_calls import LoginCalls
from leasehold.core.data.coordinator_client import CoordinatorClient
from leasehold.core.data.runtime import Runtime
from leasehold.core.words.messages import Login, Message
from leasehold.ids import LoginToken
from leasehold.limits.units import SECOND_NS
from leasehold.testing.rows import closing
from leasehold.wire.ports import Transport

CALL_NS: Final = 3 * SECOND_NS
"""The longest call: shorter than CALL_TIMEOUT_NS, since the simulated network loses unary messages, which TCP does
not."""
STREAM_NS: Final = 6 * SECOND_NS
"""The longest stream: so a client that has little patience leaves a statement that waits."""


class Account:
    """A user who has one of some passwords, and does not know which: each login tries the next of them."""

    def __init__(self, user: str, passwords: Sequence[str]) -> None:
        self._user = user
        self._passwords = itertools.cycle(passwords)

    def complete(self) -> Login:
        """The user, with the password to try."""
        return Login(cluster_id=None, user=self._user, password=next(self._passwords))


class SimulatedCoordinators:
    """The port `core.data.coordinator_calls.CoordinatorCalls`, over the simulated network."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def call(self, address: str, request: Message, timeout_ns: int) -> Message:
        connection = self._transport.connect(address)
        try:
            return await connection.call(request, timeout_ns=min(timeout_ns, CALL_NS))
        finally:
            await connection.close()

    async def stream(self, address: str, request: Message, timeout_ns: int) -> AsyncGenerator[Message, None]:
        connection = self._transport.connect(address)
        try:
            async with closing(connection.stream(request, timeout_ns=min(timeout_ns, STREAM_NS))) as messages:
                async for message in messages:
                    yield message
        finally:
            await connection.close()


def coordinator_client(
    transport: Transport,
    addresses: Sequence[str],
    runtime: Runtime,
    account: Account | None = None,
    *,
    token: LoginToken | None = None,
    learns: bool = False,
) -> CoordinatorClient:
    """A client which asks as the user of `account`, or with a `token`; with neither it never says who it is."""
    credentials = (lambda: None) if account is None else account.complete
    calls = LoginCalls(SimulatedCoordinators(transport), runtime, credentials, token=token)
    return CoordinatorClient(calls, addresses, runtime, learns=learns)
