"""The memory of decoded requests."""

import gc
import tracemalloc

import msgspec
import pytest

from leasehold.core.words.codec import decode_request, encode
from leasehold.core.words.messages import (
    AskTable,
    CommitTransaction,
    Execute,
    FieldFilter,
    Filter,
    Message,
    PlanQuery,
    PlanScan,
    Replaced,
    SegmentHolder,
    StagedSegment,
)
from leasehold.core.words.records import ColumnStatistics, Field, UseState
from leasehold.core.words.request_sizes import decoded_bytes, held_bytes
from leasehold.core.words.statements import Literal
from leasehold.ids import (
    BucketNumber,
    ClusterId,
    FieldId,
    Incarnation,
    NodeId,
    ObjectId,
    SchemaVersion,
    SegmentId,
    StatementId,
    TransactionId,
)
from leasehold.limits.messages import ASKED_MAX
from leasehold.limits.statements import COLUMNS_MAX
from leasehold.sql.parse import parse

WIDE = "a" * 27 + "\N{GRINNING FACE}"
"""Four bytes for each character."""
SEGMENT = SegmentId("a" * 65)
COVERED = FieldFilter(
    field=Field(id=FieldId(1), name="c", type="STRING", nullable=True, state=UseState.IN_USE),
    operator="IN",
    values=("ab",) * 9_000,
)
COMMIT = CommitTransaction(
    cluster_id=ClusterId("c"),
    transaction=TransactionId("a" * 32),
    login=None,
    segments=(
        StagedSegment(
            id=SEGMENT,
            table=ObjectId(1),
            bucket=BucketNumber(0),
            schema_version=SchemaVersion(1),
            rows=1,
            size_bytes=1_000,
            sha256=bytes(32),
            statistics=(ColumnStatistics(field=FieldId(1), nulls=0, minimum="ab", maximum="yz"),) * 20,
            holders=(SegmentHolder(node=NodeId(1), incarnation=Incarnation(1), seal=bytes(32)),) * 3,
        ),
    )
    * 300,
)


@pytest.mark.parametrize(
    "request_",
    [
        PlanScan(cluster_id=None, name="db.t", columns=tuple(f"c{number}" for number in range(COLUMNS_MAX))),
        PlanScan(
            cluster_id=None,
            name="db.t",
            columns=None,
            where=(Filter(column="c", operator="IN", values=(Literal("string", WIDE),) * 900),) * 3,
        ),
        PlanScan(
            cluster_id=None, name="db.t", columns=None, where=(Filter(column="cc", operator="IS NULL"),) * ASKED_MAX
        ),
        PlanQuery(cluster_id=None, names=(f"db.{WIDE}",) * ASKED_MAX),
        Execute(cluster_id=None, statement=StatementId("1" * 32), text=WIDE * 300),
        COMMIT,
        msgspec.structs.replace(
            COMMIT, segments=(), replaces=(Replaced(bucket=BucketNumber(1), segment=SEGMENT),) * 400
        ),
        msgspec.structs.replace(COMMIT, segments=(), covers=(COVERED,)),
    ],
)
def test_a_request_is_counted_by_its_memory(request_: Message) -> None:
    blob = encode(request_)
    is_commit = isinstance(request_, CommitTransaction)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    decoded = [decode_request(blob, commit=is_commit) for _ in range(10)]
    taken = (tracemalloc.get_traced_memory()[0] - before) / len(decoded)
    tracemalloc.stop()
    assert 0.75 * taken < decoded_bytes(decoded[0]) < 1.4 * taken


def test_a_small_request_counts_little() -> None:
    assert decoded_bytes(AskTable(cluster_id=None, name="db.t")) < 1_000


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE d.t (" + ", ".join(f"c{number} INT" for number in range(COLUMNS_MAX)) + ")",
        "CREATE TABLE d.t ("
        + ", ".join(f"c{one} STRING DEFAULT 'x{one}' COMMENT '{WIDE}'" for one in range(500))
        + ")",
        "ALTER TABLE d.t SET TBLPROPERTIES (" + ", ".join(f"'k{one}' = '{one} {WIDE}'" for one in range(50)) + ")",
        f"COMMENT ON TABLE d.t /*{WIDE * 3_000}*/ IS 'x'",
    ],
    ids=["a wide table", "texts", "properties", "a long comment"],
)
def test_a_parsed_statement_is_counted_by_its_memory(text: str) -> None:
    parse(text + " ")  # what the parser keeps
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    copies = [text + " " * number for number in range(1, 5)]
    held = [(one, parse(one)) for one in copies]
    gc.collect()
    taken = (tracemalloc.get_traced_memory()[0] - before) / len(held)
    tracemalloc.stop()
    assert 0.75 * taken < held_bytes(held[0]) < 1.4 * taken


def test_what_is_held_twice_is_counted_once() -> None:
    text = WIDE * 1_000
    assert held_bytes((text, text)) < held_bytes(text) + 100
