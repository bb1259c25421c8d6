"""Proofs that a process holds the cluster key, which never travels itself (DESIGN section 5).

| proof | made by | checked by | covers |
| --- | --- | --- | --- |
| of a member | a node that asks for an id or to join, and `leasehold node adopt` | the leader | the request |
| of a coordinator | a coordinator, for a challenge | a client, before it sends a password or login | the challenge |

A proof is the HMAC-SHA256 of the message's bytes without the proof. The key is derived from the cluster key under a
named purpose, another one for each kind of proof: what a coordinator answers to a challenge admits nobody as a node.
A replayed request says what its sender said before: the leader answers the same, and writes nothing.
"""

import hmac
from typing import Final, TypeVar

import msgspec

from leasehold.core.codec import encode
from leasehold.core.messages import Allocate, AskIncarnation, ChallengeCoordinator, Join
from leasehold.limits import CLUSTER_KEY_BYTES

_MEMBER: Final = b"leasehold member proof/1"
_COORDINATOR: Final = b"leasehold coordinator proof/1"

R = TypeVar("R", Allocate, AskIncarnation, Join)


class ProofKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The derived keys; secrets, so nothing shows them."""

    member: bytes
    coordinator: bytes

    def __repr__(self) -> str:
        return "ProofKeys(..)"


def derive_keys(cluster_key: bytes) -> ProofKeys:
    """The keys of both kinds of proof."""
    assert len(cluster_key) == CLUSTER_KEY_BYTES, "a cluster key has one length"
    return ProofKeys(
        member=hmac.digest(cluster_key, _MEMBER, "sha256"), coordinator=hmac.digest(cluster_key, _COORDINATOR, "sha256")
    )


def with_proof(request: R, keys: ProofKeys | None) -> R:
    """The same request with the proof that a member sends it; unchanged for a process without the cluster key."""
    return request if keys is None else msgspec.structs.replace(request, proof=_member_proof(request, keys))


def is_of_member(request: Allocate | AskIncarnation | Join, keys: ProofKeys) -> bool:
    """Whether the sender of a request holds the cluster key."""
    return hmac.compare_digest(request.proof or b"", _member_proof(request, keys))


def coordinator_proof(challenge: ChallengeCoordinator, keys: ProofKeys) -> bytes:
    """What a coordinator of that cluster, reached at that address, answers; compare with `hmac.compare_digest`."""
    return hmac.digest(keys.coordinator, encode(challenge), "sha256")


def _member_proof(request: Allocate | AskIncarnation | Join, keys: ProofKeys) -> bytes:
    return hmac.digest(keys.member, encode(msgspec.structs.replace(request, proof=None)), "sha256")
