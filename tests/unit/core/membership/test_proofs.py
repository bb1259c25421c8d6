"""Proofs under the cluster key: who is of the cluster, byte for byte, and what no proof is good for."""

from itertools import pairwise

import msgspec
import pytest

from leasehold.core.membership.admission import reject_stranger
from leasehold.core.membership.proofs import (
    Challenge,
    ProofKeys,
    coordinator_proof,
    derive_keys,
    is_of_member,
    prove_coordinator,
    with_proof,
)
from leasehold.core.membership.rejections import Reject
from leasehold.core.words.messages import Allocate, AskIncarnation, ChallengeCoordinator
from leasehold.errors import Refused
from leasehold.limits.swim import CLUSTER_KEY_BYTES
from tests.unit.core.join_words import TOKEN, request_to_join

KEYS, OTHERS = derive_keys(bytes(CLUSTER_KEY_BYTES)), derive_keys(b"k" * CLUSTER_KEY_BYTES)
ALLOCATE = Allocate(cluster_id="c" * 32, token=TOKEN, name="n1", address="h:1")
ADOPT = AskIncarnation(cluster_id="c" * 32, token=TOKEN, node=1)
REQUESTS = (ALLOCATE, request_to_join(), ADOPT)
CHALLENGE = ChallengeCoordinator(cluster_id="c" * 32, address="127.0.0.1:7000", nonce="0" * 32)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: type(one).__name__)
def test_only_a_proof_under_the_own_key_is_one(request_):
    proven = with_proof(request_, KEYS)
    assert reject_stranger(proven, KEYS) is None
    for wrong in (
        request_,
        with_proof(request_, OTHERS),
        msgspec.structs.replace(request_, proof=b""),
        msgspec.structs.replace(proven, proof=proven.proof[:-1]),
        msgspec.structs.replace(proven, token="f" * 32),
        with_proof(request_, ProofKeys(member=KEYS.coordinator, coordinator=KEYS.member)),
    ):
        rejected = reject_stranger(wrong, KEYS)
        assert isinstance(rejected, Reject)
        assert rejected.code == "NOT_A_MEMBER"
        assert "--cluster-key FILE" in rejected.hint


def test_while_one_key_takes_the_place_of_another_both_are_believed_and_the_first_proves():
    old, new = bytes(CLUSTER_KEY_BYTES), b"k" * CLUSTER_KEY_BYTES
    steps = [derive_keys(*keys) for keys in ((old,), (old, new), (new, old), (new,))]
    for before, after in pairwise(steps):  # processes are one step apart at most
        for one, other in ((before, after), (after, before)):
            for request_ in REQUESTS:
                assert is_of_member(with_proof(request_, one), other)
            challenge = Challenge("c" * 32, "127.0.0.1:7000", "0" * 32, other)
            challenge.check(prove_coordinator(challenge.request, one, SERVED))
    assert not is_of_member(with_proof(ALLOCATE, steps[0]), steps[-1])
    assert with_proof(ALLOCATE, steps[1]) == with_proof(ALLOCATE, steps[0])


def test_keys_that_change_are_those_of_whoever_has_them():
    keys = derive_keys(bytes(CLUSTER_KEY_BYTES))
    keys.become(OTHERS)
    assert keys == OTHERS


def test_each_field_of_a_request_is_covered():
    """Golden bytes cover the encoding; here, that nothing of it is left out of the proof."""
    for request_ in REQUESTS:
        proven = with_proof(request_, KEYS)
        for field in request_.__struct_fields__:
            value = getattr(request_, field)
            if field == "proof":
                continue
            other = {str: "other", int: 99, bytes: b"other", tuple: ("other",)}.get(type(value), "other")
            assert not is_of_member(msgspec.structs.replace(proven, **{field: other}), KEYS), field


def test_a_proof_is_of_one_kind_of_request():
    for one in REQUESTS:
        for other in REQUESTS:
            lent = msgspec.structs.replace(other, proof=with_proof(one, KEYS).proof)
            assert is_of_member(lent, KEYS) is (one is other)


def test_without_a_key_every_process_is_let_through_and_nothing_is_proven():
    for request_ in REQUESTS:
        assert with_proof(request_, None) is request_
        assert reject_stranger(request_, None) is None
        assert reject_stranger(with_proof(request_, KEYS), None) is None


def test_a_challenge_is_no_oracle_for_requests():
    """A coordinator answers challenges to anybody: whatever they say, the answer admits no node."""
    answers = {
        coordinator_proof(msgspec.structs.replace(CHALLENGE, nonce=nonce, address=address), KEYS)
        for nonce in ("", TOKEN, "0" * 32)
        for address in ("", "h:1", ALLOCATE.name)
    }
    assert len(answers) == 9
    for request_ in REQUESTS:
        assert with_proof(request_, KEYS).proof not in answers
        assert not any(is_of_member(msgspec.structs.replace(request_, proof=one), KEYS) for one in answers)


def test_the_bytes_of_proofs_stay_what_they_are():
    """A coordinator of one version lets nodes of another in."""
    assert with_proof(ALLOCATE, KEYS).proof.hex()[:16] == "96d49b77ae14feba"
    assert coordinator_proof(CHALLENGE, KEYS).hex()[:16] == "313fb34cf3dce637"


def test_keys_are_shown_nowhere():
    for secret in (KEYS.member, KEYS.coordinator):
        assert repr(secret) not in repr(KEYS)
        assert secret.hex() not in repr(KEYS)


# ---------------------------------------------------------------- what a coordinator proves of itself

SERVED = frozenset({"127.0.0.1:7000", "10.0.0.1:7000"})


@pytest.mark.parametrize("address", sorted(SERVED))
def test_a_coordinator_proves_the_addresses_at_which_it_serves(address):
    challenge = msgspec.structs.replace(CHALLENGE, address=address)
    assert prove_coordinator(challenge, KEYS, SERVED).proof == coordinator_proof(challenge, KEYS)


@pytest.mark.parametrize("address", ["127.0.0.1:7001", "127.0.0.2:7000", "", "127.0.0.1:70000"])
def test_a_coordinator_proves_no_address_of_another_process(address):
    with pytest.raises(Refused) as caught:
        prove_coordinator(msgspec.structs.replace(CHALLENGE, address=address), KEYS, SERVED)
    assert caught.value.code == "OTHER_ADDRESS"


def test_a_coordinator_without_the_key_proves_nothing():
    with pytest.raises(Refused) as caught:
        prove_coordinator(CHALLENGE, None, SERVED)
    assert caught.value.code == "NO_CLUSTER_KEY"
    assert "--cluster-key" in caught.value.hint
