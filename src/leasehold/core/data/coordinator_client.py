"""One client's requests to the coordinators of a cluster, each asked again until a deadline.

| an attempt ends with | it is asked again | the next attempt asks |
| --- | --- | --- |
| `Unreachable` | yes | the next coordinator |
| `NotLeader` | yes | the leader that it names, if its address is one of `addresses`, else the next coordinator |
| another `Indefinite`, `NotInitialised` | if it changes something | the next coordinator |
| `SealUnknown` | if it changes something | the same coordinator |
| any other error, and code TRANSACTION_FORGOTTEN | no: it is raised | the same coordinator |

A request that changes something carries an id, by which it happens once. At the deadline it ends as `OutcomeUnknown`,
since an attempt without an answer may have been carried out; as `SealUnknown` if that was the last error and each
attempt was answered. A question ends as `Unreachable`.
"""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Final, TypeAlias, TypeVar

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
from leasehold.ids import ClusterId
from leasehold.limits.clients import CALL_TIMEOUT_NS, PLACES_TIMEOUT_NS, RETRY_PAUSE_NS, ROLE_TIMEOUT_NS
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

unreachable = partial(
    Unreachable, hint="check that a coordinator runs: `leasehold status` shows which processes this machine reaches"
)
"""No coordinator has answered, and nothing was sent that could change anything."""


class Deadline:
    """Until when something is asked again."""

    def __init__(self, now_ns: Callable[[], int], for_ns: int) -> None:
        self._now_ns = now_ns
        self._for_ns = for_ns
        self.at_ns = now_ns() + for_ns

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
        unanswered: Callable[[str], LeaseholdError],
        asking: Asking,
        *,
        again: Errors = CHANGE_AGAIN,
        late_ns: int = 0,
    ) -> A:
        """The answer of `attempt`, which is repeated after the errors in `again` until the deadline of `asking` and
        `late_ns` more. Then it raises what `unanswered` makes of the last error, or `SealUnknown`.
        """
        deadline, unsure = self.deadline(asking.for_ns + late_ns), False
        while True:
            if self._learns:
                await self._learn(deadline.left_ns())
            try:
                answer = await self._attempt(attempt, deadline)
            except again as error:
                if error.code == ErrorCode.TRANSACTION_FORGOTTEN:
                    raise
                unsure = unsure or isinstance(error, Indefinite)
                left_ns = deadline.left_ns()
                if left_ns > 2 * RETRY_PAUSE_NS:
                    asking.again(error, left_ns)
                    await self._runtime.sleep_until(self._runtime.now_ns() + RETRY_PAUSE_NS)
                    continue
                # An attempt in what is left would be too short, and hide why this one failed.
                await self._runtime.sleep_until(deadline.at_ns)
                if isinstance(error, SealUnknown) and not unsure:
                    raise
                raise unanswered(f"no answer within {asking.seconds(late_ns)}: {error.text}") from error
            asking.answered()
            return answer

    async def _attempt(self, attempt: Attempt[A], deadline: Deadline) -> A:
        turn = self._turn
        try:
            return await attempt(self.addresses[turn % len(self.addresses)], deadline)
        except ELSEWHERE as error:
            if isinstance(error, NotLeader) and error.leader not in {"", *self.addresses}:
                self._learns = self._may_learn
            with self._lock:
                if self._turn == turn:  # else another step has met the same
                    self._turn = self._turns.after(turn, self.addresses, error)
            raise

    async def _learn(self, at_most_ns: int) -> None:
        """Asks who the other coordinators are, once; the answer is a help that no request needs."""
        with contextlib.suppress(Indefinite, NotInitialised, NotLeader):
            ask = self.question(messages.WhoAreYou(), messages.ClusterFacts)
            facts = await self._attempt(ask, self.deadline(min(ROLE_TIMEOUT_NS, at_most_ns)))
            self._learns = False
            known = (*self.addresses, *told_addresses(facts))
            self.addresses = tuple(dict.fromkeys(known))[:COORDINATORS_KNOWN_MAX]

    def question(self, request: Message, kind: type[M], timeout_ns: int = CALL_TIMEOUT_NS) -> Attempt[M]:
        """Asks `request`, whose answer is of `kind`, for `timeout_ns` at most."""

        async def ask(address: str, deadline: Deadline) -> M:
            answer = await self.calls.call(address, request, deadline.within(timeout_ns))
            if not isinstance(answer, kind):
                raise unexpected_answer(answer)
            self.known.heard(answer)
            return answer

        return ask

    async def ask_once(self, request: Message, kind: type[M], timeout_ns: int = CALL_TIMEOUT_NS) -> M:
        """Asks each coordinator once at most, until one answers."""
        return await self._in_turn(self.question(request, kind), timeout_ns)

    async def whoami(self, timeout_ns: int) -> messages.ClusterFacts:
        """As `leader`, of the first coordinator that leads; asks each once at most."""
        return await self._in_turn(self.leader, timeout_ns)

    async def _in_turn(self, attempt: Attempt[A], timeout_ns: int) -> A:
        deadline = self.deadline(timeout_ns)
        for _ in self.addresses[1:]:
            try:
                return await self._attempt(attempt, deadline)
            except QUESTION_AGAIN:
                if deadline.left_ns() <= 0:
                    raise
        return await self._attempt(attempt, deadline)

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
        return await self.until_answered(self.question(request, kind), unreachable, asking, again=QUESTION_AGAIN)

    async def look_again(self, facts: messages.TableFacts) -> messages.TableFacts:
        """The table as of now, for readers and writers under way. Asks once, for PLACES_TIMEOUT_NS at most."""
        request = messages.AskTable(cluster_id=facts.cluster_id, name=facts.name)
        return await self.ask_once(request, messages.TableFacts, PLACES_TIMEOUT_NS)

    async def agree_cutoff(self, request: messages.AgreeCutoff, asking: Asking) -> messages.Cutoff:
        """Asks until a cutoff is agreed: the same for all processes of one query."""
        unanswered = partial(Unreachable, hint="run the query again")
        return await self.until_answered(self.question(request, messages.Cutoff), unanswered, asking)

    async def resolve(
        self, request: messages.OpenTransaction | messages.CommitTransaction | messages.AbortTransaction, asking: Asking
    ) -> messages.TransactionFacts:
        """Asks until the answer is known: each of these is harmless to repeat, by its transaction id."""
        hint = f"ask again for write transaction {request.transaction} before you write the rows again"
        unanswered = partial(OutcomeUnknown, hint=hint)
        return await self.until_answered(self.question(request, messages.TransactionFacts), unanswered, asking)
