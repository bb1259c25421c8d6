"""Rows out, through real sockets and real files on several nodes."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.client.scan import read_plan, read_segments
from leasehold.core.words.statements import Definition
from leasehold.errors import Refused, Unreachable
from leasehold.storage.servelog import read_serve_log
from tests.e2e.flight_words import append, first_holder, keys_of
from tests.unit.client.pace import paced
from tests.unit.node.cluster import DROP_TABLE, Cluster, add, cluster, drop_column, rename, rows


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        yield made


# ---------------------------------------------------------------- reading


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fences=st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), min_size=1, max_size=8))
def test_fences_in_the_middle_lose_and_double_no_row(read_only: Cluster, fences: list[tuple[int, int]]) -> None:
    """Both replicas are fenced after so many guards, again and again; each pause ends with a grant to both."""
    made, left = read_only, list(fences)

    def next_round(_: int) -> None:
        turn = left.pop(0) if left else None
        for place, node in enumerate(made.nodes):
            node.fence_after = None
            if turn is not None:
                node.fence_at_reading(turn[place])

    next_round(0)
    plan = made.plan()
    (segment,) = plan.segments
    found = [
        value for batch in read_segments(plan, (segment,), runtime=paced(next_round)) for value in batch[0].to_pylist()
    ]
    next_round(0)
    for node in made.nodes:
        node.fence_after = None
    assert found == list(range(4500))


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """4,500 rows in one segment on two nodes, served in five batches."""
    with cluster(tmp_path_factory.mktemp("read-only")) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        append(made, rows(0, 4500))
        yield made


@pytest.mark.parametrize("statement", [DROP_TABLE, drop_column("v")], ids=["table", "column"])
def test_a_drop_ends_a_running_scan_within_one_batch(pair: Cluster, statement: Definition) -> None:
    append(pair, rows(0, 50_000))
    plan = pair.plan()
    (segment,) = plan.segments
    # One look at the clock admits the scan, then one for each batch: the drop is seen by the guard of the third.
    pair.node(first_holder(pair)).at_reading(4, lambda: pair.hide(statement))
    found = []
    with pytest.raises(Refused) as caught:
        found.extend(batch.num_rows for batch in read_segments(plan, (segment,)))
    assert caught.value.code in {"TABLE_DROPPED", "COLUMN_DROPPED"}
    assert found == [1000, 1000]


def test_a_scan_keeps_the_columns_that_it_was_planned_with(pair: Cluster) -> None:
    append(pair, rows(0, 3))
    plan = pair.plan()
    pair.run(rename("v", "w"))
    pair.run(add("extra"))
    assert read_plan(plan).read_all().column_names == ["k", "v"]
    found = read_plan(pair.plan()).read_all()
    assert found.column("w").to_pylist() == ["v0", "v1", "v2"]
    assert found.column("extra").to_pylist() == [None] * 3


def test_a_column_made_again_does_not_show_the_old_values(pair: Cluster) -> None:
    append(pair, rows(0, 3))
    old_plan = pair.plan()
    pair.run(drop_column("v"))
    pair.run(add("v"))
    append(pair, rows(3, 2))
    values = read_plan(pair.plan()).read_all().sort_by("k").column("v").to_pylist()
    assert values == [None, None, None, "v3", "v4"]
    with pytest.raises(Refused) as caught:
        read_plan(old_plan).read_all()
    assert caught.value.code == "COLUMN_DROPPED"


def test_columns_can_be_left_out_even_all_of_them(pair: Cluster) -> None:
    append(pair, rows(0, 2300))
    assert read_plan(pair.plan("v")).read_all().column_names == ["v"]
    plan = pair.plan()
    counted = read_plan(type(plan)(facts=plan.facts, fields=(), segments=plan.segments))
    assert sum(batch.num_rows for batch in counted) == 2300


def test_a_damaged_replica_is_passed_over(pair: Cluster) -> None:
    (staged,) = append(pair, rows(0, 3000))
    path = pair.node(first_holder(pair)).files.path(staged.table, staged.bucket, staged.id)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert keys_of(read_plan(pair.plan()).read_all()) == list(range(3000))


def test_a_replica_without_the_file_is_passed_over(pair: Cluster) -> None:
    (staged,) = append(pair, rows(0, 3000))
    pair.node(first_holder(pair)).files.trash(staged.table, staged.bucket, staged.id)
    assert keys_of(read_plan(pair.plan()).read_all()) == list(range(3000))


def test_a_node_that_came_back_under_another_port_is_found(pair: Cluster) -> None:
    append(pair, rows(0, 3000))
    plan = pair.plan()
    for node in pair.nodes:
        pair.stop(node)
    pauses: list[int] = []

    def sleep(duration_ns: int) -> None:
        pauses.append(duration_ns)
        if len(pauses) == 1:
            pair.start(pair.node(2))

    found = read_plan(plan, runtime=paced(sleep), refresh=pair.facts, streams=1).read_all()
    assert keys_of(found) == list(range(3000))
    assert len(pauses) == 1


def test_a_silent_replica_is_left_for_the_next(pair: Cluster) -> None:
    append(pair, rows(0, 3000))
    released = threading.Event()
    pair.node(first_holder(pair)).at_reading(3, lambda: released.wait(20))
    try:
        found = read_plan(pair.plan(), batch_timeout_ns=300_000_000).read_all()
        assert keys_of(found) == list(range(3000))
    finally:
        released.set()


def test_a_slow_taker_of_rows_gets_them_all(pair: Cluster) -> None:
    """The deadline of the call passes while the rows wait: that is no fault of the replica."""
    wide = pa.record_batch({"k": pa.array(range(30_000), pa.int64()), "v": ["x" * 1000] * 30_000})
    append(pair, wide)
    plan = pair.plan()
    found = []
    for batch in read_segments(plan, (plan.segments[0],), batch_timeout_ns=150_000_000):
        found.extend(batch[0].to_pylist())
        threading.Event().wait(0.05)
    assert found == list(range(30_000))


def test_a_reader_gives_up_in_the_end_and_says_what_each_node_said(pair: Cluster) -> None:
    append(pair, rows(0, 10))
    pair.node(1).fence()
    pair.stop(pair.node(2))
    clock = [0]

    def sleep(duration_ns: int) -> None:
        clock[0] += duration_ns * 100

    with pytest.raises(Unreachable) as caught:
        read_plan(pair.plan(), runtime=paced(sleep, lambda: clock[0])).read_all()
    assert caught.value.code == "NO_REPLICA"
    assert "node 1 (n1) has been fenced for" in caught.value.text
    assert "node 2 (n2): 127.0.0.1:" in caught.value.text


def test_a_reader_that_goes_away_leaves_no_thread_behind(pair: Cluster) -> None:
    for start in range(8):
        append(pair, rows(start * 20_000, 20_000))
    reader = read_plan(pair.plan())
    reader.read_next_batch()
    reading = [one for one in threading.enumerate() if one.name.startswith("scan")]
    assert reading
    del reader
    for thread in reading:
        thread.join(10)
        assert not thread.is_alive()


def test_rows_past_the_horizon_are_gone(tmp_path: Path) -> None:
    with cluster(tmp_path, batch_rows=4) as made:
        made.create(("k", "BIGINT"), ("at", "TIMESTAMP"), ttl_ns=1, time_column="at")
        times = pa.array([5, 100, None, 99, 101, 1, 2, 3, 4, 200], pa.int64()).cast(pa.timestamp("us", "UTC"))
        append(made, pa.record_batch({"k": pa.array(range(10), pa.int64()), "at": times}))
        assert keys_of(read_plan(made.plan()).read_all()) == list(range(10))
        made.expire_before(100)
        assert keys_of(read_plan(made.plan()).read_all()) == [1, 2, 4, 9]
        # The column decides even where it was not asked for.
        assert read_plan(made.plan("k")).read_all().to_pydict() == {"k": [1, 2, 4, 9]}
        plan = made.plan()
        none = type(plan)(facts=plan.facts, fields=(), segments=plan.segments)
        assert sum(batch.num_rows for batch in read_plan(none)) == 4


def test_rows_that_expire_in_the_middle_of_a_scan_stay_in_it(tmp_path: Path) -> None:
    with cluster(tmp_path, batch_rows=4) as made:
        made.create(("k", "BIGINT"), ("day", "DATE"), ttl_ns=1, time_column="day")
        days = pa.array([1, 9, 1, 9, 1, 9, 1, 9, 1, 9], pa.int32()).cast(pa.date32())
        append(made, pa.record_batch({"k": pa.array(range(10), pa.int64()), "day": days}))
        plan = made.plan("k")
        node = made.node(first_holder(made))
        node.at_reading(3, lambda: made.expire_before(5 * 86_400_000_000))
        found = [value for one in read_segments(plan, (plan.segments[0],)) for value in one[0].to_pylist()]
        assert found == list(range(10)), "the horizon is that of the plan"


# ---------------------------------------------------------------- what is written down


def test_every_released_batch_is_in_the_serve_log(pair: Cluster) -> None:
    append(pair, rows(0, 2500))
    node = pair.node(first_holder(pair))
    node.grant(sequence=7)
    plan = pair.plan()
    read_plan(plan).read_all()
    log = list(read_serve_log(node.root / "servelog"))
    assert len(log) == 3
    for one in log:
        assert (one.node, one.incarnation, one.table) == (node.id, 1, plan.facts.table)
        assert (one.view, one.term, one.sequence) == (pair.catalog.revision, 1, 7)
        assert one.deadline_ns == node.published.lease.deadline_ns
        assert one.released_ns < one.deadline_ns
    assert len({one.request for one in log}) == 1
    assert [one.released_ns for one in log] == sorted(one.released_ns for one in log)
