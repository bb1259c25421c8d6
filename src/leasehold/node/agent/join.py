"""Joining: drives `core/membership/identity.py` over the vault and the coordinators until this process is let in."""

import logging
from typing import assert_never

from leasehold.core.membership import identity
from leasehold.core.membership.coordinators import told_addresses
from leasehold.core.membership.identity import Candidate, ClaimEffect, Joined, Start
from leasehold.core.membership.proofs import ProofKeys, with_proof
from leasehold.core.words.messages import AllocateAnswer, ClusterFacts, Join, JoinAnswer, JoinWait, WhoAreYou
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import ClusterId
from leasehold.limits.clients import RETRY_PAUSE_NS
from leasehold.limits.membership import JOIN_ASK_AGAIN_NS, JOIN_WAIT_TOLD_NS
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.coordinators import KnownCoordinators
from leasehold.wire.ports import Clock, Vault

log = logging.getLogger(__name__)


class Joiner:
    """Joins the cluster for one process."""

    def __init__(self, coordinators: KnownCoordinators, vault: Vault, clock: Clock, keys: ProofKeys | None) -> None:
        self._coordinators = coordinators
        self._vault = vault
        self._clock = clock
        self._keys = keys
        self._tell_ns = 0

    async def join(self, start: Start) -> tuple[ClusterId, Joined]:
        """Returns once the new incarnation is durable here. Raises the definite refusal that ends the process."""
        self._coordinators.remember(await self._vault.coordinators())
        claim = Candidate(await self._vault.identity(), start)
        while True:
            facts = await self._coordinators.ask(WhoAreYou(), ClusterFacts)
            told_by = self._coordinators.asked
            effect = claim.step(identity.ClusterLearned(facts=facts))
            if not isinstance(effect, identity.WrongCluster):
                self._coordinators.cluster_id = facts.cluster_id
                self._coordinators.told(told_addresses(facts))
            try:
                while not isinstance(effect, Joined):
                    effect = await self._carry_out(claim, effect)
            except Refused as refusal:
                if refusal.code == ErrorCode.NOT_A_MEMBER and self._coordinators.asked == told_by:
                    raise  # a coordinator of this cluster says so
                if not await self._coordinators.passes_over(refusal, is_new=not claim.has_id):
                    raise
            else:
                await self._coordinators.keep(self._vault)
                return facts.cluster_id, effect

    async def _carry_out(self, claim: Candidate, effect: ClaimEffect) -> ClaimEffect:
        match effect:
            case identity.WriteRecord(record=record):
                await self._vault.write_identity(record)
                return claim.step(identity.RecordWritten())
            case identity.SendAllocate(request=request):
                allocated = await self._coordinators.ask(with_proof(request, self._keys), AllocateAnswer)
                return claim.step(identity.IdAllocated(node=allocated.node))
            case identity.SendJoin(request=request):
                joined = await self._ask_to_join(with_proof(request, self._keys))
                return claim.step(identity.Admitted(incarnation=joined.incarnation, history_known=joined.history_known))
            case identity.WrongCluster(ours=ours, theirs=theirs):
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
            # At least RETRY_PAUSE_NS: a bound that has just passed must not cause a tight loop.
            await self._clock.sleep_until(now_ns + min(max(wait_ns, RETRY_PAUSE_NS), JOIN_ASK_AGAIN_NS))
