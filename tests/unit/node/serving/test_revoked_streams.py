"""Streams of a caller whose certificate is revoked meanwhile, over TLS: each ends at its next message."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyarrow import flight

from leasehold.certificates.summary import summarise
from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import RowsEnd
from leasehold.core.words.operations import Change
from leasehold.core.words.records import RevokedCertificateRecord
from leasehold.errors import LeaseholdError
from leasehold.wire.flight import HEALTH, calling, descriptor, reader_to, send, ticket
from leasehold.wire.tls import Tls, read_tls
from tests.certificate_words import issued, of_process
from tests.unit.node.cluster import Cluster, cluster, rows
from tests.unit.node.serving.stream_words import files_of, until_gone, write_ticket
from tests.unit.node.serving.test_scans import append, segment_of


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return issued(tmp_path_factory.mktemp("pki") / "ours")


@pytest.fixture
def served(tmp_path: Path, pki: Path) -> Iterator[Cluster]:
    """2,500 rows in one segment on a node with TLS, served in batches of 1,000."""
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"), replication=1)
        append(made, rows(0, 2500))
        until_gone(made)
        made.tls = of_process(pki / "node-1")
        made.start(made.node(1))
        yield made


def revocation(folder: Path) -> Change:
    serial = summarise(folder, datetime.now(UTC)).certificates[0].serial
    return put(keys.revoked_certificate(serial), RevokedCertificateRecord(serial=serial))


def batches(made: Cluster, tls: Tls) -> int:
    """How many come before an error."""
    address = made.catalog.nodes[made.node(1).id].address
    found = 0
    with calling(address):
        for _ in reader_to(address, tls).do_get(ticket(made.read_ticket(segment_of(made)))):
            found += 1
    return found


def test_a_scan_ends_at_the_next_batch(served: Cluster, pki: Path) -> None:
    ann = read_tls(pki / "ann")
    assert batches(served, ann) == 3
    served.node(1).at_reading(3, lambda: served.change([revocation(pki / "ann")]))
    with pytest.raises(LeaseholdError) as caught:
        batches(served, ann)
    assert caught.value.code == "CERTIFICATE_REVOKED"
    with pytest.raises(LeaseholdError) as caught:
        batches(served, ann)
    assert caught.value.code == "CERTIFICATE_REVOKED"
    assert batches(served, read_tls(pki / "ann" / "ca.pem")) == 3, "who shows no certificate shows no revoked one"


def test_an_append_ends_at_the_next_batch_and_leaves_nothing(served: Cluster, pki: Path) -> None:
    request, batch = write_ticket(served), rows(0, 10)
    address, before = served.catalog.nodes[served.node(1).id].address, files_of(served, 1)
    client = reader_to(address, read_tls(pki / "ann"))
    writer, answers = client.do_put(descriptor(request), batch.schema)
    with pytest.raises(LeaseholdError) as caught, calling(address):
        send(writer, batch)
        served.change([revocation(pki / "ann")])
        send(writer, batch)
        writer.write_metadata(encode(RowsEnd(rows=20)))
        writer.done_writing()
        answers.read()
        writer.close()
    assert caught.value.code == "CERTIFICATE_REVOKED"
    until_gone(served)
    assert files_of(served, 1) == before


def test_every_call_is_refused(served: Cluster, pki: Path) -> None:
    served.change([revocation(pki / "node-2")])
    address = served.catalog.nodes[served.node(1).id].address
    client = reader_to(address, read_tls(pki / "node-2"))
    for call in (lambda: list(client.do_action(flight.Action(HEALTH, b""))), lambda: list(client.list_actions())):
        with pytest.raises(LeaseholdError) as caught, calling(address):
            call()
        assert caught.value.code == "CERTIFICATE_REVOKED"
