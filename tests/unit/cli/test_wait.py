"""What a person is told of a node that does not serve in time."""

from pathlib import Path

import msgspec
import pytest
from tests.unit.cli.test_status import NODE

from leasehold.cli.wait import not_serving
from leasehold.client.locate import CLUSTER_FILE, CLUSTER_FILE_VERSION, ClusterFile
from leasehold.ids import ClusterId
from leasehold.limits.units import SECOND_NS


def test_a_process_that_waits_to_be_let_in_is_not_to_be_started(tmp_path: Path) -> None:
    node = msgspec.structs.replace(NODE, state="DOWN", stage="WAITING")
    hint = not_serving(tmp_path, node.name, node, "DOWN", SECOND_NS).hint
    assert f"leasehold node wait node-1 --dir {tmp_path} --timeout" in hint


@pytest.mark.parametrize(
    ("nodes", "state", "typed"),
    [
        (("node-1",), "DOWN", "leasehold chaos start node-1"),
        (("node-2",), "DOWN", "leasehold node start --dir .."),
        (("node-1",), "FENCED", "leasehold logs node-1"),
        (("node-2",), "FENCED", "its log on its machine"),
    ],
)
def test_the_hint_is_for_where_the_node_lives(tmp_path: Path, nodes: tuple[str, ...], state: str, typed: str) -> None:
    """A node may run beside the cluster that `leasehold up` started there, which knows nothing of its process."""
    written = ClusterFile(
        format=CLUSTER_FILE_VERSION,
        cluster_id=ClusterId("c" * 32),
        coordinators={"coordinator": "127.0.0.1:1"},
        nodes=nodes,
    )
    (tmp_path / CLUSTER_FILE).write_bytes(msgspec.json.encode(written))
    node = msgspec.structs.replace(NODE, state=state)
    assert typed in not_serving(tmp_path, node.name, node, state, SECOND_NS).hint
