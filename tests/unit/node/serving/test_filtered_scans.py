"""Scans with conditions: rows are filtered where they lie, and counted as they lie in the file."""

from collections.abc import Iterator

import msgspec
import pytest

from leasehold.core.words.messages import FieldFilter
from leasehold.core.words.statements import DropColumn
from leasehold.limits.statements import FILTER_VALUES_MAX, FILTERS_MAX
from tests.unit.node.cluster import NAME, Cluster, cluster, rows
from tests.unit.node.disk.test_masks import delete
from tests.unit.node.serving.test_scans import append, read, refused, segment_of


@pytest.fixture
def one(tmp_path) -> Iterator[Cluster]:
    """2,500 rows in one segment, served in batches of 1,000."""
    with cluster(tmp_path, nodes=1) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"), replication=1)
        append(made, rows(0, 2500))
        yield made


def where(made: Cluster, column: str, operator: str, *values: str) -> FieldFilter:
    (field,) = made.plan(column).fields
    return FieldFilter(field=field, operator=operator, values=values)


def of_another(made: Cluster, operator: str, *values: str, **changed: str) -> FieldFilter:
    """On a column k that is not as the leader knows it."""
    known = where(made, "k", operator, *values)
    return msgspec.structs.replace(known, field=msgspec.structs.replace(known.field, **changed))


@pytest.mark.parametrize("offset", [2500, 2501, 10**12])
def test_no_rows_are_counted_behind_the_last(one: Cluster, offset: int) -> None:
    assert read(one.node(1), one.read_ticket(segment_of(one), fields=(), row_offset=offset)) == []


def test_only_rows_that_fulfil_the_conditions_travel_and_marks_count_all(one: Cluster) -> None:
    """The column of the condition is not among those that are asked for."""
    request = one.read_ticket(segment_of(one), fields=one.plan("v").fields)
    full = read(one.node(1), request)
    found = read(one.node(1), msgspec.structs.replace(request, where=(where(one, "k", ">=", "1998"),)))
    values = [batch["v"].to_pylist() for batch, _ in found]
    assert values == [[], full[1][0]["v"].to_pylist()[998:], full[2][0]["v"].to_pylist()]
    assert [mark.next_row for _, mark in found] == [1000, 2000, 2500]
    assert all(batch.schema.equals(full[0][0].schema) for batch, _ in found)


@pytest.mark.parametrize("offset", [0, 1, 1500, 2499])
def test_a_reader_goes_on_from_any_row(one: Cluster, offset: int) -> None:
    conditions = (where(one, "k", "<", "2000"), where(one, "k", "IN", "1", "1999", "2400"))
    request = one.read_ticket(segment_of(one), fields=one.plan("k").fields, where=conditions, row_offset=offset)
    found = read(one.node(1), request)
    assert [key for batch, _ in found for key in batch["k"].to_pylist()] == [n for n in (1, 1999) if n >= offset]
    assert found[-1][1].next_row == 2500


def test_deleted_rows_stay_hidden_and_those_that_do_not_match_end_no_query(one: Cluster) -> None:
    planned = one.planned_ticket(segment_of(one), where=(where(one, "k", "<", "10"),))
    one.run(delete(("k", ">=", "5")))
    assert refused(one.node(1), planned) == "ROWS_TAKEN_AWAY", "rows from 5 to 9 are gone since the plan"
    planned = one.planned_ticket(segment_of(one), where=(where(one, "k", "<", "10"),))
    assert [key for batch, _ in read(one.node(1), planned) for key in batch["k"].to_pylist()] == [0, 1, 2, 3, 4]
    planned = one.planned_ticket(segment_of(one), where=(where(one, "k", "<", "3"),))
    one.run(delete(("k", "=", "4")))
    assert [key for batch, _ in read(one.node(1), planned) for key in batch["k"].to_pylist()] == [0, 1, 2]


def test_a_condition_on_a_column_that_was_dropped_is_refused(one: Cluster) -> None:
    request = one.read_ticket(segment_of(one), fields=one.plan("k").fields, where=(where(one, "v", "IS NOT NULL"),))
    one.run(DropColumn(table=NAME, column="v"))
    assert refused(one.node(1), request) == "COLUMN_DROPPED"


def test_rows_are_counted_without_the_file(one: Cluster) -> None:
    """The manifest has their number; with a DELETE the column that tells is read."""
    segment = segment_of(one)
    path = one.node(1).files.path(segment.table, segment.bucket, segment.id)
    content = path.read_bytes()
    path.write_bytes(b"")
    request = one.read_ticket(segment, fields=())
    assert [(batch.num_rows, mark.next_row) for batch, mark in read(one.node(1), request)] == [(2500, 2500)]
    later = msgspec.structs.replace(request, row_offset=2400)
    assert [batch.num_rows for batch, _ in read(one.node(1), later)] == [100]
    path.write_bytes(content)
    one.run(delete(("k", "<", "600")))
    request = one.read_ticket(segment, fields=())
    assert sum(batch.num_rows for batch, _ in read(one.node(1), request)) == 1900


@pytest.mark.parametrize("words", [{"name": "n" * 300}, {"comment": "c" * 2_000}, {"default": "1" * 10_000}])
def test_columns_with_longer_words_than_statements_give_are_no_ticket(one: Cluster, words: dict[str, str]) -> None:
    request = one.read_ticket(segment_of(one))
    fields = tuple(msgspec.structs.replace(field, **words) for field in request.fields)
    assert refused(one.node(1), msgspec.structs.replace(request, fields=fields)) == "BAD_TICKET"


@pytest.mark.parametrize("code", ["BAD_TICKET", "BAD_VALUE", "BAD_MESSAGE"])
def test_conditions_that_no_leader_plans_are_refused(one: Cluster, code: str) -> None:
    wrong = {
        "BAD_TICKET": [
            (where(one, "k", "="),),
            (where(one, "k", "IS NULL", "1"),),
            (where(one, "k", "IN"),),
            (where(one, "k", "=", "one"),),
            (where(one, "k", "STARTS WITH", "1"),),
            (where(one, "v", "=", "x" * 10_000),),
            (where(one, "k", "IN", *["1"] * (FILTER_VALUES_MAX + 1)),),
            (of_another(one, "=", "1", initial="one"),),
            (of_another(one, "=", "nan", type="DOUBLE"),),
            (of_another(one, "<", "sNaN", type="DECIMAL(9,2)"),),
            (where(one, "k", "=", "1"), of_another(one, "STARTS WITH", "1", type="STRING")),
        ],
        "BAD_VALUE": [(where(one, "k", "IN", "1", str(2**63)),)],
        "BAD_MESSAGE": [(where(one, "k", "=", "1"),) * (FILTERS_MAX + 1)],
    }
    for conditions in wrong[code]:
        assert refused(one.node(1), one.read_ticket(segment_of(one), where=conditions)) == code, conditions
    assert read(one.node(1), one.read_ticket(segment_of(one))), "it serves on"
