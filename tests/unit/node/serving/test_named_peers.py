"""A node over TLS takes another node for its peer only by the certificate of that name."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from leasehold.core.catalog.plan import put
from leasehold.core.data.write_access import Peer
from leasehold.core.words import keys
from leasehold.core.words.messages import ForwardTicket
from leasehold.errors import LeaseholdError, Refused, Unreachable
from leasehold.ids import NodeId
from leasehold.limits.units import SECOND_NS
from leasehold.node.disk.disk_port import FlightCopies, fetch_segment
from leasehold.node.serving.peers import FlightPeers
from leasehold.wire.steps import run
from leasehold.wire.tls import Tls
from tests.certificate_words import issued, of_process
from tests.unit.node.cluster import CLUSTER, Cluster, cluster, rows
from tests.unit.node.serving.stream_words import forward_ticket, until_gone
from tests.unit.node.serving.test_authorised import segment_of
from tests.unit.node.serving.test_scans import append


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Cluster, Tls]]:
    """Two nodes with a segment each, of which node-1 serves with its certificate, and that of node-2."""
    pki = issued(tmp_path / "pki")
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        append(made, rows(0, 10))
        until_gone(made)
        made.tls = of_process(pki / "node-1")
        made.start(made.node(1))
        for node in (NodeId(1), NodeId(2)):
            record = msgspec.structs.replace(made.catalog.nodes[node], name=f"node-{node}")
            made.change([put(keys.node(node), record)])
        yield made, of_process(pki / "node-2")


def named(made: Cluster, name: str) -> Peer:
    return Peer(NodeId(1), made.catalog.nodes[NodeId(1)].address, name)


def of_node_2(made: Cluster) -> ForwardTicket:
    return forward_ticket(made, sender=NodeId(2), session=made.node(2).published.session)


def test_a_probe_is_answered_by_the_peer_alone(served: tuple[Cluster, Tls]) -> None:
    made, tls = served
    peers, ticket = FlightPeers(tls), of_node_2(made)
    for name, answers in (("node-1", True), ("node-2", False)):
        peer = named(made, name)
        assert run(peers.is_answering(peer, SECOND_NS)) is answers
        assert run(peers.probe(peer, SECOND_NS, ticket)).is_answering is answers


def test_rows_are_forwarded_to_the_peer_alone(served: tuple[Cluster, Tls]) -> None:
    made, tls = served

    admitted: list[bool] = []

    async def forward(name: str) -> None:
        async with FlightPeers(tls).open(named(made, name), of_node_2(made)) as stream:
            admitted.append(await stream.is_admitted())

    with pytest.raises(Refused, match="broke off"):
        run(forward("node-1"))
    assert admitted == [True]
    with pytest.raises(Unreachable, match="the certificate of another process"):
        run(forward("node-2"))


def test_a_segment_is_fetched_from_the_peer_alone(served: tuple[Cluster, Tls]) -> None:
    made, tls = served
    segment, lacks = segment_of(made), made.node(2)
    lacks.files.trash(segment.table, segment.bucket, segment.id)
    said: list[LeaseholdError | None] = []
    for name in ("node-2", "node-1"):
        peers = [named(made, name)]
        fetch_segment(
            lacks.files,
            segment,
            peers,
            CLUSTER,
            lacks.published,
            lambda _node, error, _came: said.append(error),
            copies=FlightCopies(tls),
        )
    refused, fetched = said
    assert "the certificate of another process" in f"{refused}"
    assert fetched is None
