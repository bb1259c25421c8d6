"""A rewrite joins many small segments."""

from pathlib import Path

from leasehold.client.compaction import Compaction
from leasehold.limits.upkeep import SMALL_SEGMENTS_MIN
from tests.unit.client.test_compaction import Coordinated, delete
from tests.unit.node.cluster import cluster, rows
from tests.unit.node.serving.test_scans import append, segment_of


def test_many_small_appends_become_one_segment_with_the_same_rows(tmp_path: Path) -> None:
    with cluster(tmp_path, nodes=1) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"), replication=1)
        for start in range(SMALL_SEGMENTS_MIN):
            append(made, rows(start, 1))
        client = Coordinated(made)
        made.run(delete("=", 3))
        left = SMALL_SEGMENTS_MIN - 1
        done = client.compact()
        assert done == Compaction(
            segments_replaced=SMALL_SEGMENTS_MIN, segments_written=1, rows_kept=left, rows_removed=1
        )
        assert segment_of(made).rows == left
        assert client.rows() == [number for number in range(SMALL_SEGMENTS_MIN) if number != 3]
        append(made, rows(100, 1))
        assert client.compact() == Compaction(), "two are not many"
