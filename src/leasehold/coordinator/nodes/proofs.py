"""Proofs with the cluster key at a coordinator: checks those of nodes, makes its own (`core/membership/proofs.py`)."""

import logging
from collections.abc import Callable
from typing import Final

from leasehold.core.membership.admission import reject_stranger
from leasehold.core.membership.proofs import ProofKeys, prove_coordinator
from leasehold.core.words.messages import ChallengeCoordinator, CoordinatorProof, OfMember
from leasehold.errors import Refused

log = logging.getLogger(__name__)


class Membership:
    """The proofs of one coordinator process; `keys` is None without a cluster key. With `certificates` members have
    shown one (`core/access/callers.py`). `certificate_ends_s` tells when its own ends, in seconds since 1970 UTC."""

    def __init__(
        self,
        keys: ProofKeys | None,
        *,
        certificates: bool = False,
        certificate_ends_s: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._keys = keys
        self.certificate_ends_s: Final = certificate_ends_s
        self.anybody_may_join: Final = keys is None and not certificates
        """Whether a process may become a node without a proof."""
        self._addresses: frozenset[str] = frozenset()

    def serve_at(self, *addresses: str) -> None:
        """Sets the addresses at which clients reach this process."""
        self._addresses = frozenset(addresses)

    def warn(self) -> None:
        """Logs a warning if anybody may join."""
        if self.anybody_may_join:
            log.warning(
                "ANYONE WHO CAN REACH THIS PORT MAY JOIN AS A NODE AND COPY ALL DATA: this coordinator has no cluster"
                " key; start it, and each node, with --cluster-key FILE (`leasehold cluster-key FILE` makes one)"
            )

    def check(self, request: OfMember) -> None:
        """Raises `Refused` (NOT_A_MEMBER) for a request without the proof. Call it before anything else is checked."""
        rejected = reject_stranger(request, self._keys)
        if rejected is not None:
            raise Refused(rejected.text, code=rejected.code, hint=rejected.hint)

    def prove(self, challenge: ChallengeCoordinator) -> CoordinatorProof:
        """Proves only the addresses of this process: a challenge that was relayed from another port gets no proof."""
        return prove_coordinator(challenge, self._keys, self._addresses)
