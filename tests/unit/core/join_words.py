"""A request to join, as the tests of what is decided about it write it down: of node 3, let in five times before."""

import msgspec

from leasehold.core.words.messages import Join
from tests.unit.core.catalog_words import CLUSTER, hex_128

TOKEN, NONCE, SESSION = hex_128(1), hex_128(2), hex_128(3)
LINEAGE = b"L" * 32


def request_to_join(**fields):
    request = Join(
        cluster_id=CLUSTER.cluster_id,
        generation=1,
        token=TOKEN,
        node=3,
        name="n3",
        address="elsewhere:1",
        previous=5,
        nonce=NONCE,
        session=SESSION,
        protocol=1,
        applied=7,
        lineage=LINEAGE,
    )
    return msgspec.structs.replace(request, **fields)
