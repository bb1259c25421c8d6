"""Joining: drives `core/identity.py` against the vault and the coordinators until this process is let in."""

from typing import TypeVar, assert_never

from leasehold.core.catalog import Catalog
from leasehold.core.identity import (
    Admitted,
    Claim,
    ClaimEffect,
    ClusterLearned,
    IdAllocated,
    Joined,
    RecordWritten,
    SendAllocate,
    SendJoin,
    Start,
    WriteRecord,
    WrongCluster,
)
from leasehold.core.messages import AllocateAnswer, ClusterFacts, Join, JoinAnswer, JoinWait, Message, WhoAreYou
from leasehold.errors import Indefinite, NotInitialised, NotLeader, Refused
from leasehold.ids import ClusterId, Nonce, Session, Token
from leasehold.limits import CALL_TIMEOUT_NS, RETRY_PAUSE_NS
from leasehold.wire.ports import Clock, Connection, Entropy, Transport, Vault

M = TypeVar("M", bound=Message)


class Coordinators:
    """The coordinators a node knows, asked in turn: the next one after each failure."""

    def __init__(self, addresses: tuple[str, ...], transport: Transport, clock: Clock) -> None:
        assert addresses, "at least one coordinator must be known"
        self.addresses = addresses
        self._transport = transport
        self._clock = clock
        self._turn = 0

    def connect(self) -> Connection:
        """A connection to the present one; the caller closes it."""
        return self._transport.connect(self.addresses[self._turn % len(self.addresses)])

    async def next(self) -> None:
        """Turns to the next one, after a moment."""
        self._turn += 1
        await self._clock.sleep_until(self._clock.now_ns() + RETRY_PAUSE_NS)

    async def ask(self, request: Message, *kinds: type[M]) -> M:
        """Asks until there is a definite answer, always with the same request (INV-ID-3)."""
        while True:
            connection = self.connect()
            try:
                answer = await connection.call(request, timeout_ns=CALL_TIMEOUT_NS)
            except (Indefinite, NotInitialised, NotLeader):
                await self.next()
                continue
            finally:
                await connection.close()
            if not isinstance(answer, kinds):
                raise Refused(f"answered with {type(answer).__name__}", code="BAD_MESSAGE", hint="upgrade")
            return answer


class Joiner:
    """One process on its way in."""

    def __init__(
        self,
        *,
        name: str,
        address: str,
        session: Session,
        coordinators: Coordinators,
        vault: Vault,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._name = name
        self._address = address
        self._session = session
        self._coordinators = coordinators
        self._vault = vault
        self._clock = clock
        self._entropy = entropy

    async def join(self, view: Catalog) -> tuple[ClusterId, Joined]:
        """Ends once the new incarnation is durable here. Raises the definite refusal that ends the process."""
        start = Start(
            name=self._name,
            address=self._address,
            session=self._session,
            token=Token(self._entropy.hex_128()),
            nonce=Nonce(self._entropy.hex_128()),
            applied=view.revision,
            lineage=view.lineage,
        )
        claim = Claim(await self._vault.identity(), start)
        facts = await self._coordinators.ask(WhoAreYou(), ClusterFacts)
        effect = claim.step(ClusterLearned(facts=facts))
        while not isinstance(effect, Joined):
            effect = await self._carry_out(claim, effect)
        await self._vault.write_coordinators(self._coordinators.addresses)
        return facts.cluster_id, effect

    async def _carry_out(self, claim: Claim, effect: ClaimEffect) -> ClaimEffect:
        match effect:
            case WriteRecord(record=record):
                await self._vault.write_identity(record)
                return claim.step(RecordWritten())
            case SendAllocate(request=request):
                answer = await self._coordinators.ask(request, AllocateAnswer)
                return claim.step(IdAllocated(node=answer.node))
            case SendJoin(request=request):
                admitted = await self._ask_to_join(request)
                return claim.step(Admitted(incarnation=admitted.incarnation))
            case WrongCluster(ours=ours, theirs=theirs):
                raise Refused(
                    f"this directory belongs to cluster {ours}, the coordinator serves {theirs}",
                    code="OTHER_CLUSTER",
                    hint="check the coordinator's address; to move this machine, start with an empty directory",
                )
            case Joined():
                return effect
            case _:
                assert_never(effect)

    async def _ask_to_join(self, request: Join) -> JoinAnswer:
        while True:
            answer = await self._coordinators.ask(request, JoinAnswer, JoinWait)
            if isinstance(answer, JoinAnswer):
                return answer
            # At least a moment, so that a bound that has just passed is not asked about in a tight loop.
            wait_ns = max(answer.wait_ns, RETRY_PAUSE_NS)
            await self._clock.sleep_until(self._clock.now_ns() + wait_ns)
