"""Requests of a process with the cluster key: it sends nothing secret to a coordinator before a proof of that key.

A call with a secret follows a proof that is at most COORDINATOR_PROOF_NS old: later another process may have the
address. On a session the proof comes first, on the same stream, so the process that has proven itself gets what
follows. `core/membership/proofs.py` says what a proof is.
"""

import asyncio
from typing import Final

from leasehold.core.membership.proofs import Challenge, ProofKeys
from leasehold.core.words.messages import Allocate, AskIncarnation, Join, Message
from leasehold.errors import Definite
from leasehold.ids import ClusterId, Nonce
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.people import COORDINATOR_PROOF_NS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.duplex import unreachable
from leasehold.wire.ports import Clock, Connection, Duplex, Entropy

SECRET: Final = (Allocate, AskIncarnation, Join)
"""Requests that hold a secret of a node."""


class ProvenCoordinator:
    """Asks coordinators. Without `keys` it asks them without a proof."""

    def __init__(self, keys: ProofKeys | None, clock: Clock, entropy: Entropy) -> None:
        self._keys = keys
        self._clock = clock
        self._entropy = entropy

    async def call(self, connection: Connection, address: str, request: Message) -> Message:
        """As `Connection.call`. Raises `Refused` with code COORDINATOR_UNPROVEN too."""
        if self._keys is not None and isinstance(request, SECRET):
            await self._prove(connection, address, request.cluster_id, self._keys)
        return await connection.call(request, timeout_ns=CALL_TIMEOUT_NS)

    async def session(self, connection: Connection, address: str, cluster_id: ClusterId) -> Duplex:
        """As `Connection.session`, with a coordinator that has proven itself. Raises as `call`."""
        duplex = await connection.session()
        if self._keys is None:
            return duplex
        challenge = self._challenge(cluster_id, address, self._keys)
        await duplex.send(challenge.request)
        try:
            async with asyncio.timeout(CALL_TIMEOUT_NS / SECOND_NS):
                answer = await duplex.receive()
        except TimeoutError as error:
            raise unreachable(address, "it did not answer the challenge in time") from error
        except Definite as error:
            raise challenge.refusal(error) from error
        if answer is None:
            raise unreachable(address, "it ended the stream without a proof")
        challenge.check(answer)
        return duplex

    async def _prove(self, connection: Connection, address: str, cluster_id: ClusterId, keys: ProofKeys) -> None:
        while True:
            asked_ns = self._clock.now_ns()
            challenge = self._challenge(cluster_id, address, keys)
            try:
                answer = await connection.call(challenge.request, timeout_ns=CALL_TIMEOUT_NS)
            except Definite as error:
                raise challenge.refusal(error) from error
            challenge.check(answer)
            if self._clock.now_ns() - asked_ns <= COORDINATOR_PROOF_NS:
                return
            # This process was paused, or the answer was late: another process may have the port by now.

    def _challenge(self, cluster_id: ClusterId, address: str, keys: ProofKeys) -> Challenge:
        return Challenge(cluster_id, address, Nonce(self._entropy.hex_128()), keys)
