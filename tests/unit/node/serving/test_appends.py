"""Writes at the level of streams, from a client: what is stored, what is refused, and what is cut off."""

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from leasehold.client.scan import read_plan
from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.messages import BytesEnd, RowsEnd, StagedSegment
from leasehold.core.words.statements import WidenColumn
from leasehold.core.words.types import parse_type
from leasehold.errors import LeaseholdError
from leasehold.storage.schema import FIELD_ID_KEY, arrow_schema
from leasehold.storage.segment import verify_segment
from leasehold.wire.flight import expect
from tests.unit.node.cluster import DROP_TABLE, NAME, Cluster, add, cluster, drop_column, rename, rows
from tests.unit.node.serving.stream_words import ROWS_SCHEMA, Stream, files_of, until_gone, write_ticket


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        yield made


def test_an_answer_describes_the_file_on_both_disks(pair: Cluster) -> None:
    ticket = write_ticket(pair)
    answer = Stream(pair, 1, ticket, ROWS_SCHEMA).send(rows(0, 100), rows(100, 50)).end(RowsEnd(rows=150))
    staged = expect(StagedSegment, answer)
    assert (staged.id, staged.rows, staged.schema_version) == (ticket.segment, 150, 1)
    assert [(one.node, one.incarnation) for one in staged.holders] == [(1, 1), (2, 1)]
    for node in pair.nodes:
        path = node.files.path(staged.table, staged.bucket, staged.id)
        verify_segment(path, size_bytes=staged.size_bytes, sha256=staged.sha256)


def test_a_column_that_the_writer_does_not_know_is_left_out_of_the_file(pair: Cluster) -> None:
    """There it reads as its first value: the default that was there when it came."""
    ticket = write_ticket(pair)
    pair.run(add("extra"))
    staged = expect(StagedSegment, Stream(pair, 1, ticket, ROWS_SCHEMA).send(rows(0, 3)).end(RowsEnd(rows=3)))
    assert staged.schema_version == 2
    assert [one.field for one in staged.statistics] == [1, 2]


def test_a_column_renamed_and_widened_under_the_writer_is_written_where_it_belongs(tmp_path: Path) -> None:
    """By id: here another column even bears the name that the writer knows."""
    with cluster(tmp_path) as made:
        made.create(("a", "INT"), ("b", "INT"))
        ids = [
            pa.field(name, pa.int32(), metadata={FIELD_ID_KEY: number}) for name, number in (("a", b"1"), ("b", b"2"))
        ]
        schema = pa.schema(ids)
        ticket = write_ticket(made)
        for statement in (rename("a", "c"), rename("b", "a"), rename("c", "b")):
            made.run(statement)
        made.run(WidenColumn(table=NAME, column="a", type=parse_type("BIGINT")))
        batch = pa.RecordBatch.from_pydict({"a": [1, 2], "b": [10, 20]}, schema)
        staged = expect(StagedSegment, Stream(made, 1, ticket, schema).send(batch).end(RowsEnd(rows=2)))
        made.commit(ticket.transaction, (staged,))
        found = read_plan(made.plan()).read_all()
        assert found.to_pydict() == {"b": [1, 2], "a": [10, 20]}
        assert found.schema.types == [pa.int32(), pa.int64()]


def test_columns_that_are_gone_or_nobody_knows_are_refused(pair: Cluster) -> None:
    ticket = write_ticket(pair)
    nameless = ROWS_SCHEMA.remove_metadata()
    plain = pa.schema([pa.field(one.name, one.type) for one in nameless])
    refused: list[str] = []
    pair.run(drop_column("v"))
    for schema in (ROWS_SCHEMA, plain):
        batch = pa.RecordBatch.from_arrays(rows(0, 3).columns, schema=schema)
        with pytest.raises(LeaseholdError) as caught:
            Stream(pair, 1, ticket, schema).send(batch).end(RowsEnd(rows=3))
        refused.append(caught.value.code)
    assert refused == ["SCHEMA_CHANGED", "ROWS_DO_NOT_FIT"]
    until_gone(pair)
    assert files_of(pair, 1) == files_of(pair, 2) == []


