"""One client's requests to the coordinators of a cluster, each asked again until a deadline.

| an attempt ends with | it is asked again | the next attempt asks |
| --- | --- | --- |
| `Unreachable` | yes | the next coordinator |
| `NotLeader` | yes | the leader that it names, if its address is one of `addresses`, else the next coordinator |
| another `Indefinite`, `NotInitialised` | if it changes something | the next coordinator |
| `SealUnknown` | if it changes something | the same coordinator |
| any other error, and code TRANSACTION_FORGOTTEN | no: it is raised | the same coordinator |

**A silent coordinator is left.** If there are others, and no answer has come for COORDINATOR_SILENCE_NS, the
coordinator is asked who it is. If it does not answer that either, for ROLE_TIMEOUT_NS, it counts as `Unreachable`. Else
it is busy, and is asked the same again with SILENCE_GROWTH times the patience. What a statement, a commit or a question
has done so far is not lost by that, or harmless to repeat.

**At the deadline, what surely did not happen is told apart from what is not known.** A request that changes something
carries an id, by which it happens once. If any attempt may have been taken (`Deadline.may_be_taken`), the request ends
as `OutcomeUnknown`. If each attempt was declined or was never sent, nothing was done, and nothing will be. Then the
request ends as a question does: as `SealUnknown` or `NotInitialised` if that was the last error, else as `Unreachable`,
with the code NO_QUORUM if a coordinator says that nobody can lead for that reason.
"""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Final, TypeAlias, TypeVar

import msgspec

from leasehold.core.data.asking import Asking
from leasehold.core.data.coordinator_calls import LoginCalls
from leasehold.core.data.known import Known
from leasehold.core.data.runtime import Runtime
from leasehold.core.membership.coordinators import told_addresses
from leasehold.core.membership.turns import Turns
from leasehold.core.words import messages
from leasehold.core.words.messages import Message
from leasehold.error_codes import ErrorCode
from leasehold.errors import (
    Indefinite,
    LeaseholdError,
    NotInitialised,
    NotLeader,
    OutcomeUnknown,
    SealUnknown,
    Unreachable,
    unexpected_answer,
)
from leasehold.ids import ClusterId, Term
from leasehold.limits.clients import (
    CALL_TIMEOUT_NS,
    COORDINATOR_SILENCE_NS,
    PLACES_TIMEOUT_NS,
    RETRY_PAUSE_NS,
    ROLE_TIMEOUT_NS,
    SILENCE_GROWTH,
)
from leasehold.limits.membership import COORDINATORS_KNOWN_MAX

A = TypeVar("A")
M = TypeVar("M", bound=Message)

Errors: TypeAlias = tuple[type[LeaseholdError], ...]

QUESTION_AGAIN: Final[Errors] = (Unreachable, NotLeader)
"""After these a question is asked again."""
CHANGE_AGAIN: Final[Errors] = (Indefinite, NotInitialised, NotLeader, SealUnknown)
"""After these a request is asked again that changes something and is harmless to repeat."""
ELSEWHERE: Final[Errors] = (Indefinite, NotInitialised, NotLeader)
"""After these the next coordinator is asked."""

_NOBODY_HINT: Final = "check that a coordinator runs: `leasehold status` shows which processes this machine reaches"

Unknown: TypeAlias = Callable[[str], LeaseholdError]
"""Makes the error of a request of which it is not known whether it happened."""


