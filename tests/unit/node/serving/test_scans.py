"""What a scan decides, and on which view: the manifest and its hash, damage, expiry."""

import errno
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
from leasehold.core.words.messages import BatchMark, ReadTicket, ReadTogether, StagedSegment
from leasehold.core.words.operations import Change
from leasehold.core.words.records import Field, SegmentRecord, UseState
from leasehold.errors import LeaseholdError
from leasehold.ids import FieldId, Generation, Revision, SegmentId
from leasehold.limits.statements import LITERAL_CHARACTERS_MAX
from leasehold.storage import segment as storage
from leasehold.wire.flight import calling, expect, ticket
from tests.unit.node.cluster import DROP_TABLE, Cluster, Node, cluster, rows
from tests.unit.node.serving.stream_words import until_staged


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    """2,500 rows in one segment on two nodes, served in batches of 1,000."""
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        append(made, rows(0, 2500))
        yield made


def append(made: Cluster, batch: pa.RecordBatch) -> tuple[StagedSegment, ...]:
    transaction = made.open()
    staged = stage(made.facts(), transaction, [batch], made.catalog.revision)
    made.commit(transaction, staged)
    until_staged(made)
    return staged


def segment_of(made: Cluster) -> SegmentRecord:
    (segment,) = made.plan().segments
    return segment


def read(node: Node, request: ReadTicket | ReadTogether) -> list[tuple[pa.RecordBatch, BatchMark]]:
    assert node.flight is not None
    found: list[tuple[pa.RecordBatch, BatchMark]] = []
    with calling("node"):
        for chunk in flight.FlightClient(f"grpc://{node.flight.address}").do_get(ticket(request)):
            found.append((chunk.data, expect(BatchMark, chunk.app_metadata)))  # noqa: PERF401 what came before an error
    return found


def refused(node: Node, request: ReadTicket | ReadTogether) -> str:
    with pytest.raises(LeaseholdError) as caught:
        read(node, request)
    return caught.value.code


def is_there(made: Cluster, number: int, segment: SegmentRecord) -> bool:
    return made.node(number).files.exists(segment.table, segment.bucket, segment.id)


def damage(made: Cluster, number: int, segment: SegmentRecord) -> None:
    path = made.node(number).files.path(segment.table, segment.bucket, segment.id)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


# ---------------------------------------------------------------- the manifest


def test_a_ticket_with_another_hash_is_refused_and_the_file_stays(pair: Cluster) -> None:
    """A file that differs from its hash is damaged: the manifest says which hash, not the ticket."""
    segment = segment_of(pair)
    assert refused(pair.node(1), pair.read_ticket(segment, sha256=b"\x00" * 32)) == "SEGMENT_UNKNOWN"
    assert is_there(pair, 1, segment)
    assert sum(batch.num_rows for batch, _ in read(pair.node(1), pair.read_ticket(segment))) == 2500


def test_rows_that_are_not_committed_are_not_served(pair: Cluster) -> None:
    """INV-WRITE-2: the file is there, finished, and its hash is right; the view does not name it."""
    (staged,) = stage(pair.facts(), pair.open(), [rows(0, 10)], pair.catalog.revision)
    assert pair.node(1).files.exists(staged.table, staged.bucket, staged.id)
    request = msgspec.structs.replace(pair.read_ticket(segment_of(pair)), segment=staged.id, sha256=staged.sha256)
    assert refused(pair.node(1), request) == "SEGMENT_UNKNOWN"


def test_a_segment_that_leaves_the_manifest_ends_a_running_scan(pair: Cluster) -> None:
    segment = segment_of(pair)
    key = keys.segment(segment.table, segment.bucket, segment.id)
    gone = msgspec.structs.replace(put(key, segment), value=None)
    # One look at the clock admits the scan, then one for each batch.
    pair.node(1).at_reading(3, lambda: pair.change([gone]))
    assert refused(pair.node(1), pair.read_ticket(segment)) == "SEGMENT_UNKNOWN"


@pytest.mark.parametrize(
    "other", [{"segment": SegmentId("e" * 32 + "-" + "f" * 32)}, {"bucket": 7}, {"bucket": -1}, {"segment": "../x"}]
)
def test_what_the_view_does_not_know_is_no_empty_answer(pair: Cluster, other: dict[str, object]) -> None:
    request = msgspec.structs.replace(pair.read_ticket(segment_of(pair)), **other)
    assert refused(pair.node(1), request) == "SEGMENT_UNKNOWN"


# ---------------------------------------------------------------- damage


