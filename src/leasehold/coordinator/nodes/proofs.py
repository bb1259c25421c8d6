"""Proofs under the cluster key at a coordinator: it checks those of nodes, and makes its own
(`core/membership/proofs.py`)."""

import logging

from leasehold.core.membership.admission import reject_stranger
from leasehold.core.membership.proofs import ProofKeys, prove_coordinator
from leasehold.core.words.messages import Allocate, AskIncarnation, ChallengeCoordinator, CoordinatorProof, Join
from leasehold.errors import Refused

log = logging.getLogger(__name__)


class Membership:
    """Of one coordinator process; `keys` is None for one that was started without the cluster key."""

    def __init__(self, keys: ProofKeys | None) -> None:
        self._keys = keys
        self._addresses: frozenset[str] = frozenset()

    @property
    def anybody_may_join(self) -> bool:
        """Whether a process may become a node without a proof."""
        return self._keys is None

    def serve_at(self, *addresses: str) -> None:
        """The addresses at which clients are meant to reach this process."""
        self._addresses = frozenset(addresses)

    def warn(self) -> None:
        """Says in the log that anybody may join, if so."""
        if self.anybody_may_join:
            log.warning(
                "ANYONE WHO CAN REACH THIS PORT MAY JOIN AS A NODE AND COPY ALL DATA: this coordinator has no cluster"
                " key; start it, and each node, with --cluster-key FILE (`leasehold cluster-key FILE` makes one)"
            )

    def check(self, request: Allocate | AskIncarnation | Join) -> None:
        """Raises `Refused` (NOT_A_MEMBER) for a request without the proof; to be called before anything else of it is
        believed."""
        rejected = reject_stranger(request, self._keys)
        if rejected is not None:
            raise Refused(rejected.text, code=rejected.code, hint=rejected.hint)

    def prove(self, challenge: ChallengeCoordinator) -> CoordinatorProof:
        """Proves only the addresses of this process: whoever relays a challenge from another port gets no proof."""
        return prove_coordinator(challenge, self._keys, self._addresses)