class Deadline:
    """Until when something is asked again, and what its attempts have shown."""

    def __init__(self, now_ns: Callable[[], int], for_ns: int) -> None:
        self._now_ns = now_ns
        self._for_ns = for_ns
        self.at_ns = now_ns() + for_ns
        self.may_be_taken = False
        """Whether an attempt may have been taken, and may happen yet."""
        self._refusal: NotLeader | None = None

    def failed(self, error: LeaseholdError) -> None:
        """Notes how an attempt ended."""
        if isinstance(error, NotLeader):
            self._refusal = error
        elif isinstance(error, Indefinite):
            self.may_be_taken = self.may_be_taken or not isinstance(error, Unreachable) or error.was_sent

    def unreachable(self, error: LeaseholdError, *, before: str = "", hint: str = "") -> Unreachable:
        """No coordinator has answered, and nothing happened. `error` was the last one; `before` begins the text."""
        why = self._refusal
        if why is not None and why.cause == ErrorCode.NO_QUORUM:
            return Unreachable(f"{before}{why.text}", code=ErrorCode.NO_QUORUM, hint=why.hint)
        return Unreachable(f"{before}{error.text}", hint=hint or error.hint)

    def renew(self) -> None:
        """Counts anew, after an answer."""
        self.at_ns = self._now_ns() + self._for_ns

    def left_ns(self) -> int:
        """How long that is from now; 0 or less once it has passed."""
        return self.at_ns - self._now_ns()

    def within(self, timeout_ns: int) -> int:
        """`timeout_ns`, but at most what is left."""
        return max(1, min(timeout_ns, self.left_ns()))


Attempt: TypeAlias = Callable[[str, Deadline], Awaitable[A]]
"""Asks the coordinator at an address, within the deadline."""


class CoordinatorRole(StrEnum):
    """What a coordinator is at the moment."""

    LEADER = "LEADER"
    FOLLOWER = "FOLLOWER"
    SILENT = "SILENT"
    """It does not answer."""


