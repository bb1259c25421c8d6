"""Joining: drives `core/membership/identity.py` against the vault and the coordinators until this process is let in."""

import logging
from typing import assert_never

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.membership.generations import generation_of
from leasehold.core.membership.identity import (
    Admitted,
    Candidate,
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
from leasehold.core.membership.proofs import ProofKeys, with_proof
from leasehold.core.words.messages import AllocateAnswer, ClusterFacts, Join, JoinAnswer, JoinWait, WhoAreYou
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import ClusterId, Nonce, Session, Token
from leasehold.limits.clients import RETRY_PAUSE_NS
from leasehold.limits.membership import JOIN_ASK_AGAIN_NS, JOIN_WAIT_TOLD_NS
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.coordinators import KnownCoordinators
from leasehold.wire.ports import Clock, Entropy, Vault

log = logging.getLogger(__name__)


class Joiner:
    """One process on its way in."""

    def __init__(
        self,
        *,
        name: str,
        address: str,
        session: Session,
        coordinators: KnownCoordinators,
        vault: Vault,
        clock: Clock,
        entropy: Entropy,
        keys: ProofKeys | None = None,
    ) -> None:
        self._keys = keys
        self._name = name
        self._address = address
        self._session = session
        self._coordinators = coordinators
        self._vault = vault
        self._clock = clock
        self._entropy = entropy
        self._tell_ns = 0
        """From when on it is said again that a join has to wait."""

    async def join(self, view: Catalog) -> tuple[ClusterId, Joined]:
        """Ends once the new incarnation is durable here. Raises the definite refusal that ends the process."""
        self._coordinators.remember(await self._vault.coordinators())
        start = Start(
            name=self._name,
            address=self._address,
            session=self._session,
            token=Token(self._entropy.hex_128()),
            nonce=Nonce(self._entropy.hex_128()),
            applied=view.revision,
            lineage=view.lineage,
            generation=generation_of(view),
        )
        claim = Candidate(await self._vault.identity(), start)
        while True:
            facts = await self._coordinators.ask(WhoAreYou(), ClusterFacts)
            told_by = self._coordinators.asked
            effect = claim.step(ClusterLearned(facts=facts))
            try:
                while not isinstance(effect, Joined):
                    effect = await self._carry_out(claim, effect)
            except Refused as refusal:
                if refusal.code == ErrorCode.NOT_A_MEMBER and self._coordinators.asked == told_by:
                    raise  # a coordinator of this very cluster says so
                if not await self._coordinators.passes_over(refusal, is_new=not claim.has_id):
                    raise
            else:
                await self._coordinators.keep(self._vault)
                return facts.cluster_id, effect

    async def _carry_out(self, claim: Candidate, effect: ClaimEffect) -> ClaimEffect:
        match effect:
            case WriteRecord(record=record):
                await self._vault.write_identity(record)
                return claim.step(RecordWritten())
            case SendAllocate(request=request):
                proven = with_proof(request, self._keys)
                answer = await self._coordinators.ask(proven, AllocateAnswer)
                return claim.step(IdAllocated(node=answer.node))
            case SendJoin(request=request):
                admitted = await self._ask_to_join(with_proof(request, self._keys))
                return claim.step(Admitted(incarnation=admitted.incarnation, history_known=admitted.history_known))
            case WrongCluster(ours=ours, theirs=theirs):
                raise Refused(
                    f"this directory belongs to cluster {ours}, the coordinator serves {theirs}",
                    code=ErrorCode.OTHER_CLUSTER,
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
            wait_ns = answer.wait_ns
            now_ns = self._clock.now_ns()
            if now_ns >= self._tell_ns:
                self._tell_ns = now_ns + JOIN_WAIT_TOLD_NS
                seconds = -(-wait_ns // SECOND_NS)
                log.info("waiting at most %d s until the lease of its last process has ended", seconds)
            # At least a moment, so that a bound that has just passed is not asked about in a tight loop.
            await self._clock.sleep_until(now_ns + min(max(wait_ns, RETRY_PAUSE_NS), JOIN_ASK_AGAIN_NS))
