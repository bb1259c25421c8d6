"""Which rows a DELETE and the expiry horizon hide: decided with each batch, on the view of its guard."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from leasehold.client.append import stage
from leasehold.client.scan import read_plan
from leasehold.core.catalog.plan import put
from leasehold.core.data.hidden_rows import NOTHING, Hidings
from leasehold.core.ddl import roll_back
from leasehold.core.replicas.rewrite import DAY_US, worth_rewriting
from leasehold.core.words import keys
from leasehold.core.words.messages import Replaced
from leasehold.core.words.records import HorizonRecord
from leasehold.core.words.statements import Condition, DeleteRows, Literal
from leasehold.errors import Refused
from leasehold.storage.schema import arrow_type
from tests.unit.core.catalog_words import released
from tests.unit.node.cluster import NAME, Cluster, cluster, drop_column, rename, rows
from tests.unit.node.serving.test_scans import append, read, refused, segment_of

NAN = float("nan")
LAST_DAY = 2**31 - 1


def delete(*conditions: tuple[str, str, str], kind: str = "number") -> DeleteRows:
    where = [Condition(column=one, operator=sign, value=Literal(kind, text)) for one, sign, text in conditions]
    return DeleteRows(table=NAME, where=tuple(where))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    """2,500 rows in one segment on two nodes, served in batches of 1,000."""
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        append(made, rows(0, 2500))
        yield made


def left(
    tmp_path: Path, kind: str, values: list[object], sign: str, text: str, literal: str = "number"
) -> list[object]:
    with cluster(tmp_path, nodes=1) as made:
        made.create(("x", kind), replication=1)
        append(made, pa.record_batch({"x": pa.array(values, arrow_type(kind))}))
        made.run(delete(("x", sign, text), kind=literal))
        return read_plan(made.plan()).read_all()["x"].to_pylist()


@pytest.mark.parametrize(
    ("sign", "wanted"),
    [
        ("=", [None, -1.0, 2.0, NAN, float("inf"), float("-inf")]),
        ("<", [None, 0.5, 2.0, NAN, float("inf")]),
        ("<=", [None, 2.0, NAN, float("inf")]),
        (">", [None, -1.0, 0.5, float("-inf")]),
        (">=", [None, -1.0, float("-inf")]),
    ],
)
@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_a_null_fulfils_nothing_and_nan_lies_above_all_numbers(
    tmp_path: Path, kind: str, sign: str, wanted: list[object]
) -> None:
    values = [None, -1.0, 0.5, 2.0, NAN, float("inf"), float("-inf")]
    assert repr(left(tmp_path, kind, values, sign, "0.5")) == repr(wanted)


@pytest.mark.parametrize(
    ("kind", "values", "literal", "text", "wanted"),
    [
        ("BOOLEAN", [True, False, None], "boolean", "false", [True, None]),
        ("TINYINT", [-128, 127, None], "number", "-128", [127, None]),
        ("DECIMAL(5,2)", [Decimal("1.50"), Decimal("1.51")], "number", "1.5", [Decimal("1.51")]),
        ("STRING", ["a", "A", "a ", None], "string", "a", ["A", "a ", None]),
        ("BINARY", [b"\x00", b"\x00\x00"], "binary", "00", [b"\x00\x00"]),
        ("FLOAT", [0.0, -0.0, 1.0], "number", "0", [1.0]),
    ],
)
def test_each_type_compares_with_its_literal(
    tmp_path: Path, kind: str, values: list[object], literal: str, text: str, wanted: list[object]
) -> None:
    assert left(tmp_path, kind, values, "=", text, literal) == wanted


def test_dates_and_instants_compare_with_what_people_write(tmp_path: Path) -> None:
    with cluster(tmp_path, nodes=1) as made:
        made.create(("day", "DATE"), ("at", "TIMESTAMP"), replication=1)
        days = pa.array([0, 1, 2], pa.int32()).cast(pa.date32())
        instants = pa.array([-1, 0, 1_000_000], pa.int64()).cast(pa.timestamp("us", "UTC"))
        append(made, pa.record_batch({"day": days, "at": instants}))
        made.run(delete(("day", ">=", "1970-01-03"), kind="string"))
        made.run(delete(("at", "<", "1970-01-01T00:00:00Z"), kind="string"))
        assert read_plan(made.plan()).read_all()["day"].cast(pa.int32()).to_pylist() == [1]


# ---------------------------------------------------------------- what is decided when


def keys_of(made: Cluster, *, node: int = 1, **ticket: object) -> list[int]:
    request = made.read_ticket(segment_of(made), **ticket)
    return [value for batch, _ in read(made.node(node), request) for value in batch["k"].to_pylist()]


def test_a_delete_hides_from_its_pre_state_on_and_gives_back_what_is_rolled_back(pair: Cluster) -> None:
    procedure = pair.hide(delete(("k", "<", "2000")))
    assert keys_of(pair) == list(range(2000, 2500))
    pair.change(roll_back(procedure, pair.catalog, elapsed_ns=1))
    assert keys_of(pair) == list(range(2500))
    pair.run(delete(("k", "<", "2000")))
    assert keys_of(pair) == list(range(2000, 2500))


def test_a_delete_between_two_batches_concerns_the_second(pair: Cluster) -> None:
    """The columns that tell are read from there on, also where the scan did not ask for them."""
    (field,) = pair.plan("v").fields
    request = pair.read_ticket(segment_of(pair), fields=(field,))
    pair.node(1).at_reading(3, lambda: pair.run(delete(("k", "<", "1500"))))
    found = read(pair.node(1), request)
    assert [batch.num_rows for batch, _ in found] == [1000, 500, 500]
    assert [mark.next_row for _, mark in found] == [1000, 2000, 2500]
    assert found[1][0].schema.names == ["v"]
    assert found[1][0]["v"][0].as_py() == "v1500"


def test_a_delete_that_is_rolled_back_between_two_batches_hides_nothing_after(pair: Cluster) -> None:
    def give_back() -> None:
        (procedure,) = pair.catalog.procedures.values()
        pair.change(roll_back(procedure, pair.catalog, elapsed_ns=1))

    request = pair.read_ticket(segment_of(pair))
    pair.catalog = msgspec.structs.replace(pair.catalog, procedures=type(pair.catalog.procedures)())
    pair.hide(delete(("k", ">=", "0")))
    pair.node(1).at_reading(3, give_back)
    assert [batch.num_rows for batch, _ in read(pair.node(1), request)] == [0, 1000, 500]


def test_rows_that_are_all_hidden_are_progress(pair: Cluster) -> None:
    pair.run(delete(("k", ">=", "0")))
    found = read(pair.node(1), pair.read_ticket(segment_of(pair)))
    assert [(batch.num_rows, mark.next_row) for batch, mark in found] == [(0, 1000), (0, 2000), (0, 2500)]
    assert read_plan(pair.plan()).read_all().num_rows == 0
    assert read_plan(pair.plan()).schema.names == ["k", "v"]


def test_a_reader_goes_on_elsewhere_from_the_row_of_the_file(pair: Cluster) -> None:
    pair.run(delete(("k", "<", "1200")))
    (_, mark), *_ = read(pair.node(1), pair.read_ticket(segment_of(pair)))
    assert keys_of(pair, node=2, row_offset=mark.next_row) == list(range(1200, 2500))


def test_only_rows_that_were_there_before_are_deleted(pair: Cluster) -> None:
    pair.run(delete(("k", "<", "10")))
    append(pair, rows(0, 5))
    found = read_plan(pair.plan()).read_all()["k"].to_pylist()
    assert sorted(found) == [*range(5), *range(10, 2500)]


def test_several_deletes_add_up_and_the_conditions_of_one_must_all_hold(pair: Cluster) -> None:
    pair.run(delete(("k", ">=", "10"), ("k", "<", "2400")))
    pair.run(delete(("k", "=", "3")))
    assert keys_of(pair) == [0, 1, 2, *range(4, 10), *range(2400, 2500)]


def test_counting_rows_counts_those_that_are_left(pair: Cluster) -> None:
    pair.run(delete(("k", "<", "2400")))
    found = read(pair.node(1), pair.read_ticket(segment_of(pair), fields=()))
    assert sum(batch.num_rows for batch, _ in found) == 100


def test_a_renamed_column_still_tells_and_a_dropped_one_must_not_go(pair: Cluster) -> None:
    pair.run(delete(("k", "<", "2400")))
    pair.run(rename("k", "key"))
    assert read_plan(pair.plan()).read_all()["key"].to_pylist() == list(range(2400, 2500))
    with pytest.raises(Refused) as caught:
        pair.run(drop_column("key"))
    assert caught.value.code == "COLUMN_IN_USE"


def test_a_scan_without_deletes_and_expiry_reads_nothing_beside(pair: Cluster) -> None:
    view, segment = pair.catalog, segment_of(pair)
    assert Hidings().of(pair.table, segment, view) is NOTHING
    pair.run(delete(("k", ">", "9999")))
    assert Hidings().of(pair.table, segment, pair.catalog).fields == (), "its statistics rule the segment out"


# ---------------------------------------------------------------- expiry


def test_a_horizon_that_is_only_tried_hides_and_gives_back(tmp_path: Path) -> None:
    with cluster(tmp_path, nodes=1) as made:
        made.create(("k", "BIGINT"), ("at", "TIMESTAMP"), replication=1, ttl_ns=1, time_column="at")
        times = pa.array([1, 50, 200, None], pa.int64()).cast(pa.timestamp("us", "UTC"))
        append(made, pa.record_batch({"k": pa.array(range(4), pa.int64()), "at": times}))
        made.expire_before(20)
        assert keys_of(made) == [1, 2, 3]
        known = made.catalog.horizons[made.table.id]
        made.change([put(keys.horizon(made.table.id), msgspec.structs.replace(known, hidden_us=100))])
        assert keys_of(made) == [2, 3]
        made.change([put(keys.horizon(made.table.id), known)])
        assert keys_of(made) == [1, 2, 3]
        made.change([put(keys.horizon(made.table.id), HorizonRecord(table=made.table.id, horizon_us=-(2**63)))])
        assert keys_of(made) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("horizon_us", "days"),
    [
        (0, [0, 1, LAST_DAY]),
        (1, [1, LAST_DAY]),
        (DAY_US, [1, LAST_DAY]),
        (DAY_US + 1, [LAST_DAY]),
        (-DAY_US - 1, [-1, 0, 1, LAST_DAY]),
        (2**63 - 1, [LAST_DAY]),
        (-(2**63), [-1, 0, 1, LAST_DAY]),
    ],
)
def test_days_of_which_no_instant_can_be_told_expire_as_all_others(
    tmp_path: Path, horizon_us: int, days: list[int]
) -> None:
    """The farthest DATE, and the farthest horizon, are beyond what microseconds count."""
    with cluster(tmp_path, nodes=1) as made:
        made.create(("k", "BIGINT"), ("day", "DATE"), replication=1, ttl_ns=1, time_column="day")
        written: list[int | None] = [-LAST_DAY - 1, -1, 0, 1, LAST_DAY, None]
        column = pa.array(written, pa.int32()).cast(pa.date32())
        append(made, pa.record_batch({"k": pa.array(range(6), pa.int64()), "day": column}))
        made.expire_before(horizon_us)
        assert [written[one] for one in keys_of(made)] == [*days, None]


def test_expiry_and_deletes_hide_together(tmp_path: Path) -> None:
    with cluster(tmp_path, nodes=1) as made:
        made.create(("k", "BIGINT"), ("at", "TIMESTAMP"), replication=1, ttl_ns=1, time_column="at")
        times = pa.array([1, 50, 200, 200], pa.int64()).cast(pa.timestamp("us", "UTC"))
        append(made, pa.record_batch({"k": pa.array(range(4), pa.int64()), "at": times}))
        made.expire_before(20)
        made.run(delete(("k", "=", "2")))
        assert keys_of(made) == [1, 3]


# ---------------------------------------------------------------- after a rewrite


def test_a_scan_planned_before_a_rewrite_goes_on_until_what_it_reads_is_released(pair: Cluster) -> None:
    request = pair.read_ticket(segment_of(pair))
    pair.run(delete(("k", "<", "2400")))
    (old,) = worth_rewriting(pair.table, pair.catalog)
    kept = read_plan(pair.plan()).read_all().to_batches()
    transaction = pair.open()
    staged = stage(pair.facts(), transaction, kept, pair.catalog.revision)
    replaces = (Replaced(bucket=old.bucket, segment=old.id),)
    pair.commit(transaction, staged, replaces=replaces, deletes=pair.table.deletes)
    assert segment_of(pair).rows == 100
    assert keys_of(pair) == list(range(2400, 2500))
    before = [value for batch, _ in read(pair.node(2), request) for value in batch["k"].to_pylist()]
    assert before == list(range(2400, 2500)), "what was deleted stays so in the old segment"
    pair.change(released(pair.catalog))
    assert refused(pair.node(1), request) == "SEGMENT_UNKNOWN"
    assert pair.table.id not in pair.catalog.deletes
