"""What follows from the reports of nodes about their files."""

import pytest

from leasehold.core.replicas.reports import after_report
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.messages import SegmentsHeld, SegmentsMissing, TableCleaned
from leasehold.core.words.records import BucketRecord, DroppedRecord, SegmentRecord
from tests.unit.core.catalog_words import Ground, hex_128

SEGMENT, ALONE = (f"{hex_128(number)}-{hex_128(0)}" for number in (1, 2))
WHO = {"node": 2, "incarnation": 1, "session": "5" * 32}


def segment(name, *holders):
    return SegmentRecord(
        id=name,
        table=7,
        bucket=0,
        schema_version=1,
        rows=1,
        size_bytes=1,
        sha256=b"s",
        statistics=(),
        holders=holders,
    )


@pytest.fixture
def ground():
    made = Ground()
    made.put(keys.bucket(7, 0), BucketRecord(table=7, bucket=0, replicas=(1, 2), in_sync=(1,)))
    made.put(keys.segment(7, 0, SEGMENT), segment(SEGMENT, 1))
    return made


def of(kind, *names, table=7):
    return kind(**WHO, table=table, bucket=0, segments=names)


def test_what_a_node_has_fetched_is_written_and_once_it_lacks_nothing_it_is_in_sync(ground):
    changes, alone = after_report(of(SegmentsHeld, SEGMENT), ground.catalog)
    assert alone == ()
    written = {change.key: change.value for change in changes}
    assert decode_record(SegmentRecord, written[keys.segment(7, 0, SEGMENT)]).holders == (1, 2)
    assert decode_record(BucketRecord, written[keys.bucket(7, 0)]).in_sync == (1, 2)
    ground.commit(changes)
    assert after_report(of(SegmentsHeld, SEGMENT), ground.catalog) == ((), ()), "reported twice, written once"


def test_what_a_node_lacks_is_taken_from_it_unless_nobody_else_holds_it(ground):
    ground.put(keys.segment(7, 0, SEGMENT), segment(SEGMENT, 1, 2))
    ground.put(keys.segment(7, 0, ALONE), segment(ALONE, 2))
    ground.put(keys.bucket(7, 0), BucketRecord(table=7, bucket=0, replicas=(1, 2), in_sync=(1, 2)))
    changes, alone = after_report(of(SegmentsMissing, SEGMENT, ALONE), ground.catalog)
    assert alone == (ALONE,)
    later = ground.commit(changes)
    assert later.segments[7, 0][SEGMENT].holders == (1,)
    assert later.segments[7, 0][ALONE].holders == (2,)
    assert later.buckets[7, 0].in_sync == (1,)


@pytest.mark.parametrize("kind", [SegmentsHeld, SegmentsMissing])
def test_a_report_of_a_bucket_that_is_gone_changes_nothing(ground, kind):
    assert after_report(of(kind, SEGMENT, table=8), ground.catalog) == ((), ())


def test_the_last_node_that_has_deleted_the_files_of_a_dropped_table_ends_its_record(ground):
    ground.put(keys.dropped(9), DroppedRecord(table=9, name="d.t", pending=(1, 2)))
    for node in (2, 2, 1):
        message = TableCleaned(node=node, incarnation=1, session="5" * 32, table=9)
        changes, alone = after_report(message, ground.catalog)
        assert alone == ()
        if changes:
            ground.commit(changes)
    assert 9 not in ground.catalog.dropped
