"""A scrub that an administrator asks a node for: what it finds, and what becomes of it."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from leasehold.client.append import stage
from leasehold.core.catalog.plan import put
from leasehold.core.replicas.reconcile import OnDisk
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_message
from leasehold.core.words.messages import ScrubbedTable, ScrubEnd, ScrubTicket
from leasehold.core.words.records import SegmentRecord
from leasehold.errors import LeaseholdError
from leasehold.ids import ClusterId, NodeId, ObjectId, Revision
from leasehold.limits import scrub as limits
from leasehold.node.serving import scrubs
from leasehold.wire.flight import calling, ticket
from tests.unit.node.cluster import CLUSTER, Cluster, Node, cluster, no_lease, rows
from tests.unit.node.disk.test_suspects import on_disk


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Three segments on two nodes."""
    monkeypatch.setattr(scrubs, "SCRUB_POLL_NS", 1_000_000)
    monkeypatch.setattr(scrubs, "SCRUB_HEAL_NS", 0)
    with cluster(tmp_path, nodes=2) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        for number in range(3):
            transaction = made.open()
            made.commit(transaction, stage(made.facts(), transaction, [rows(number, 100)], made.catalog.revision))
        yield made


def scrub(made: Cluster, node: Node, **other: object) -> list[ScrubbedTable | ScrubEnd]:
    assert node.flight is not None
    request = ScrubTicket(cluster_id=CLUSTER, revision=made.catalog.revision)
    request = msgspec.structs.replace(request, **other)
    found: list[ScrubbedTable | ScrubEnd] = []
    with calling("node"):
        for chunk in flight.FlightClient(f"grpc://{node.flight.address}").do_get(ticket(request)):
            batch: pa.RecordBatch = chunk.data
            for value in batch.column(0):
                one = decode_message(value.as_py())
                assert isinstance(one, ScrubbedTable | ScrubEnd)
                found.append(one)
    return found


def last(found: list[ScrubbedTable | ScrubEnd]) -> ScrubbedTable:
    *_, table, end = found
    assert isinstance(end, ScrubEnd)
    assert isinstance(table, ScrubbedTable)
    return table


def path_on(node: Node, record: SegmentRecord) -> Path:
    return node.files.path(record.table, record.bucket, record.id)


def spoil(node: Node, record: SegmentRecord) -> None:
    path = path_on(node, record)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_it_counts_what_it_reads(made: Cluster) -> None:
    segments = made.plan().segments
    found = last(scrub(made, made.node(1)))
    size_bytes = sum(one.size_bytes for one in segments)
    assert found == ScrubbedTable(table=segments[0].table, name="db.t", files=3, size_bytes=size_bytes)


def test_a_damaged_file_is_suspected_and_a_missing_or_unknown_one_counted(made: Cluster) -> None:
    first, second, _ = made.plan().segments
    node = made.node(1)
    spoil(node, first)
    path_on(node, second).unlink()
    stray = on_disk(7)
    with node.files.create(first.table, first.bucket, stray.segment) as file:
        file.write(b"what")
        file.finish()
    with node.files.create(ObjectId(99), first.bucket, stray.segment) as file:
        file.write(b"what")
        file.finish()
    messages = scrub(made, node)
    of_table = {one.table: one for one in messages if isinstance(one, ScrubbedTable)}
    found = of_table[first.table]
    assert (found.files, found.damaged, found.missing, found.unknown) == (2, 1, 1, 1)
    assert (found.unhealed, found.unhealed_rows, found.unhealed_segments) == (1, 100, (first.id,))
    assert (of_table[ObjectId(99)].name, of_table[ObjectId(99)].unknown) == ("", 1)
    assert node.published.suspects.first == OnDisk(first.table, first.bucket, first.id)
    assert path_on(node, first).exists()


def test_a_damaged_file_counts_as_healed_once_another_one_is_in_its_place(
    made: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = made.plan().segments
    node, polls = made.node(1), []
    sound = path_on(node, first).read_bytes()
    spoil(node, first)

    def heal(_pause_ns: int) -> None:
        """What the reconciler does, in its steps."""
        polls.append(1)
        one = OnDisk(first.table, first.bucket, first.id)
        if len(polls) == 1:
            node.published.suspects.found(one, damaged=True)
            node.published.suspects.checked(one)
        elif len(polls) == 2:
            made.change(
                [
                    put(
                        keys.segment(first.table, first.bucket, first.id),
                        msgspec.structs.replace(first, holders=(NodeId(2),)),
                    )
                ]
            )
            node.files.trash(first.table, first.bucket, first.id)
        elif len(polls) == 3:
            with node.files.create(first.table, first.bucket, first.id) as file:
                file.write(sound)
                file.finish()
            made.change([put(keys.segment(first.table, first.bucket, first.id), first)])

    monkeypatch.setattr(scrubs, "SCRUB_HEAL_NS", limits.SCRUB_HEAL_NS)
    monkeypatch.setattr(scrubs, "sleep_ns", heal)
    found = last(scrub(made, node))
    assert (found.damaged, found.healed, found.unhealed, len(polls)) == (1, 1, 0, 3)


def test_the_last_copy_is_not_waited_for(made: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    first, *_ = made.plan().segments
    alone = msgspec.structs.replace(first, holders=(NodeId(1),))
    made.change([put(keys.segment(first.table, first.bucket, first.id), alone)])
    spoil(made.node(1), first)
    monkeypatch.setattr(scrubs, "SCRUB_HEAL_NS", limits.SCRUB_HEAL_NS)
    monkeypatch.setattr(scrubs, "sleep_ns", lambda _ns: pytest.fail("nobody can heal it"))
    assert last(scrub(made, made.node(1))).unhealed_segments == (first.id,)


def test_one_table_alone_may_be_asked_for(made: Cluster) -> None:
    (table,) = {one.table for one in made.plan().segments}
    assert last(scrub(made, made.node(1), table=table)).files == 3
    with pytest.raises(LeaseholdError) as caught:
        scrub(made, made.node(1), table=ObjectId(77))
    assert caught.value.code == "TABLE_DROPPED"


def test_what_stands_against_a_ticket(made: Cluster) -> None:
    for code, other in (
        ("OTHER_CLUSTER", {"cluster_id": ClusterId("e" * 32)}),
        ("BEHIND", {"revision": Revision(10**6)}),
    ):
        with pytest.raises(LeaseholdError) as caught:
            scrub(made, made.node(1), **other)
        assert caught.value.code == code
    no_lease(made.node(1))
    with pytest.raises(LeaseholdError) as caught:
        scrub(made, made.node(1))
    assert caught.value.code == "FENCED"
