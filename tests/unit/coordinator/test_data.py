"""Plans of tables with many segments."""

import msgspec
import pytest

from leasehold.coordinator.data import Data
from leasehold.core.codec import encode
from leasehold.core.messages import PlanScan
from leasehold.core.records import ColumnStatistics, SegmentRecord
from leasehold.errors import Refused
from leasehold.limits import MESSAGE_BYTES_MAX
from leasehold.wire.clock import BoottimeClock
from tests.unit.node.cluster import Cluster

PLAN = PlanScan(cluster_id=None, name="db.t", columns=None)
FIT = 60_000
TOO_MANY = 100_000


class Writer:
    """What `Data` needs of the writer here."""

    def __init__(self, catalog):
        self.catalog = catalog


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A table's catalog and so many of its segments, with statistics."""
    made = Cluster(tmp_path_factory.mktemp("nodes"), nodes=3)
    for node in made.nodes:
        made.stop(node)
    made.create(("k", "BIGINT"), ("v", "STRING"), replication=3)
    statistics = tuple(
        ColumnStatistics(field=number, nulls=0, minimum="a" * 32, maximum="z" * 32) for number in range(1, 11)
    )
    segments = {}
    for number in range(TOO_MANY):
        name = f"{number:032x}-{number:032x}"
        segments[name] = SegmentRecord(
            id=name,
            table=made.table.id,
            bucket=0,
            schema_version=1,
            rows=2**20,
            size_bytes=2**31,
            sha256=b"h" * 32,
            statistics=statistics,
            holders=(1, 2, 3),
        )
    return made.catalog, (made.table.id, 0), segments


def plan(many, count):
    catalog, bucket, segments = many
    some = {name: segments[name] for name in list(segments)[:count]}
    catalog = msgspec.structs.replace(catalog, segments=catalog.segments.insert(bucket, some))
    return Data(Writer(catalog), None, BoottimeClock()).plan(PLAN)


def test_a_plan_leaves_the_statistics_out_and_names_many_segments(many):
    made = plan(many, FIT)
    assert len(made.segments) == FIT
    assert all(one.statistics == () for one in made.segments)
    assert len(encode(made)) <= MESSAGE_BYTES_MAX


def test_a_plan_of_too_many_segments_is_refused_with_advice(many):
    with pytest.raises(Refused) as caught:
        plan(many, TOO_MANY)
    assert caught.value.code == "TOO_MANY_SEGMENTS"
    assert "db.t" in caught.value.text
    assert "larger appends" in caught.value.hint
