"""A simulated client's questions to the coordinators, by the rules of `client/cluster.py`."""

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from leasehold.core.data.known import Known
from leasehold.core.data.places import Lookup
from leasehold.core.data.runtime import Runtime
from leasehold.core.words.messages import AskTable, ClientRequest, LoggedIn, Login, Message, TableFacts
from leasehold.error_codes import ErrorCode
from leasehold.errors import (
    Indefinite,
    NotInitialised,
    NotLeader,
    OutcomeUnknown,
    Refused,
    SealUnknown,
    Unauthenticated,
)
from leasehold.ids import LoginToken
from leasehold.limits.clients import RETRY_PAUSE_NS, STATEMENT_RESOLVE_NS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.ports import Transport

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
        self, transport: Transport, coordinators: Sequence[str], runtime: Runtime, account: Account | None = None
    ) -> None:
        assert coordinators
        self.account = account
        self._transport = transport
        self._coordinators = tuple(coordinators)
        self._clock = runtime
        self._turn = 0
        self.known = Known(runtime)
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

    def looking_up(self, name: str) -> Lookup:
        """For readers and writers under way: looks a table up again."""

        async def look_up() -> TableFacts:
            return await self.ask(AskTable(cluster_id=None, name=name), TableFacts, patience_ns=0)

        return look_up

    async def _definitely(self, request: Message, kind: type[M], patience_ns: int) -> M:
        give_up_ns, unsure = self._clock.now_ns() + patience_ns, False
        if isinstance(request, ClientRequest):
            request = msgspec.structs.replace(request, login=self.login)
        while True:
            try:
                answer = await self._once(request)
            except (Indefinite, NotInitialised, NotLeader, SealUnknown) as error:
                if error.code == ErrorCode.TRANSACTION_FORGOTTEN:
                    raise
                unsure = unsure or isinstance(error, Indefinite)
                if isinstance(error, SealUnknown) and not unsure and self._clock.now_ns() >= give_up_ns:
                    raise
                if self._clock.now_ns() >= give_up_ns:
                    raise OutcomeUnknown(f"no answer: {error.text}") from error
            else:
                if not isinstance(answer, kind):
                    raise Refused(f"answered with {type(answer).__name__}", code=ErrorCode.BAD_MESSAGE)
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
