"""A query's cutoff: a scan shows all of what a DELETE or a TTL takes, or nothing of it, or ends (INV-SCAN-1)."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from leasehold.core.ddl import finish, roll_back
from leasehold.core.words.messages import Cutoff, ReadTicket
from leasehold.core.words.records import ProcedureRecord
from leasehold.core.words.statements import AlterProperties
from leasehold.errors import Refused
from leasehold.ids import Revision
from leasehold.limits.upkeep import DELETES_MAX
from leasehold.wire.flight import calling, ticket
from tests.unit.node.cluster import NAME, Cluster, Node, cluster
from tests.unit.node.disk.test_masks import delete, keys_of, pair
from tests.unit.node.serving.test_scans import append, read, refused, segment_of

__all__ = ["pair"]


def broken_off(node: Node, request: ReadTicket) -> tuple[list[int], str]:
    """The rows of each batch that came, and the code of the error that ended the stream."""
    assert node.flight is not None
    found: list[int] = []
    with pytest.raises(Refused) as caught, calling("node"):
        for chunk in flight.FlightClient(f"grpc://{node.flight.address}").do_get(ticket(request)):
            found.append(chunk.data.num_rows)  # noqa: PERF401 what came before the error
    return found, caught.value.code


def test_a_delete_between_two_batches_ends_a_planned_scan_at_a_row_that_it_takes(pair: Cluster) -> None:
    """The batches before it may have had rows of the same DELETE (INV-SCAN-1)."""
    request = pair.planned_ticket(segment_of(pair))
    pair.node(1).at_reading(3, lambda: pair.run(delete(("k", "<", "1500"))))
    assert broken_off(pair.node(1), request) == ([1000], "ROWS_TAKEN_AWAY")


def test_a_delete_of_rows_that_were_not_read_yet_ends_a_planned_scan_where_they_begin(pair: Cluster) -> None:
    """Another segment of the plan may have had rows of it."""
    request = pair.planned_ticket(segment_of(pair))
    pair.node(1).at_reading(3, lambda: pair.run(delete(("k", ">=", "2000"))))
    assert broken_off(pair.node(1), request) == ([1000, 1000], "ROWS_TAKEN_AWAY")


def test_a_delete_that_takes_nothing_that_a_planned_scan_reads_does_not_end_it(pair: Cluster) -> None:
    request = pair.planned_ticket(segment_of(pair))
    pair.node(1).at_reading(3, lambda: pair.run(delete(("k", "=", "1"))))
    assert [batch.num_rows for batch, _ in read(pair.node(1), request)] == [1000, 1000, 500]


def test_rows_that_an_older_delete_takes_too_do_not_end_a_planned_scan(pair: Cluster) -> None:
    pair.run(delete(("k", "<", "1500")))
    request = pair.planned_ticket(segment_of(pair))
    pair.run(delete(("k", "<", "1400")))
    assert [batch.num_rows for batch, _ in read(pair.node(1), request)] == [0, 500, 500]


@pytest.mark.parametrize("ends", ["rolled back", "done"])
def test_a_scan_planned_under_a_delete_ends_if_that_is_rolled_back_and_only_then(pair: Cluster, ends: str) -> None:
    procedure = pair.hide(delete(("k", "<", "1500")))
    request = pair.planned_ticket(segment_of(pair))
    if ends == "done":
        pair.node(1).at_reading(3, lambda: pair.change(finish(procedure, pair.catalog)))
        assert [batch.num_rows for batch, _ in read(pair.node(1), request)] == [0, 500, 500]
        return
    pair.node(1).at_reading(3, lambda: pair.change(roll_back(procedure, pair.catalog, elapsed_ns=1)))
    assert broken_off(pair.node(1), request) == ([0], "ROWS_TAKEN_AWAY")
    assert refused(pair.node(1), request) == "ROWS_TAKEN_AWAY"


def test_a_scan_planned_under_a_delete_of_nothing_goes_on_when_its_record_is_gone(pair: Cluster) -> None:
    procedure = pair.hide(delete(("k", ">", "9999")))
    request = pair.planned_ticket(segment_of(pair))
    pair.change(finish(procedure, pair.catalog))
    assert pair.table.id not in pair.catalog.deletes
    assert sum(batch.num_rows for batch, _ in read(pair.node(1), request)) == 2500


def test_a_cutoff_out_of_bounds_is_no_ticket(pair: Cluster) -> None:
    gone = Cutoff(revision=Revision(1), deletes=0)
    too_many = tuple(range(DELETES_MAX + 1))
    for code, wrong in (("BAD_MESSAGE", {"undecided": too_many}), ("BAD_TICKET", {"earliest_us": 2**63})):
        request = pair.read_ticket(segment_of(pair), cutoff=msgspec.structs.replace(gone, **wrong))
        assert refused(pair.node(1), request) == code


# ---------------------------------------------------------------- expiry


def expiring(made: Cluster) -> ReadTicket:
    """A planned scan of 2,500 rows of one segment, in which row k is k microseconds old; 20 of them have expired."""
    made.create(("k", "BIGINT"), ("at", "TIMESTAMP"), replication=1, ttl_ns=10_000_000, time_column="at")
    keys_ = pa.array(range(2500), pa.int64())
    append(made, pa.record_batch({"k": keys_, "at": keys_.cast(pa.timestamp("us", "UTC"))}))
    made.expire_before(20)
    return made.planned_ticket(segment_of(made))


def test_a_horizon_that_moves_with_time_takes_nothing_from_a_planned_scan(tmp_path: Path) -> None:
    with cluster(tmp_path, nodes=1) as made:
        request = expiring(made)
        made.node(1).at_reading(3, lambda: made.expire_before(2000))
        assert [batch.num_rows for batch, _ in read(made.node(1), request)] == [980, 1000, 500]
        assert keys_of(made) == list(range(2000, 2500))


def shorten(made: Cluster, ttl_ns: int) -> ProcedureRecord:
    """A TTL by which what lies before microsecond 2500 - ttl has expired."""
    made.wall_us = 2500
    return made.hide(AlterProperties(table=NAME, properties={}, ttl_ns=ttl_ns))


@pytest.mark.parametrize("ends", ["pending", "done", "moved on"])
def test_a_shorter_ttl_ends_a_planned_scan_at_a_row_that_it_takes(tmp_path: Path, ends: str) -> None:
    with cluster(tmp_path, nodes=1) as made:
        request = expiring(made)

        def shorter() -> None:
            procedure = shorten(made, 1_000_000)
            if ends != "pending":
                made.change(finish(procedure, made.catalog))
            if ends == "moved on":
                made.expire_before(1600)

        made.node(1).at_reading(3, shorter)
        assert broken_off(made.node(1), request) == ([980], "ROWS_TAKEN_AWAY")
        assert refused(made.node(1), msgspec.structs.replace(request, row_offset=1000)) == "ROWS_TAKEN_AWAY"
        rest = read(made.node(1), msgspec.structs.replace(request, row_offset=2000))
        assert sum(batch.num_rows for batch, _ in rest) == 500, "of which it takes none"


def test_a_first_ttl_ends_a_planned_scan_too(tmp_path: Path) -> None:
    with cluster(tmp_path, nodes=1) as made:
        made.create(("k", "BIGINT"), ("at", "TIMESTAMP"), replication=1, time_column="at")
        keys_ = pa.array(range(2500), pa.int64())
        append(made, pa.record_batch({"k": keys_, "at": keys_.cast(pa.timestamp("us", "UTC"))}))
        request = made.planned_ticket(segment_of(made))
        made.node(1).at_reading(3, lambda: shorten(made, 1_000_000))
        assert broken_off(made.node(1), request) == ([1000], "ROWS_TAKEN_AWAY")


def test_a_scan_planned_under_a_shorter_ttl_shows_all_of_it_even_if_that_is_rolled_back(tmp_path: Path) -> None:
    with cluster(tmp_path, nodes=1) as made:
        expiring(made)
        procedure = shorten(made, 1_000_000)
        request = made.planned_ticket(segment_of(made))
        made.node(1).at_reading(3, lambda: made.change(roll_back(procedure, made.catalog, elapsed_ns=1)))
        assert [batch.num_rows for batch, _ in read(made.node(1), request)] == [0, 500, 500]
        assert keys_of(made) == list(range(20, 2500))
