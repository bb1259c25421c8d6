"""What a coordinator proves of itself to clients, and to whom it proves nothing."""

import msgspec
import pytest

from leasehold.coordinator.membership import Membership
from leasehold.core.messages import ChallengeCoordinator
from leasehold.core.proofs import coordinator_proof, derive_keys
from leasehold.errors import Refused
from leasehold.limits.swim import CLUSTER_KEY_BYTES

KEYS = derive_keys(bytes(CLUSTER_KEY_BYTES))
CHALLENGE = ChallengeCoordinator(cluster_id="c" * 32, address="127.0.0.1:7000", nonce="0" * 32)


def test_it_proves_the_addresses_at_which_it_serves() -> None:
    one = Membership(KEYS)
    one.serve_at("127.0.0.1:7000", "10.0.0.1:7000")
    for address in ("127.0.0.1:7000", "10.0.0.1:7000"):
        challenge = msgspec.structs.replace(CHALLENGE, address=address)
        assert one.prove(challenge).proof == coordinator_proof(challenge, KEYS)


@pytest.mark.parametrize("address", ["127.0.0.1:7001", "127.0.0.2:7000", "", "127.0.0.1:70000"])
def test_it_proves_no_address_of_another_process(address: str) -> None:
    one = Membership(KEYS)
    one.serve_at("127.0.0.1:7000")
    with pytest.raises(Refused) as caught:
        one.prove(msgspec.structs.replace(CHALLENGE, address=address))
    assert caught.value.code == "OTHER_ADDRESS"


def test_without_the_key_it_proves_nothing_and_lets_anybody_in() -> None:
    one = Membership(None)
    one.serve_at("127.0.0.1:7000")
    assert one.anybody_may_join
    with pytest.raises(Refused) as caught:
        one.prove(CHALLENGE)
    assert caught.value.code == "NO_CLUSTER_KEY"
    assert "--cluster-key" in caught.value.hint
