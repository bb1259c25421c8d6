"""Calls for links against a node that never ends its answer."""

from collections.abc import Iterator

import pytest
from pyarrow import flight

from leasehold.client.local_calls import LocalNode
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import LocalProof
from leasehold.errors import Refused
from leasehold.ids import ClusterId, Revision

TAKEN_MAX = 1_000
"""What gRPC takes in of small answers before its window is full."""


class Endless(flight.FlightServerBase):
    """Answers each action again and again."""

    def __init__(self) -> None:
        self.answers = 0
        super().__init__("grpc://127.0.0.1:0")

    def do_action(self, _context: flight.ServerCallContext, _action: flight.Action) -> Iterator[flight.Result]:
        first = encode(LocalProof(path="/nowhere/local/proof"))
        while True:
            self.answers += 1
            yield flight.Result(first if self.answers == 1 else bytes(64 * 1024))


def test_a_node_that_never_ends_its_answer_fills_no_memory() -> None:
    with Endless() as server:
        node = LocalNode(ClusterId("c" * 32), f"127.0.0.1:{server.port}", "node-1", None, None)
        with pytest.raises(Refused) as caught:
            node.proof(Revision(1))
        assert caught.value.code == "NOT_LOCAL"
        assert server.answers < TAKEN_MAX