class CoordinatorClient:
    """Several steps at once may use it. A coordinator is asked until it fails, then the next one of `addresses`.

    If it `learns`, it asks those that it was given for the other coordinators: before its first request, and after one
    that named a leader that it does not know.
    """

    def __init__(
        self,
        calls: LoginCalls,
        addresses: Sequence[str],
        runtime: Runtime,
        *,
        known: Known | None = None,
        learns: bool = False,
    ) -> None:
        assert addresses, "a cluster has a coordinator"
        self.calls = calls
        self.known = known or Known(runtime)
        """One client is one causal history."""
        self.cluster_id: ClusterId | None = None
        """As the first statement has learned it; None before."""
        self.term: Term | None = None
        """The newest one of which a statement has learned."""
        self.addresses = tuple(addresses)
        """Those that were given first, then those that coordinators have told; they only become more."""
        self._may_learn = self._learns = learns
        self._runtime = runtime
        self._lock = runtime.condition()
        self._turn = 0
        self._turns = Turns()

    def now_ns(self) -> int:
        return self._runtime.now_ns()

    def deadline(self, for_ns: int) -> Deadline:
        return Deadline(self._runtime.now_ns, for_ns)

    async def until_answered(
        self,
        attempt: Attempt[A],
        asking: Asking,
        *,
        unknown: Unknown | None = None,
        may_be_taken: bool = False,
        again: Errors = CHANGE_AGAIN,
        late_ns: int = 0,
    ) -> A:
        """The answer of `attempt`, which is repeated after the errors in `again` until the deadline of `asking` and
        `late_ns` more. Then it raises what `unknown` makes of the last error, if an attempt may have been taken: one
        of these, or an earlier one (`may_be_taken`). Without `unknown` it is a question, which changes nothing. Else it
        raises `SealUnknown`, `NotInitialised` or `Unreachable`.
        """
        deadline = self.deadline(asking.for_ns + late_ns)
        deadline.may_be_taken = may_be_taken
        while True:
            if self._learns:
                await self._learn(deadline.left_ns())
            try:
                answer = await self._attempt(attempt, deadline)
            except again as error:
                if error.code == ErrorCode.TRANSACTION_FORGOTTEN:
                    raise
                left_ns = deadline.left_ns()
                if left_ns > 2 * RETRY_PAUSE_NS:
                    asking.again(error, left_ns)
                    await self._runtime.sleep_until(self._runtime.now_ns() + RETRY_PAUSE_NS)
                    continue
                # An attempt in what is left would be too short, and hide why this one failed.
                await self._runtime.sleep_until(deadline.at_ns)
                before = f"no answer within {asking.seconds(late_ns)}: "
                if unknown is not None and deadline.may_be_taken:
                    raise unknown(f"{before}{error.text}") from error
                if isinstance(error, SealUnknown | NotInitialised):
                    raise
                raise deadline.unreachable(error, before=before, hint=_NOBODY_HINT) from error
            asking.answered()
            return answer

    async def _attempt(self, attempt: Attempt[A], deadline: Deadline) -> A:
        turn = self._turn
        try:
            return await attempt(self.addresses[turn % len(self.addresses)], deadline)
        except ELSEWHERE as error:
            deadline.failed(error)
            if isinstance(error, NotLeader) and error.leader not in {"", *self.addresses}:
                self._learns = self._may_learn
            with self._lock:
                if self._turn == turn:  # else another step has met the same
                    self._turn = self._turns.after(turn, self.addresses, error)
            raise

    async def _learn(self, at_most_ns: int) -> None:
        """Asks one after the other who the other coordinators are, until one tells; no request needs the answer.

        With one that tells and one that is dead, it could else ask the dead one whenever it learns, and the other one
        whenever it is to do something that only a leader does.
        """
        ask = self.question(messages.WhoAreYou(), messages.ClusterFacts)
        deadline = self.deadline(at_most_ns)
        for _ in self.addresses:
            with contextlib.suppress(Indefinite, NotInitialised, NotLeader):
                facts = await self._attempt(ask, self.deadline(deadline.within(ROLE_TIMEOUT_NS)))
                self._learns = False
                known = (*self.addresses, *told_addresses(facts))
                self.addresses = tuple(dict.fromkeys(known))[:COORDINATORS_KNOWN_MAX]
                return

    async def call(self, address: str, request: Message, deadline: Deadline, timeout_ns: int) -> Message:
        """One answer of one coordinator, as `unless_silent`."""
        if isinstance(request, messages.WhoAreYou) and len(self.addresses) > 1:
            return await self.calls.call(address, request, deadline.within(min(timeout_ns, ROLE_TIMEOUT_NS)))
        return await self.unless_silent(
            address, deadline, timeout_ns, lambda within_ns: self.calls.call(address, request, within_ns)
        )

    async def unless_silent(
        self, address: str, deadline: Deadline, timeout_ns: int, ask: Callable[[int], Awaitable[A]]
    ) -> A:
        """What `ask` answers within the time that it is given: first COORDINATOR_SILENCE_NS, if there are other
        coordinators, then more each time that the coordinator says who it is."""
        patience_ns = COORDINATOR_SILENCE_NS if len(self.addresses) > 1 else timeout_ns
        while (within_ns := deadline.within(timeout_ns)) > patience_ns:
            began_ns = self.now_ns()
            try:
                return await ask(patience_ns)
            except Unreachable as error:
                if self.now_ns() - began_ns < patience_ns - RETRY_PAUSE_NS:
                    raise  # it was not silent
                deadline.failed(error)
            await self.calls.call(address, messages.WhoAreYou(), deadline.within(ROLE_TIMEOUT_NS))
            patience_ns *= SILENCE_GROWTH
        return await ask(within_ns)

    def question(self, request: Message, kind: type[M], timeout_ns: int = CALL_TIMEOUT_NS) -> Attempt[M]:
        """Asks `request`, whose answer is of `kind`, for `timeout_ns` at most."""

        async def ask(address: str, deadline: Deadline) -> M:
            answer = await self.call(address, request, deadline, timeout_ns)
            if not isinstance(answer, kind):
                raise unexpected_answer(answer)
            self.known.heard(answer)
            return answer

        return ask

    async def ask_once(self, request: Message, kind: type[M], timeout_ns: int = CALL_TIMEOUT_NS) -> M:
        """Asks each coordinator once at most, until one answers. Raises `Unreachable` if none does."""
        return await self._in_turn(self.question(request, kind), timeout_ns)

    async def whoami(self, timeout_ns: int) -> messages.ClusterFacts:
        """As `leader`, of the first coordinator that leads; asks each once at most. Raises `Unreachable` if none
        does."""
        return await self._in_turn(self.leader, timeout_ns)

    async def _in_turn(self, attempt: Attempt[A], timeout_ns: int) -> A:
        deadline = self.deadline(timeout_ns)
        for left in reversed(range(len(self.addresses))):
            try:
                return await self._attempt(attempt, deadline)
            except QUESTION_AGAIN as error:
                if left and deadline.left_ns() > 0:
                    continue
                raise deadline.unreachable(error) from error
        raise AssertionError("there is a coordinator to ask")

    async def roles(self) -> dict[str, CoordinatorRole]:
        """What each coordinator says of itself, by its address; each is asked once."""
        if self._learns:
            await self._learn(ROLE_TIMEOUT_NS)
        roles: dict[str, CoordinatorRole] = {}
        for address in self.addresses:
            try:
                ask = self.question(messages.WhoAreYou(), messages.ClusterFacts)
                facts = await ask(address, self.deadline(ROLE_TIMEOUT_NS))
                roles[address] = CoordinatorRole.LEADER if facts.leader else CoordinatorRole.FOLLOWER
            except (NotLeader, NotInitialised):
                roles[address] = CoordinatorRole.FOLLOWER
            except Unreachable:
                roles[address] = CoordinatorRole.SILENT
        return roles

    async def leader(self, address: str, deadline: Deadline) -> messages.ClusterFacts:
        """What the coordinator at an address says of the cluster; raises `NotLeader` unless it leads."""
        facts = await self.question(messages.WhoAreYou(), messages.ClusterFacts, ROLE_TIMEOUT_NS)(address, deadline)
        if not facts.leader:
            raise NotLeader(f"{address} follows term {facts.term}", hint="ask another coordinator")
        return facts

    async def look_up(self, request: Message, kind: type[M], asking: Asking) -> M:
        """Asks until a coordinator answers: a question changes nothing."""
        return await self.until_answered(self.question(request, kind), asking, again=QUESTION_AGAIN)

    async def look_again(self, facts: messages.TableFacts) -> messages.TableFacts:
        """The table as of now, for readers and writers under way, from the leader if it answers: it knows which nodes
        are away. Asks each coordinator twice at most, for PLACES_TIMEOUT_NS in all."""
        request = messages.AskTable(cluster_id=facts.cluster_id, name=facts.name, absences=True)
        with contextlib.suppress(LeaseholdError):  # it is met again, if it says anything of the table
            return await self.ask_once(request, messages.TableFacts, PLACES_TIMEOUT_NS // 2)
        request = msgspec.structs.replace(request, absences=False)
        return await self.ask_once(request, messages.TableFacts, PLACES_TIMEOUT_NS // 2)

    async def agree_cutoff(self, request: messages.AgreeCutoff, asking: Asking) -> messages.Cutoff:
        """Asks until a cutoff is agreed: the same for all processes of one query."""
        return await self.until_answered(self.question(request, messages.Cutoff), asking)

    async def resolve(
        self,
        request: messages.OpenTransaction | messages.CommitTransaction | messages.AbortTransaction,
        asking: Asking,
        *,
        may_be_taken: bool = False,
    ) -> messages.TransactionFacts:
        """Asks until the answer is known: each of these is harmless to repeat, by its transaction id.

        `may_be_taken`: an earlier call may have sent the same.
        """
        hint = f"ask again for write transaction {request.transaction} before you write the rows again"
        unknown = partial(OutcomeUnknown, hint=hint)
        ask = self.question(request, messages.TransactionFacts)
        return await self.until_answered(ask, asking, unknown=unknown, may_be_taken=may_be_taken)
