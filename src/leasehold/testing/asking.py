"""A simulated client's questions to the coordinators, by the rules of `client/cluster.py`."""

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from leasehold.client.known import Known
from leasehold.core.messages import AskTable, ClientRequest, LoggedIn, Login, Message, TableFacts
from leasehold.errors import (
    Indefinite,
    LeaseholdError,
    NotInitialised,
    NotLeader,
    OutcomeUnknown,
    Refused,
    SealUnknown,
    Unauthenticated,
    Unreachable,
)
from leasehold.ids import LoginToken
from leasehold.limits.clients import RETRY_PAUSE_NS, STATEMENT_RESOLVE_NS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.ports import Clock, Transport

M = TypeVar("M", bound=Message)

ASK_TIMEOUT_NS: Final = 3 * SECOND_NS
"""Shorter than CALL_TIMEOUT_NS: the simulated network loses unary messages, which TCP does not."""


class Account:
    """A user who logs in with one of some passwords, and again when his login has ended."""

    def __init__(self, user: str, passwords: Sequence[str]) -> None:
        self.user = user
        self.passwords = tuple(passwords)
        self.token: LoginToken | None = None


class Asking:
    """Asks one coordinator after the other until one answers definitely; as the user of `account`, if there is one."""

    def __init__(
        self, transport: Transport, coordinators: Sequence[str], clock: Clock, account: Account | None = None
    ) -> None:
        assert coordinators
        self.account = account
        self._transport = transport
        self._coordinators = tuple(coordinators)
        self._clock = clock
        self._turn = 0
        self.known = Known(clock.now_ns)
        """One client is one causal history."""

    async def ask(self, request: Message, kind: type[M], *, patience_ns: int = STATEMENT_RESOLVE_NS) -> M:
        """The answer; asked again after an indefinite one. Raises the refusal, `OutcomeUnknown` when patience ends."""
        try:
            return await self._definitely(request, kind, patience_ns)
        except Unauthenticated:
            if self.account is None:
                raise
        await self.log_in(patience_ns=patience_ns)
        return await self._definitely(request, kind, patience_ns)

    @property
    def login(self) -> LoginToken | None:
        """The token of the present login."""
        return None if self.account is None else self.account.token

    async def log_in(self, *, patience_ns: int = STATEMENT_RESOLVE_NS) -> LoginToken:
        """Tries one password after the other. Raises `Unauthenticated`."""
        account = self.account
        assert account is not None
        for turn, password in enumerate(account.passwords, 1):
            request = Login(cluster_id=None, user=account.user, password=password)
            try:
                account.token = (await self._definitely(request, LoggedIn, patience_ns)).token
            except Unauthenticated:
                if turn == len(account.passwords):
                    raise
            else:
                return account.token
        raise AssertionError("there is a last password")

    async def _definitely(self, request: Message, kind: type[M], patience_ns: int) -> M:
        give_up_ns, unsure = self._clock.now_ns() + patience_ns, False
        if isinstance(request, ClientRequest):
            request = msgspec.structs.replace(request, login=self.login)
        while True:
            try:
                answer = await self._once(request)
            except (Indefinite, NotInitialised, NotLeader, SealUnknown) as error:
                if error.code == "TRANSACTION_FORGOTTEN":
                    raise
                unsure = unsure or isinstance(error, Indefinite)
                if isinstance(error, SealUnknown) and not unsure and self._clock.now_ns() >= give_up_ns:
                    raise
                if self._clock.now_ns() >= give_up_ns:
                    raise OutcomeUnknown(f"no answer: {error.text}") from error
            else:
                if not isinstance(answer, kind):
                    raise Refused(f"answered with {type(answer).__name__}", code="BAD_MESSAGE")
                self.known.heard(answer)
                return answer
            self._turn += 1
            await self._clock.sleep_until(self._clock.now_ns() + RETRY_PAUSE_NS)

    async def _once(self, request: Message) -> Message:
        connection = self._transport.connect(self._coordinators[self._turn % len(self._coordinators)])
        try:
            return await connection.call(request, timeout_ns=ASK_TIMEOUT_NS)
        finally:
            await connection.close()


class Lookup:
    """What `client.places.Places` looks a table up with: it can't wait, so the answer is got first."""

    def __init__(self, asking: Asking, name: str) -> None:
        self._asking = asking
        self._name = name
        self._answer: TableFacts | LeaseholdError = Unreachable("nobody has been asked yet")

    async def ask(self) -> None:
        """Gets an answer, or the error in its place."""
        try:
            self._answer = await self._asking.ask(AskTable(cluster_id=None, name=self._name), TableFacts, patience_ns=0)
        except LeaseholdError as error:
            self._answer = error

    def __call__(self) -> TableFacts:
        """What was answered last."""
        if isinstance(self._answer, LeaseholdError):
            raise self._answer
        return self._answer
