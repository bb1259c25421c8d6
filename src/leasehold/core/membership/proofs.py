"""Proofs that a process holds the cluster key, which never travels itself (docs/design.md, "Identity").

| proof | made by | checked by | covers |
| --- | --- | --- | --- |
| of a member | a node, `leasehold node adopt`, a coordinator that reports itself | the leader | the request |
| of a coordinator | a coordinator, for a challenge | a client or node, before it sends it a secret | the challenge |

A proof is the HMAC-SHA256 of the message's bytes without the proof. Each kind of proof has a key of its own, derived
from the cluster key: a coordinator's answer to a challenge admits nobody as a node. A replayed request gets the same
answer, and nothing is written.
"""

import hmac
from collections.abc import Collection
from typing import Final, TypeVar

import msgspec

from leasehold.core.words import messages
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import Message
from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite, NotInitialised, NotLeader, Refused
from leasehold.ids import ClusterId, Nonce
from leasehold.limits.swim import CLUSTER_KEY_BYTES

_MEMBER: Final = b"leasehold member proof/1"
_COORDINATOR: Final = b"leasehold coordinator proof/1"

R = TypeVar("R", bound=messages.OfMember)


class ProofKeys(msgspec.Struct, kw_only=True):
    """The derived keys: secrets that `repr` does not show. A process may change them while it runs."""

    member: bytes
    coordinator: bytes
    other: "ProofKeys | None" = None
    """Those of a second cluster key, while one takes the place of the other: they are believed and prove nothing."""

    def become(self, keys: "ProofKeys") -> None:
        """Whoever has this object uses those of `keys` from now on."""
        self.member, self.coordinator, self.other = keys.member, keys.coordinator, keys.other

    def __repr__(self) -> str:
        return "ProofKeys(..)"


def derive_keys(cluster_key: bytes, *others: bytes) -> ProofKeys:
    """Those of the first cluster key, and of another one that is believed too."""
    assert len(cluster_key) == CLUSTER_KEY_BYTES, "a cluster key has one length"
    return ProofKeys(
        member=hmac.digest(cluster_key, _MEMBER, "sha256"),
        coordinator=hmac.digest(cluster_key, _COORDINATOR, "sha256"),
        other=derive_keys(*others) if others else None,
    )


def with_proof(request: R, keys: ProofKeys | None) -> R:
    """The same request with the proof that a member sends it; unchanged for a process without the cluster key."""
    return request if keys is None else msgspec.structs.replace(request, proof=_member_proof(request, keys))


def is_of_member(request: messages.OfMember, keys: ProofKeys) -> bool:
    """Whether the sender of a request holds the cluster key."""
    if hmac.compare_digest(request.proof or b"", _member_proof(request, keys)):
        return True
    return keys.other is not None and is_of_member(request, keys.other)


def coordinator_proof(challenge: messages.ChallengeCoordinator, keys: ProofKeys) -> bytes:
    """What a coordinator of that cluster, reached at that address, answers; compare with `hmac.compare_digest`."""
    return hmac.digest(keys.coordinator, encode(challenge), "sha256")


def prove_coordinator(
    challenge: messages.ChallengeCoordinator, keys: ProofKeys | None, addresses: Collection[str]
) -> messages.CoordinatorProof:
    """Proves that the process which serves at `addresses` is of the cluster; a challenge that was relayed from another
    address gets no proof. Raises `Refused` (NO_CLUSTER_KEY, OTHER_ADDRESS)."""
    if keys is None:
        raise Refused(
            "this coordinator has no cluster key, so it can't prove that it belongs to the cluster",
            code=ErrorCode.NO_CLUSTER_KEY,
            hint="start it again with --cluster-key FILE; `leasehold down`, then `leasehold up` does that",
        )
    if challenge.address not in addresses:
        raise Refused(
            f"this coordinator is not at {challenge.address[:80]!r}",
            code=ErrorCode.OTHER_ADDRESS,
            hint="connect to the address that it listens on or advertises",
        )
    return messages.CoordinatorProof(proof=coordinator_proof(challenge, keys))


class Challenge:
    """One challenge of the process at an address; `request` is what to send. Nothing secret is sent before `check`."""

    def __init__(self, cluster_id: ClusterId, address: str, nonce: Nonce, keys: ProofKeys) -> None:
        self.request = messages.ChallengeCoordinator(cluster_id=cluster_id, address=address, nonce=nonce)
        self._keys = keys

    def check(self, answer: Message) -> None:
        """Raises `Refused` (COORDINATOR_UNPROVEN) unless the answer proves a coordinator of the cluster."""
        if not isinstance(answer, messages.CoordinatorProof):
            raise self._unproven(f"it answered with {type(answer).__name__}")
        keys: ProofKeys | None = self._keys
        while keys is not None:
            if hmac.compare_digest(answer.proof, coordinator_proof(self.request, keys)):
                return
            keys = keys.other
        raise self._unproven("its proof is wrong")

    def refusal(self, error: Definite) -> Definite:
        """The error for a challenge that was answered with `error`: the same where the caller may ask again."""
        if isinstance(error, NotInitialised | NotLeader):
            return error
        return self._unproven(f"it answered: {error.text}")

    def _unproven(self, why: str) -> Refused:
        return Refused(
            f"the process at {self.request.address} does not prove that it is the coordinator of cluster"
            f" {self.request.cluster_id}, so nothing secret was sent to it: {why}",
            code=ErrorCode.COORDINATOR_UNPROVEN,
            hint="see which process listens there, for example with `ss -ltnp`; if it is the coordinator, start"
            " it again with"
            " --cluster-key FILE and the key of this cluster, as `leasehold up` does",
        )


def _member_proof(request: messages.OfMember, keys: ProofKeys) -> bytes:
    return hmac.digest(keys.member, encode(msgspec.structs.replace(request, proof=None)), "sha256")