def test_a_damaged_file_serves_nothing_and_is_suspected(pair: Cluster) -> None:
    """What becomes of it is for the reconciler: the leader knows who else holds it."""
    segment, node = segment_of(pair), pair.node(1)
    damage(pair, 1, segment)
    assert refused(node, pair.read_ticket(segment)) == "CORRUPT"
    assert is_there(pair, 1, segment)
    assert node.published.suspects.first == OnDisk(segment.table, segment.bucket, segment.id)


def test_a_file_that_the_disk_can_t_read_is_suspected(pair: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    segment, node = segment_of(pair), pair.node(1)

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(storage.hashlib, "file_digest", fail)
    assert refused(node, pair.read_ticket(segment)) == "CORRUPT"
    assert node.published.suspects.first is not None


@pytest.mark.parametrize("error", [pa.ArrowMemoryError("malloc failed"), pa.ArrowInvalid("nobody knows why")])
def test_a_sound_file_stays_whatever_fails_while_it_is_read(
    pair: Cluster, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Every replica believes that another one has it: one query that needs much memory must not cost all copies."""
    segment = segment_of(pair)

    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(storage.pq.ParquetFile, "iter_batches", fail)
        code = "BUSY" if isinstance(error, MemoryError) else "CORRUPT"
        assert [refused(node, pair.read_ticket(segment)) for node in pair.nodes] == [code] * 2
    assert all(is_there(pair, node.id, segment) for node in pair.nodes)
    assert sum(batch.num_rows for batch, _ in read(pair.node(1), pair.read_ticket(segment))) == 2500


def test_a_lack_of_memory_beside_the_file_is_told_and_ends_nothing(
    pair: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(storage, "arrow_schema", fail)
    assert refused(pair.node(1), pair.read_ticket(segment_of(pair))) == "BUSY"
    assert is_there(pair, 1, segment_of(pair))


def test_a_ticket_with_a_first_value_that_no_column_has_is_refused(pair: Cluster) -> None:
    segment = segment_of(pair)
    longest = Field(id=FieldId(9), name="b", type="BINARY", nullable=True, state=UseState.IN_USE)
    longest = msgspec.structs.replace(longest, initial="00" * LITERAL_CHARACTERS_MAX)
    for initial in ("x" * (2 * LITERAL_CHARACTERS_MAX + 1), "x" * 40_000):
        first = msgspec.structs.replace(pair.read_ticket(segment).fields[0], initial=initial)
        assert refused(pair.node(1), pair.read_ticket(segment, fields=(first,))) == "BAD_TICKET"
    # One that a statement may give passes this, and ends since the table has no such column.
    assert refused(pair.node(1), pair.read_ticket(segment, fields=(longest,))) == "COLUMN_DROPPED"
    assert is_there(pair, 1, segment)


def test_a_ticket_that_names_a_column_again_is_refused(pair: Cluster) -> None:
    """It would be decoded again for each name."""
    segment = segment_of(pair)
    request = pair.read_ticket(segment)
    for fields in (request.fields * 2, request.fields[:1] * 2_000, (request.fields[0], *request.fields)):
        assert refused(pair.node(1), msgspec.structs.replace(request, fields=fields)) == "BAD_TICKET"
    assert len(read(pair.node(1), request)) == 3


def test_one_call_too_many_that_waits_for_a_revision_is_told_so(pair: Cluster) -> None:
    """Whoever may do nothing here can wait, too."""
    pair.limit(schema_wait_ns=50_000_000, waits_max=1)
    request, node, codes = pair.read_ticket(segment_of(pair)), pair.node(1), list[str]()
    request = msgspec.structs.replace(request, revision=Revision(pair.catalog.revision + 1))
    node.at_reading(1, lambda: codes.append(refused(node, request)))  # once the other call has its place
    codes.append(refused(node, request))
    codes.append(refused(node, request))
    assert codes == ["BUSY", "BEHIND", "BEHIND"]


# ---------------------------------------------------------------- each batch


@pytest.mark.parametrize("batches", [0, 1, 2])
def test_a_fence_ends_a_scan_at_the_batch_whose_guard_it_meets(pair: Cluster, batches: int) -> None:
    node, found = pair.node(1), []
    node.fence_at_reading(2 + batches)
    assert node.flight is not None
    with pytest.raises(LeaseholdError) as caught, calling("node"):
        there = flight.FlightClient(f"grpc://{node.flight.address}")
        found.extend(chunk.data.num_rows for chunk in there.do_get(ticket(pair.read_ticket(segment_of(pair)))))
    assert caught.value.code == "FENCED"
    assert found == [1000] * batches


def test_the_view_of_a_batch_is_the_one_that_its_guard_passed_on(pair: Cluster) -> None:
    node, before = pair.node(1), pair.catalog.revision
    node.at_reading(3, lambda: pair.change([]))
    marks = [mark.view_revision for _, mark in read(node, pair.read_ticket(segment_of(pair)))]
    assert marks == [before, before + 1, before + 1]


def test_a_drop_between_admission_and_the_first_batch_releases_nothing(pair: Cluster) -> None:
    request = pair.read_ticket(segment_of(pair))
    pair.node(1).at_reading(2, lambda: pair.hide(DROP_TABLE))
    assert refused(pair.node(1), request) == "TABLE_DROPPED"


def released(made: Cluster, *, shown: bool = True) -> None:
    """The segment is in the manifest no more, nor kept for scans under way."""
    record = segment_of(made)
    made.change([Change(keys.segment(record.table, record.bucket, record.id), None)], shown=shown)


def test_a_vault_that_is_ahead_of_the_view_is_not_mixed_with_it(pair: Cluster) -> None:
    """As in a leap: the vault holds it first, then it is shown."""
    node, request = pair.node(1), pair.read_ticket(segment_of(pair))
    released(pair, shown=False)
    node.stored = pair.catalog
    before = node.readings
    node.at_reading(2, pair.show)
    assert refused(node, request) == "SEGMENT_UNKNOWN"
    assert node.readings > before + 1, "it waited for the newer view"


def test_a_view_that_does_not_follow_its_vault_in_time_is_behind(pair: Cluster) -> None:
    pair.limit(schema_wait_ns=50_000_000)
    node, request = pair.node(1), pair.read_ticket(segment_of(pair))
    released(pair, shown=False)
    node.stored = pair.catalog
    assert refused(node, request) == "BEHIND"


def test_which_rows_have_expired_is_decided_with_the_batch(tmp_path: Path) -> None:
    """The horizon comes between admission and the first batch, whose columns were chosen without it."""
    with cluster(tmp_path, batch_rows=4) as made:
        made.create(("k", "BIGINT"), ("at", "TIMESTAMP"), ttl_ns=1, time_column="at")
        times = pa.array([1, 200] * 5, pa.int64()).cast(pa.timestamp("us", "UTC"))
        append(made, pa.record_batch({"k": pa.array(range(10), pa.int64()), "at": times}))
        (field,) = made.plan("k").fields
        request = made.read_ticket(segment_of(made), fields=(field,))
        made.node(1).at_reading(2, lambda: made.expire_before(100))
        found = [value for batch, _ in read(made.node(1), request) for value in batch["k"].to_pylist()]
        assert found == [1, 3, 5, 7, 9]


# ---------------------------------------------------------------- generations


@pytest.mark.parametrize("ahead", [0, 1_000])
def test_R6_a_plan_of_a_lost_state_is_refused_whatever_its_revision(pair: Cluster, ahead: int) -> None:
    """Its revision may be there again, or not yet: neither says that its fields mean the same."""
    pair.limit(schema_wait_ns=50_000_000)
    request = pair.read_ticket(segment_of(pair))
    pair.recovered(Generation(7))
    request = msgspec.structs.replace(request, revision=Revision(pair.catalog.revision + ahead))
    with pytest.raises(LeaseholdError, match=r"in generation 1 .* generation 7 now") as caught:
        read(pair.node(1), request)
    assert caught.value.code == "GENERATION_CHANGED"
    assert len(read(pair.node(1), pair.read_ticket(segment_of(pair)))) == 3


def test_R6_a_generation_that_begins_during_a_scan_ends_it_at_the_next_batch(pair: Cluster) -> None:
    node, found = pair.node(1), []
    node.at_reading(3, lambda: pair.recovered(Generation(7)))
    assert node.flight is not None
    with pytest.raises(LeaseholdError) as caught, calling("node"):
        there = flight.FlightClient(f"grpc://{node.flight.address}")
        found.extend(chunk.data.num_rows for chunk in there.do_get(ticket(pair.read_ticket(segment_of(pair)))))
    assert caught.value.code == "GENERATION_CHANGED"
    assert found == [1000]


def test_R6_a_node_that_is_still_in_the_lost_state_leaves_the_scan_to_others(pair: Cluster) -> None:
    """Its revision may be high enough, and its old lease go on: its ids are those of the lost state all the same."""
    request = pair.read_ticket(segment_of(pair), generation=Generation(7))
    assert refused(pair.node(1), request) == "BEHIND"
