"""A client over TLS takes a node for the one that its plan names, and for no other of the cluster."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from leasehold.client.append import stage
from leasehold.client.scan import read_plan
from leasehold.core.catalog.plan import put
from leasehold.core.data.asking import Asking
from leasehold.core.words import keys
from leasehold.errors import LeaseholdError
from leasehold.limits.units import SECOND_NS
from leasehold.wire.tls import Tls, read_tls
from tests.certificate_words import issued, of_process
from tests.unit.node.cluster import Cluster, cluster, rows
from tests.unit.node.serving.stream_words import until_gone
from tests.unit.node.serving.test_scans import append

SOON = Asking(SECOND_NS)
LONG = Asking()


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return issued(tmp_path_factory.mktemp("pki") / "ours")


@pytest.fixture
def served(tmp_path: Path, pki: Path) -> Iterator[Cluster]:
    """A node with rows that shows the certificate of node-1."""
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"), replication=1)
        append(made, rows(0, 10))
        until_gone(made)
        made.tls = of_process(pki / "node-1")
        made.start(made.node(1))
        yield made


def name(made: Cluster, name: str) -> None:
    record = made.catalog.nodes[made.node(1).id]
    made.change([put(keys.node(record.id), msgspec.structs.replace(record, name=name))])


def write(made: Cluster, tls: Tls, asking: Asking) -> None:
    transaction = made.open()
    staged = stage(made.facts(), transaction, [rows(10, 1)], made.catalog.revision, tls=tls, asking=asking)
    made.commit(transaction, staged)


def test_rows_are_read_from_and_sent_to_the_node_that_is_named_alone(served: Cluster, pki: Path) -> None:
    for holder in ("ann", "ann/ca.pem"):
        tls = read_tls(pki / holder)
        name(served, "node-1")
        before = read_plan(served.plan(), tls=tls).read_all().num_rows
        write(served, tls, LONG)
        assert read_plan(served.plan(), tls=tls).read_all().num_rows == before + 1
        name(served, "node-2")
        asks: tuple[Callable[[], object], ...] = (
            lambda: read_plan(served.plan(), tls=tls, asking=SOON).read_all(),  # noqa: B023
            lambda: write(served, tls, SOON),  # noqa: B023
        )
        for ask in asks:
            with pytest.raises(LeaseholdError) as caught:
                ask()
            assert "the certificate of another process" in f"{caught.value}"
            assert caught.value.code == "NO_REPLICA"