@pytest.mark.parametrize("mark", [None, RowsEnd(rows=2), RowsEnd(rows=4), b"\xff", BytesEnd(size_bytes=1, sha256=b"")])
def test_a_stream_without_its_right_end_leaves_nothing(pair: Cluster, mark: RowsEnd | BytesEnd | bytes | None) -> None:
    stream = Stream(pair, 1, write_ticket(pair), ROWS_SCHEMA).send(rows(0, 3))
    with pytest.raises(LeaseholdError) as caught:
        stream.end(mark)
    assert caught.value.code in {"BROKEN_STREAM", "BAD_MESSAGE"}
    until_gone(pair)
    assert files_of(pair, 1) == files_of(pair, 2) == []


def test_a_client_that_vanishes_leaves_nothing_on_any_replica(pair: Cluster) -> None:
    seen = threading.Event()
    pair.node(2).at_reading(1, seen.set)
    stream = Stream(pair, 1, write_ticket(pair), ROWS_SCHEMA).send(rows(0, 50_000))
    assert seen.wait(10), "the peer was asked"
    stream.vanish()
    until_gone(pair)
    assert files_of(pair, 1) == files_of(pair, 2) == []


def test_a_table_dropped_while_rows_come_ends_the_write(pair: Cluster) -> None:
    stream = Stream(pair, 1, write_ticket(pair), ROWS_SCHEMA).send(rows(0, 3))
    pair.hide(DROP_TABLE)
    with pytest.raises(LeaseholdError) as caught:
        stream.end(RowsEnd(rows=3))
    assert caught.value.code == "TABLE_DROPPED"
    until_gone(pair)
    assert files_of(pair, 1) == files_of(pair, 2) == []


def test_an_aborted_transaction_takes_no_rows(pair: Cluster) -> None:
    ticket = write_ticket(pair)
    record = pair.catalog.transactions[ticket.transaction]
    for state, code in (("ABORTED", "ABORTED"), ("COMMITTED", "TRANSACTION_ENDED")):
        pair.change(
            [put(keys.transaction(record.id), msgspec.structs.replace(record, state=type(record.state)(state)))]
        )
        with pytest.raises(LeaseholdError) as caught:
            Stream(pair, 1, ticket, ROWS_SCHEMA).end(RowsEnd(rows=0))
        assert caught.value.code == code


def test_a_segment_is_written_once(pair: Cluster) -> None:
    ticket = write_ticket(pair)
    Stream(pair, 1, ticket, ROWS_SCHEMA).send(rows(0, 3)).end(RowsEnd(rows=3))
    with pytest.raises(LeaseholdError) as caught:
        Stream(pair, 1, ticket, ROWS_SCHEMA).send(rows(0, 3)).end(RowsEnd(rows=3))
    assert caught.value.code == "ALREADY_EXISTS"


def test_one_write_too_many_is_told_so(pair: Cluster) -> None:
    pair.limit(writes_max=1)
    admitted = threading.Event()
    pair.node(1).at_reading(1, admitted.set)
    first = Stream(pair, 1, write_ticket(pair), ROWS_SCHEMA)
    assert admitted.wait(10)
    with pytest.raises(LeaseholdError) as caught:
        Stream(pair, 1, write_ticket(pair), ROWS_SCHEMA).end(RowsEnd(rows=0))
    assert caught.value.code == "BUSY"
    assert first.end(RowsEnd(rows=0)) is not None
    assert Stream(pair, 1, write_ticket(pair), ROWS_SCHEMA).end(RowsEnd(rows=0)) is not None


def test_the_encoding_is_one_for_all_schemas_of_a_client(pair: Cluster) -> None:
    """Rows that carry field ids already and rows that do not make the same file."""
    plain, tagged = write_ticket(pair), write_ticket(pair)
    schema = arrow_schema(pair.table.fields)
    batch = pa.RecordBatch.from_arrays(rows(0, 9).columns, schema=schema)
    first = expect(StagedSegment, Stream(pair, 1, plain, ROWS_SCHEMA).send(rows(0, 9)).end(RowsEnd(rows=9)))
    second = expect(StagedSegment, Stream(pair, 2, tagged, schema).send(batch).end(RowsEnd(rows=9)))
    assert first.sha256 == second.sha256
