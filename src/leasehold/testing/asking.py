"""A simulated client's questions to the coordinators, by the rules of `client/cluster.py`."""

from collections.abc import Sequence
from typing import Final, TypeVar

from leasehold.core.messages import AskTable, Message, TableFacts
from leasehold.errors import Indefinite, LeaseholdError, NotInitialised, NotLeader, OutcomeUnknown, Refused, Unreachable
from leasehold.limits import RETRY_PAUSE_NS, SECOND_NS, STATEMENT_RESOLVE_NS
from leasehold.wire.ports import Clock, Transport

M = TypeVar("M", bound=Message)

ASK_TIMEOUT_NS: Final = 3 * SECOND_NS
"""Shorter than CALL_TIMEOUT_NS: the simulated network loses unary messages, which TCP does not."""


class Asking:
    """Asks one coordinator after the other until one answers definitely."""

    def __init__(self, transport: Transport, coordinators: Sequence[str], clock: Clock) -> None:
        assert coordinators
        self._transport = transport
        self._coordinators = tuple(coordinators)
        self._clock = clock
        self._turn = 0

    async def ask(self, request: Message, kind: type[M], *, patience_ns: int = STATEMENT_RESOLVE_NS) -> M:
        """The answer; asked again after an indefinite one. Raises the refusal, `OutcomeUnknown` when patience ends."""
        give_up_ns = self._clock.now_ns() + patience_ns
        while True:
            try:
                answer = await self._once(request)
            except (Indefinite, NotInitialised, NotLeader) as error:
                if error.code == "TRANSACTION_FORGOTTEN":
                    raise
                if self._clock.now_ns() >= give_up_ns:
                    raise OutcomeUnknown(f"no answer: {error.text}") from error
            else:
                if not isinstance(answer, kind):
                    raise Refused(f"answered with {type(answer).__name__}", code="BAD_MESSAGE")
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
