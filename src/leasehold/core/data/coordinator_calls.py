"""Calls to coordinators: the port that carries them, and the login that they show.

A login is made once a coordinator asks for one, and again when it has ended, if the client knows how. A coordinator
that is BUSY with others' passwords is asked again.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Protocol, TypeAlias, TypeVar

import msgspec

from leasehold.core.data.runtime import Runtime
from leasehold.core.words.messages import AnyLogin, ClientRequest, LoggedIn, Message
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused, Unauthenticated, unexpected_answer
from leasehold.ids import LoginToken
from leasehold.limits.clients import CALL_TIMEOUT_NS, LOGIN_PAUSE_NS

M = TypeVar("M", bound=Message)


class CoordinatorCalls(Protocol):
    """Carries requests to coordinators, each to one address and once."""

    async def call(self, address: str, request: Message, timeout_ns: int) -> Message:
        """One question, one answer. Raises `Unreachable` (indefinite) where none came within `timeout_ns`, and the
        error that a `Failure` describes."""
        ...

    def stream(self, address: str, request: Message, timeout_ns: int) -> AsyncGenerator[Message, None]:
        """One question, several answers; `timeout_ns` bounds all of them together. Errors as of `call`."""
        ...


Credentials: TypeAlias = Callable[[], AnyLogin | None]
"""The request to log in with, if any."""


class LoginCalls:
    """The calls of one client, with its login; several steps at once may use it.

    `token` is of a login that was made elsewhere. `on_login` gets each new login and the coordinator that made it.
    """

    def __init__(
        self,
        calls: CoordinatorCalls,
        runtime: Runtime,
        credentials: Credentials,
        *,
        token: LoginToken | None = None,
        on_login: Callable[[str, LoginToken], None] = lambda *_: None,
    ) -> None:
        self._calls = calls
        self._runtime = runtime
        self._credentials = credentials
        self._on_login = on_login
        self._lock = runtime.condition()
        self._is_logging_in = False
        self.token = token
        """Of the last login; a secret."""

    async def call(self, address: str, request: Message, timeout_ns: int) -> Message:
        """As `CoordinatorCalls.call`; raises `Unauthenticated` too."""
        until_ns, token = self._runtime.now_ns() + timeout_ns, self.token
        try:
            return await self._calls.call(address, _signed(request, token), timeout_ns)
        except Unauthenticated as error:
            await self._log_in(address, token, error, until_ns)
        return await self._calls.call(address, _signed(request, self.token), self._left_ns(until_ns))

    async def stream(self, address: str, request: Message, timeout_ns: int) -> AsyncGenerator[Message, None]:
        """As `CoordinatorCalls.stream`; raises `Unauthenticated` too."""
        until_ns, token = self._runtime.now_ns() + timeout_ns, self.token
        try:
            # Nothing has been answered where it is raised: who asks is decided first.
            async with aclosing(self._calls.stream(address, _signed(request, token), timeout_ns)) as messages:
                async for message in messages:
                    yield message
        except Unauthenticated as error:
            await self._log_in(address, token, error, until_ns)
        else:
            return
        left_ns = self._left_ns(until_ns)
        async with aclosing(self._calls.stream(address, _signed(request, self.token), left_ns)) as messages:
            async for message in messages:
                yield message

    async def _log_in(self, address: str, refused: LoginToken | None, error: Unauthenticated, until_ns: int) -> None:
        """Replaces the login that was refused. Raises `error` without credentials, or if others try until then."""
        with self._lock:
            while self._is_logging_in:
                if self._runtime.now_ns() >= until_ns:
                    raise error
                await self._lock.wait(until_ns)
            if self.token != refused:
                return  # others have just done it
            self._is_logging_in = True
        try:
            await self._try(address, error, until_ns)
        finally:
            with self._lock:
                self._is_logging_in = False
                self._lock.notify_all()

    async def _try(self, address: str, error: Unauthenticated, until_ns: int) -> None:
        login = self._credentials() if error.code == Unauthenticated.default_code else None
        if login is None:
            raise error
        until_ns = min(until_ns, self._runtime.now_ns() + CALL_TIMEOUT_NS)
        while True:
            try:
                answer = await self._calls.call(address, login, self._left_ns(until_ns))
                break
            except Refused as refused:  # strangers may send passwords without end
                if refused.code != ErrorCode.BUSY or self._left_ns(until_ns) < 2 * LOGIN_PAUSE_NS:
                    raise
                await self._runtime.sleep_until(self._runtime.now_ns() + LOGIN_PAUSE_NS)
        if not isinstance(answer, LoggedIn):
            raise unexpected_answer(answer)
        self.token = answer.token
        self._on_login(address, answer.token)

    def _left_ns(self, until_ns: int) -> int:
        return max(1, until_ns - self._runtime.now_ns())


def _signed(request: M, token: LoginToken | None) -> M:
    return msgspec.structs.replace(request, login=token) if isinstance(request, ClientRequest) else request
