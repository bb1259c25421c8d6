"""The changes of a table as rows: what differs between two sets of rows (`client/changes.py`)."""

import datetime
import decimal
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from leasehold.client.changes import LABELS, changes_schema, pieces, read_piece
from leasehold.core.words.messages import CommitChanges, ScanPlan, TableFacts
from leasehold.core.words.records import Field, SegmentFormat, SegmentRecord
from leasehold.errors import Refused, Unreachable
from leasehold.ids import BucketNumber, FieldId, Revision, SegmentId
from leasehold.storage.schema import arrow_schema
from tests.golden.examples import example

NOON = datetime.datetime(2026, 6, 15, 12, tzinfo=datetime.UTC)
TYPES = {
    "BOOLEAN": [True, False, None],
    "TINYINT": [-128, 127, None],
    "BIGINT": [-(2**63), 2**63 - 1, None],
    "FLOAT": [float("nan"), float("inf"), None],
    "DOUBLE": [float("nan"), 1e300, None],
    "DECIMAL(38,10)": [decimal.Decimal("-1.5"), decimal.Decimal(10) ** 27, None],
    "STRING": ["", "é", None],
    "BINARY": [b"", b"\xff\0", None],
    "DATE": [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None],
    "TIMESTAMP": [datetime.datetime(1, 1, 1, tzinfo=datetime.UTC), NOON, None],
}
FIELDS = tuple(
    msgspec.structs.replace(example(Field, full=False), id=FieldId(number), name=f"a {kind}", type=kind, nullable=True)
    for number, kind in enumerate(TYPES, 1)
)
ROWS = pa.RecordBatch.from_arrays(
    [pa.array(TYPES[one.type], arrow_schema([one]).field(0).type) for one in FIELDS], schema=arrow_schema(FIELDS)
)


def segment(name: str, bucket: int = 0) -> SegmentRecord:
    least = example(SegmentRecord, full=False)
    return msgspec.structs.replace(
        least, id=SegmentId(name), bucket=BucketNumber(bucket), format=SegmentFormat.FIELD_IDS
    )


def plan(fields: tuple[Field, ...] = FIELDS) -> ScanPlan:
    return ScanPlan(facts=example(TableFacts, full=False), fields=fields, segments=())


def commit(added: Iterable[SegmentRecord], taken: Iterable[SegmentRecord] = ()) -> CommitChanges:
    return CommitChanges(revision=Revision(7), added=tuple(added), taken=tuple(taken))


def read_from(rows: dict[str, list[pa.RecordBatch]]):
    def read(asked: ScanPlan) -> Iterator[pa.RecordBatch]:
        for one in asked.segments:
            yield from rows[one.id]

    return read


def changes(rows: dict[str, list[pa.RecordBatch]], added: str, taken: str, fields: tuple[Field, ...] = FIELDS):
    piece = commit(map(segment, added), map(segment, taken))
    found = list(read_piece(plan(fields), piece, read_from(rows)))
    assert all(one.schema.equals(changes_schema(fields)) for one in found)
    return pa.Table.from_batches(found, changes_schema(fields))


def counted(found: pa.Table) -> Counter[str]:
    return Counter(str(list(row.values())[: -len(LABELS)]) + row["_change"] for row in found.to_pylist())


def test_appended_rows_all_came_with_the_commit_beside_them():
    found = changes({"a": [ROWS], "b": [ROWS.slice(0, 1)]}, "ab", "")
    assert found.num_rows == 4
    assert str(found.select(range(len(FIELDS))).slice(0, 3).to_pylist()) == str(ROWS.to_pylist())
    assert set(found.column("_change").to_pylist()) == {"insert"}
    assert set(found.column("_revision").to_pylist()) == {7}


def test_rows_of_all_types_that_are_on_both_sides_are_no_change():
    assert changes({"a": [ROWS], "b": [ROWS.slice(2), ROWS.slice(0, 2)]}, "a", "b").num_rows == 0


@pytest.mark.parametrize("row", range(ROWS.num_rows))
def test_a_row_that_went_and_a_row_that_came(row: int):
    rest = pa.Table.from_batches([ROWS.slice(0, row), ROWS.slice(row + 1)]).to_batches()
    one = pa.Table.from_batches([ROWS.slice(row, 1)], ROWS.schema).to_pylist()[0]
    shown = str(list(one.values()))
    assert counted(changes({"a": rest, "b": [ROWS]}, "a", "b")) == {shown + "delete": 1}
    assert counted(changes({"a": [ROWS], "b": rest}, "a", "b")) == {shown + "insert": 1}


def test_equal_rows_are_counted():
    fields, three = FIELDS[:1], ROWS.select([0])
    many = pa.Table.from_batches([three.slice(0, 1)] * 200_000).combine_chunks().to_batches()
    found = changes({"a": many, "b": [three]}, "a", "b", fields)
    assert Counter(map(str, found.select([0, 1]).to_pylist())) == {
        "{'a BOOLEAN': True, '_change': 'insert'}": 199_999,
        "{'a BOOLEAN': False, '_change': 'delete'}": 1,
        "{'a BOOLEAN': None, '_change': 'delete'}": 1,
    }


def test_a_commit_that_replaced_rows_is_compared_by_bucket_and_an_append_by_segment():
    replaced = commit([segment("a", 0), segment("b", 1)], [segment("c", 1), segment("d", 2)])
    appended = commit([segment("e", 0), segment("f", 0)])
    found = [
        ("".join(i.id for i in one.added), "".join(i.id for i in one.taken)) for one in pieces([replaced, appended])
    ]
    assert found == [("a", ""), ("b", "c"), ("", "d"), ("e", ""), ("f", "")]


def test_an_error_of_a_scan_comes_as_it_is():
    def read(_: ScanPlan) -> Iterator[pa.RecordBatch]:
        yield ROWS
        raise Unreachable("node 3: it is away", was_sent=False)

    with pytest.raises(Unreachable, match="node 3"):
        list(read_piece(plan(), commit([segment("a")], [segment("b")]), read))


def test_what_does_not_fit_into_memory_lies_in_files_that_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("leasehold.client.changes.CHANGES_MEMORY_BYTES", 64 * 1024 * 1024)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fields = FIELDS[2:3]
    schema = arrow_schema(fields)
    parts = [
        pa.RecordBatch.from_arrays([pa.array(range(at, at + 50_000))], schema=schema) for at in range(0, 10**6, 50_000)
    ]
    found = changes({"a": parts, "b": parts[1:]}, "a", "b", fields)
    assert sorted(found.column(0).to_pylist()) == list(range(50_000))
    assert list(tmp_path.iterdir()) == []


def test_a_column_with_the_name_of_a_label_is_refused():
    odd = msgspec.structs.replace(FIELDS[0], name="_REVISION")
    with pytest.raises(Refused) as caught:
        changes_schema([odd])
    assert caught.value.code == "BAD_SCHEMA"
