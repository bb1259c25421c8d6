"""New segments that a node writes with the rows of old ones: what it reads, whom it answers, and how it ends."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from leasehold.core.data import compactions
from leasehold.core.data.commit import abort_transaction
from leasehold.core.words.codec import decode_message
from leasehold.core.words.messages import CompactProgress, CompactTicket, StagedSegment
from leasehold.core.words.records import Right
from leasehold.errors import LeaseholdError
from leasehold.ids import BucketNumber, ClusterId, SegmentId, TransactionId
from leasehold.limits.units import MILLISECOND_NS
from leasehold.wire.flight import calling, ticket
from tests.unit.client.test_compaction import delete
from tests.unit.node.cluster import CLUSTER, Cluster, Node, cluster, rows
from tests.unit.node.serving.stream_words import files_of, until_gone
from tests.unit.node.serving.test_authorised import ROLE, TOKEN, principal, right, settle
from tests.unit.node.serving.test_scans import append


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    """Three segments of 2,500 rows on two nodes, read in batches of 1,000."""
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        for start in (0, 2_500, 5_000):
            append(made, rows(start, 2_500))
        yield made


def compact_ticket(made: Cluster, **other: Any) -> CompactTicket:
    """For all segments of the table."""
    transaction = made.open()
    whole = CompactTicket(
        cluster_id=CLUSTER,
        transaction=transaction,
        segment=SegmentId(f"{transaction}-{'b' * 32}"),
        table=made.table.id,
        bucket=BucketNumber(0),
        schema_version=made.table.schema_version,
        joined=tuple((one.id, one.sha256) for one in made.plan().segments),
        revision=made.catalog.revision,
        generation=made.facts().generation,
    )
    return msgspec.structs.replace(whole, **other)


def answers(node: Node, request: CompactTicket) -> Iterator[CompactProgress | StagedSegment]:
    assert node.flight is not None
    with calling("node"):
        for chunk in flight.FlightClient(f"grpc://{node.flight.address}").do_get(ticket(request)):
            batch: pa.RecordBatch = chunk.data
            for value in batch.column(0):
                one = decode_message(value.as_py())
                assert isinstance(one, CompactProgress | StagedSegment)
                yield one


def refusal(made: Cluster, request: CompactTicket) -> str:
    before = files_of(made, 1)
    with pytest.raises(LeaseholdError) as caught:
        list(answers(made.node(1), request))
    assert files_of(made, 1) == before, "nothing is left of it"
    return str(caught.value.code)


def test_the_rows_that_are_left_are_in_the_new_segment_on_both_nodes(pair: Cluster) -> None:
    pair.run(delete("<", 2_600))
    request = compact_ticket(pair)
    *_, staged = answers(pair.node(1), request)
    assert isinstance(staged, StagedSegment)
    assert (staged.id, staged.rows, len(staged.holders)) == (request.segment, 4_900, 2)
    files = [node.files.path(pair.table.id, BucketNumber(0), staged.id).read_bytes() for node in pair.nodes]
    assert files[0] == files[1]


def test_it_tells_that_it_goes_on(pair: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compactions, "COMPACT_TOLD_NS", 1)
    *told, staged = answers(pair.node(1), compact_ticket(pair))
    counts = [one.rows for one in told if isinstance(one, CompactProgress)]
    assert counts == sorted(counts)
    assert counts
    assert isinstance(staged, StagedSegment)


def test_whose_client_is_gone_ends_and_leaves_nothing(pair: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compactions, "COMPACT_TOLD_NS", MILLISECOND_NS)
    pair.limit(batch_rows=1)
    before = files_of(pair, 1)
    assert pair.node(1).flight is not None
    with calling("node"):
        reader = flight.FlightClient(f"grpc://{pair.node(1).flight.address}").do_get(ticket(compact_ticket(pair)))
        reader.read_chunk()
        reader.cancel()
    for thread in threading.enumerate():
        if thread.name == "compaction":
            thread.join()
    until_gone(pair)
    assert files_of(pair, 1) == before
    assert pair.node(1).readings < 7_500, "each row is a batch: it did not read them all"


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"cluster_id": ClusterId("f" * 32)}, "OTHER_CLUSTER"),
        ({"joined": ()}, "BAD_TICKET"),
        ({"joined": ((SegmentId("s"), b""),) * 2}, "BAD_TICKET"),
        ({"joined": ((SegmentId("a" * 32 + "-" + "b" * 32), b""),)}, "SEGMENT_UNKNOWN"),
        ({"transaction": TransactionId("e" * 32)}, "BAD_SEGMENT"),
        ({"bucket": BucketNumber(1)}, "NOT_ASSIGNED"),
    ],
)
def test_what_is_no_compaction_is_refused(pair: Cluster, other: dict[str, Any], code: str) -> None:
    assert refusal(pair, compact_ticket(pair, **other)) == code


def test_a_segment_with_another_hash_is_not_read(pair: Cluster) -> None:
    request = compact_ticket(pair)
    (first, _), *rest = request.joined
    assert refusal(pair, msgspec.structs.replace(request, joined=((first, b"other"), *rest))) == "SEGMENT_UNKNOWN"


def test_it_is_part_of_an_open_transaction(pair: Cluster) -> None:
    request = compact_ticket(pair)
    pair.change(abort_transaction(request.transaction, pair.catalog))
    assert refusal(pair, request) == "ABORTED"


@pytest.mark.parametrize("missing", [Right.SELECT, Right.INSERT])
def test_it_needs_the_rights_of_a_scan_and_of_an_append(pair: Cluster, missing: Right) -> None:
    settle(pair, right(pair, *(one for one in Right if one is not missing)))
    assert refusal(pair, compact_ticket(pair, login=TOKEN)) == "FORBIDDEN"
    assert refusal(pair, compact_ticket(pair)) == "UNAUTHENTICATED"


def test_a_login_that_the_node_does_not_show_yet_is_waited_for(pair: Cluster) -> None:
    settle(pair, right(pair, *Right))
    request = compact_ticket(pair, login=TOKEN)
    pair.change([principal(ROLE)], shown=False)
    later = msgspec.structs.replace(request, revision=pair.catalog.revision)
    old = pair.node(1).published
    old.view = msgspec.structs.replace(old.view, logins=type(old.view.logins)())
    timer = threading.Timer(0.2, pair.show)
    timer.start()
    *_, staged = answers(pair.node(1), later)
    timer.join()
    assert isinstance(staged, StagedSegment)
    assert staged.rows == 7_500


def test_a_right_that_goes_meanwhile_ends_it(pair: Cluster) -> None:
    settle(pair, right(pair, *Right))
    request = compact_ticket(pair, login=TOKEN)
    pair.node(1).at_reading(8, lambda: pair.change([right(pair, *Right, leaving=tuple(Right))]))
    assert refusal(pair, request) == "FORBIDDEN"


def test_only_so_many_go_on_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compactions, "COMPACTIONS_MAX", 0)
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        append(made, rows(0, 10))
        assert refusal(made, compact_ticket(made)) == "BUSY"
