"""What a coordinator process knows of the cluster key and of its own addresses."""

import msgspec
import pytest

from leasehold.coordinator.nodes.proofs import Membership
from leasehold.core.membership.proofs import derive_keys, prove_coordinator
from leasehold.core.words.messages import ChallengeCoordinator
from leasehold.errors import Refused
from leasehold.limits.swim import CLUSTER_KEY_BYTES

KEYS = derive_keys(bytes(CLUSTER_KEY_BYTES))
CHALLENGE = ChallengeCoordinator(cluster_id="c" * 32, address="127.0.0.1:7000", nonce="0" * 32)


def test_it_proves_the_addresses_at_which_it_serves_and_no_others() -> None:
    one = Membership(KEYS)
    assert not one.anybody_may_join
    with pytest.raises(Refused):
        one.prove(CHALLENGE)
    one.serve_at("127.0.0.1:7000")
    assert one.prove(CHALLENGE) == prove_coordinator(CHALLENGE, KEYS, {CHALLENGE.address})
    with pytest.raises(Refused):
        one.prove(msgspec.structs.replace(CHALLENGE, address="127.0.0.1:7001"))


def test_without_the_key_anybody_may_join() -> None:
    assert Membership(None).anybody_may_join
